#include "client/store/packs/placed_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/file_hook.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/hollow_packs.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

constexpr PlacedChunks::Memory kPlenty{std::uint64_t{1} << 20, std::uint64_t{1} << 20};

class PlacedChunksTest : public testing::Test {
 protected:
  PlacedChunksTest() { EXPECT_TRUE(chunks_.Open().ok()); }

  static bool IsAt(PlacedChunks& chunks, const std::string& content, const PackId& pack,
                   std::uint32_t chunk_index) {
    const auto place = chunks.At(RefOf(content), EncodeLocator(pack, chunk_index));
    if (!place.has_value()) return false;
    EXPECT_EQ(place->locator(), EncodeLocator(pack, chunk_index));
    EXPECT_EQ(place->chunk().digest, RefOf(content).digest);
    return true;
  }
  std::string PathOf(const PackId& id) const { return PackPathIn(chunks_.packs_directory(), id); }

  TestStore store_;
  PlacedChunks chunks_{store_.store().packs_directory(), kPlenty};
};

TEST_F(PlacedChunksTest, AChunkIsWhereAFooterSaysThatItIs) {
  const SealedPack one = store_.WritePack({"one", "two"});
  const SealedPack other = store_.WritePack({"two", "one"});
  EXPECT_TRUE(IsAt(chunks_, "one", one.id, 0));
  EXPECT_TRUE(IsAt(chunks_, "two", one.id, 1));
  EXPECT_TRUE(IsAt(chunks_, "one", other.id, 1));
  // Footers, and not the names, say what lies where.
  EXPECT_FALSE(IsAt(chunks_, "one", one.id, 1));
  EXPECT_FALSE(IsAt(chunks_, "one", one.id, 2));
  EXPECT_FALSE(IsAt(chunks_, "one", one.id, 0xffffffff));
  EXPECT_FALSE(IsAt(chunks_, "three", one.id, 0));
  EXPECT_FALSE(IsAt(chunks_, "one", *ParsePackId(std::string(32, 'a')), 0));
}

TEST_F(PlacedChunksTest, AnotherLengthIsAnotherChunk) {
  const SealedPack pack = store_.WritePack({"chunk"});
  ChunkRef chunk = RefOf("chunk");
  EXPECT_TRUE(chunks_.At(chunk, EncodeLocator(pack.id, 0)).has_value());
  ++chunk.length_bytes;
  EXPECT_FALSE(chunks_.At(chunk, EncodeLocator(pack.id, 0)).has_value());
  EXPECT_TRUE(chunks_.At(chunk.digest, EncodeLocator(pack.id, 0)).has_value());
}

TEST_F(PlacedChunksTest, WhatIsNoLocatorNamesNothing) {
  const SealedPack pack = store_.WritePack({"chunk"});
  const std::string locator = EncodeLocator(pack.id, 0);
  for (const std::string& text : {std::string(), std::string("place"), locator.substr(1),
                                  locator + '\0', std::string(1 << 20, 'x')}) {
    EXPECT_FALSE(chunks_.At(RefOf("chunk"), text).has_value());
  }
}

TEST_F(PlacedChunksTest, APackThatIsGoneHoldsNothing) {
  const SealedPack pack = store_.WritePack({"chunk"});
  std::filesystem::remove(PathOf(pack.id));
  EXPECT_FALSE(IsAt(chunks_, "chunk", pack.id, 0));
  // Though it was there when the packs were listed.
  const SealedPack listed = store_.WritePack({"listed"});
  PlacedChunks later(store_.store().packs_directory(), kPlenty);
  ASSERT_TRUE(later.Open().ok());
  const std::string path = PathOf(listed.id);
  std::filesystem::rename(path, path + ".away");
  EXPECT_FALSE(IsAt(later, "listed", listed.id, 0));
  // It may come yet.
  std::filesystem::rename(path + ".away", path);
  EXPECT_TRUE(IsAt(later, "listed", listed.id, 0));
}

TEST_F(PlacedChunksTest, ADamagedFooterSaysNothingAndIsReadOnce) {
  const SealedPack pack = store_.WritePack({"chunk"});
  const std::string whole = ReadTestFile(PathOf(pack.id));
  for (const std::size_t at : {whole.size() - 1, whole.size() - 70, whole.size() - 30}) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    WriteTestFile(PathOf(pack.id), damaged);
    PlacedChunks chunks(store_.store().packs_directory(), kPlenty);
    ASSERT_TRUE(chunks.Open().ok());
    for (int round = 0; round < 3; ++round) EXPECT_FALSE(IsAt(chunks, "chunk", pack.id, 0));
    EXPECT_EQ(chunks.footers().read_count(), 1u);
  }
}

enum class Looks { kAtThePlace, kAtAllPacks };

class DurablePlaceTest : public PlacedChunksTest, public testing::WithParamInterface<Looks> {};

// Of a pack that another agent has sealed, which may die before it has made the name durable.
TEST_P(DurablePlaceTest, APackCountsOnlyOnceItsNameIsDurable) {
  const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
  DiskHook disk(folder.path());
  TestStore store(folder.path());
  PlacedChunks chunks(store.store().packs_directory(), kPlenty);
  ASSERT_TRUE(chunks.Open().ok());
  disk.RefuseWith(RefuseEvery(FileOperation::Kind::kSyncDirectory, "/packs/",
                              absl::UnknownError("Input/output error")));
  std::optional<PackId> id;
  {
    PackWriter another(store.writer_options());
    const std::string content = "content";
    const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(content.data()),
                                              content.size());
    ASSERT_TRUE(another.Add(RefOf(content).digest, bytes).ok());
    ASSERT_FALSE(another.Flush().ok());
    const auto ids = ListPacks(store.store().packs_directory());
    ASSERT_TRUE(ids.ok() && ids->size() == 1);
    id = ids->front();
  }
  EXPECT_FALSE(IsAt(chunks, "content", *id, 0));
  EXPECT_FALSE(IsAt(chunks, "content", *id, 0)) << "its footer was read meanwhile";
  PlacedChunks later(store.store().packs_directory(), kPlenty);
  EXPECT_FALSE(later.Open().ok());
  // Nor at the end, when all packs are looked through.
  const auto visit_all = [&store] {
    return VisitDurablePacks(store.store().packs_directory(), [](const KnownPack&) {});
  };
  EXPECT_FALSE(visit_all().ok());
  disk.RefuseWith({});
  EXPECT_FALSE(disk.Survives(RefOf("content").digest));
  EXPECT_TRUE(GetParam() == Looks::kAtThePlace ? IsAt(chunks, "content", *id, 0)
                                               : visit_all().ok());
  EXPECT_TRUE(disk.Survives(RefOf("content").digest));
}

INSTANTIATE_TEST_SUITE_P(All, DurablePlaceTest,
                         testing::Values(Looks::kAtThePlace, Looks::kAtAllPacks));

TEST_F(PlacedChunksTest, FootersTakeNoMoreMemoryThanTheyMay) {
  Random random(TestSeed());
  std::vector<SealedPack> packs;
  std::vector<std::string> firsts;
  std::uint64_t footer_bytes = 0;
  for (int number = 0; number < 40; ++number) {
    std::vector<std::string> contents;
    for (std::uint64_t count = random.Between(1, 20); count > 0; --count) {
      contents.push_back(Cat("pack ", number, " chunk ", count));
    }
    packs.push_back(store_.WritePack(contents));
    firsts.push_back(contents.front());
    footer_bytes =
        std::max(footer_bytes, KnownPack{packs.back().id, packs.back().footer}.memory_bytes());
  }
  const std::uint64_t max_bytes = 4 * footer_bytes;
  PlacedChunks chunks(store_.store().packs_directory(), {max_bytes, 0});
  ASSERT_TRUE(chunks.Open().ok());
  for (int round = 0; round < 500; ++round) {
    const std::size_t at = random.Below(packs.size());
    ASSERT_TRUE(IsAt(chunks, firsts[at], packs[at].id, 0));
    ASSERT_LE(chunks.footers().size_bytes(), max_bytes);
  }
  EXPECT_GT(chunks.footers().size_bytes(), 0u);
  // Those that were used last are kept.
  const std::uint64_t read_before = chunks.footers().read_count();
  for (int round = 0; round < 100; ++round) ASSERT_TRUE(IsAt(chunks, firsts[7], packs[7].id, 0));
  EXPECT_LE(chunks.footers().read_count(), read_before + 1);
  // Where not even one fits none is kept, and all is said as ever.
  PlacedChunks none(store_.store().packs_directory(), {0, 0});
  ASSERT_TRUE(none.Open().ok());
  EXPECT_TRUE(IsAt(none, firsts[7], packs[7].id, 0));
  EXPECT_EQ(none.footers().size_bytes(), 0u);
}

TEST_F(PlacedChunksTest, OfItsOwnPacksTheLastOnesAreRemembered) {
  Random random(TestSeed());
  constexpr std::uint64_t kOwnBytes = 3000;
  PlacedChunks chunks(store_.store().packs_directory(), {1 << 20, kOwnBytes});
  ASSERT_TRUE(chunks.Open().ok());
  std::map<std::string, std::string> last_locators;
  std::size_t forgotten_count = 0;
  for (int number = 0; number < 100; ++number) {
    std::vector<std::string> contents;
    for (std::uint64_t count = random.Between(1, 5); count > 0; --count) {
      contents.push_back(Cat("chunk ", random.Below(60)));
    }
    const SealedPack pack = store_.WritePack(contents);
    chunks.AddPack(pack);
    for (std::uint32_t at = 0; at < contents.size(); ++at) {
      last_locators[contents[at]] = EncodeLocator(pack.id, at);
    }
    ASSERT_LE(chunks.own_bytes(), kOwnBytes);
    for (std::uint32_t at = 0; at < contents.size(); ++at) {
      const auto place = chunks.FindOwn(RefOf(contents[at]).digest);
      ASSERT_TRUE(place.has_value());
      ASSERT_EQ(place->locator(), last_locators[contents[at]]);
    }
    for (const auto& [content, locator] : last_locators) {
      const auto place = chunks.FindOwn(RefOf(content).digest);
      if (!place.has_value()) ++forgotten_count;
      if (place.has_value()) {
        ASSERT_EQ(place->locator(), locator);
      }
      // What is forgotten is still where it is.
      ASSERT_TRUE(chunks.At(RefOf(content), locator).has_value());
    }
  }
  EXPECT_GT(forgotten_count, 0u);
}

TEST_F(PlacedChunksTest, IsAskedByManyAtOnce) {
  std::vector<SealedPack> packs;
  packs.reserve(16);
  for (int number = 0; number < 16; ++number) {
    packs.push_back(store_.WritePack({Cat("chunk ", number), "both"}));
  }
  PlacedChunks chunks(store_.store().packs_directory(), {2000, 1000});
  ASSERT_TRUE(chunks.Open().ok());
  std::atomic<int> wrong_count = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (unsigned thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        Random random(thread);
        for (int round = 0; round < 200; ++round) {
          const std::size_t at = random.Below(packs.size());
          if (!IsAt(chunks, Cat("chunk ", at), packs[at].id, 0)) ++wrong_count;
          if (IsAt(chunks, Cat("chunk ", at), packs[at].id, 1)) ++wrong_count;
          if (random.OneIn(10)) chunks.AddPack(packs[at]);
          if (const auto place = chunks.FindOwn(RefOf("both").digest)) {
            if (place->chunk().digest != RefOf("both").digest) ++wrong_count;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong_count, 0);
}

TEST_F(PlacedChunksTest, AChunkThatWasMovedIsFoundWhereThatIsWanted) {
  const SealedPack pack = store_.WritePack({"other", "chunk"});
  NamedPlaces stays(chunks_, NamedPlaces::Moved::kStaysAway);
  NamedPlaces sought(chunks_, NamedPlaces::Moved::kIsLookedFor);
  for (NamedPlaces* places : {&stays, &sought}) {
    places->Name(RefOf("chunk"), EncodeLocator(pack.id, 1));
    places->Name(RefOf("elsewhere"), "no locator");
    ChunkReader reader(*places, {});
    EXPECT_TRUE(reader.Read(RefOf("chunk")).ok());
    EXPECT_TRUE(absl::IsNotFound(reader.Read(RefOf("elsewhere")).status()));
  }
  // As a collection does, while the footer is in memory.
  const SealedPack moved = store_.WritePack({"chunk"});
  std::filesystem::remove(PathOf(pack.id));
  ChunkReader reader(sought, {});
  EXPECT_TRUE(reader.Read(RefOf("chunk")).ok());
  EXPECT_EQ(sought.Locate(RefOf("chunk").digest)->pack->id, moved.id);
  ChunkReader other_reader(stays, {});
  EXPECT_TRUE(absl::IsNotFound(other_reader.Read(RefOf("chunk")).status()));
}

// Two collections, one behind the other, while somebody looks through all packs.
TEST_F(PlacedChunksTest, AChunkThatIsMovedWhileAllPacksAreVisitedIsNotMissed) {
  const std::string& packs = chunks_.packs_directory();
  std::map<PackId, std::string> content_of;
  for (int number = 0; number < 8; ++number) {
    const std::string content = Cat("chunk ", number);
    content_of[store_.WritePack({content}).id] = content;
  }
  std::set<Digest> seen;
  int moved_count = 0;
  const absl::Status status = VisitDurablePacks(packs, [&](const KnownPack& pack) {
    seen.insert(pack.footer.chunks.front().digest);
    if (moved_count == 14) return;
    // All that has not been visited yet, or may have been: durable in a new pack before it goes.
    std::map<PackId, std::string> moved;
    for (const auto& [id, content] : content_of) {
      if (id == pack.id || moved_count == 14) {
        moved[id] = content;
        continue;
      }
      moved[store_.WritePack({content}).id] = content;
      std::filesystem::remove(PathOf(id));
      ++moved_count;
    }
    content_of = std::move(moved);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_EQ(moved_count, 14);
}

TEST_F(PlacedChunksTest, TheVisitOfAllPacksEndsOnceNobodyWantsIt) {
  for (int number = 0; number < 8; ++number) store_.WritePack({Cat("chunk ", number)});
  int visit_count = 0;
  const absl::Status status = VisitDurablePacks(
      chunks_.packs_directory(), [&](const KnownPack&) { ++visit_count; },
      [&] { return visit_count == 3; });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(visit_count, 3);
}

// Does something before a folder is listed, the first time.
class BeforeList final : public FileHook {
 public:
  BeforeList(std::string folder, std::function<void()> act)
      : folder_(std::move(folder)), act_(std::move(act)) {
    SetFileHookForTest(this);
  }
  ~BeforeList() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    const bool is_it =
        operation.kind == FileOperation::Kind::kListDirectory && operation.path == folder_;
    if (is_it && !std::exchange(has_acted_, true)) act_();
    return absl::OkStatus();
  }
  bool has_acted() const { return has_acted_; }

 private:
  const std::string folder_;
  const std::function<void()> act_;
  bool has_acted_ = false;
};

// Out of a folder that the list has not come to, into one that it has passed: it sees neither.
TEST_F(PlacedChunksTest, AChunkThatIsMovedWhileThePacksAreListedIsNotMissed) {
  const std::string& packs = chunks_.packs_directory();
  PackId stays;
  stays.bytes[0] = 3;
  PackId goes;
  goes.bytes[0] = 200;
  PackId comes = stays;
  comes.bytes[1] = 1;
  WriteHollowPack(packs, stays, /*first_number=*/0, /*chunk_count=*/1);
  WriteHollowPack(packs, goes, /*first_number=*/1, /*chunk_count=*/1);
  std::set<Digest> seen;
  {
    const BeforeList collection(std::filesystem::path(PathOf(goes)).parent_path().string(), [&] {
      WriteHollowPack(packs, comes, /*first_number=*/1, /*chunk_count=*/1);
      std::filesystem::remove(PathOf(goes));
    });
    const absl::Status status = VisitDurablePacks(
        packs, [&](const KnownPack& pack) { seen.insert(pack.footer.chunks.front().digest); });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(collection.has_acted());
  }
  EXPECT_TRUE(seen.contains(HollowChunk(0).digest));
  EXPECT_TRUE(seen.contains(HollowChunk(1).digest));
}

}  // namespace
}  // namespace kerf::agent
