#include "client/store/packs/chunk_index.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/file_hook.h"
#include "client/store/testing/hollow_packs.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

class ChunkIndexTest : public testing::Test {
 protected:
  bool Contains(const std::string& chunk) { return index_.Contains(RefOf(chunk).digest); }

  TestStore store_;
  ChunkIndex index_{store_.store().packs_directory()};
};

TEST_F(ChunkIndexTest, LearnsPacksThatComeAndForgetsThoseThatGo) {
  const SealedPack first = store_.WritePack({"one", "both"});
  store_.WritePack({"two", "both"});
  EXPECT_FALSE(Contains("one"));
  ASSERT_TRUE(index_.Refresh().ok());
  EXPECT_TRUE(Contains("one") && Contains("two") && Contains("both"));
  EXPECT_EQ(index_.LocateAll(RefOf("both").digest).size(), 2u);
  std::filesystem::remove(index_.PackPath(first.id));
  ASSERT_TRUE(index_.Refresh().ok());
  EXPECT_FALSE(Contains("one"));
  EXPECT_TRUE(Contains("two") && Contains("both"));
  EXPECT_EQ(index_.packs().size(), 1u);
}

TEST_F(ChunkIndexTest, ReadingEndsOnceNobodyWantsIt) {
  store_.WritePack({"one"});
  std::atomic<bool> is_ended = true;
  index_.EndWhen([&is_ended] { return is_ended.load(); });
  EXPECT_TRUE(absl::IsCancelled(index_.Refresh()));
  EXPECT_FALSE(Contains("one"));
  is_ended = false;
  EXPECT_TRUE(index_.Refresh().ok());
  EXPECT_TRUE(Contains("one"));
}

TEST_F(ChunkIndexTest, OfTwoCopiesTheOneThatCameLastIsGiven) {
  const SealedPack first = store_.WritePack({"chunk"});
  ASSERT_TRUE(index_.Refresh().ok());
  const SealedPack second = store_.WritePack({"other", "chunk"});
  index_.AddPack(second);
  const std::optional<ChunkPlace> place = index_.Locate(RefOf("chunk").digest);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->pack->id, second.id);
  EXPECT_EQ(place->locator(), EncodeLocator(second.id, 1));
  // It is the same pack when it is found in the directory.
  ASSERT_TRUE(index_.Refresh().ok());
  EXPECT_EQ(index_.packs().size(), 2u);
}

TEST_F(ChunkIndexTest, FindsAllCopiesWhateverComesAndGoes) {
  Random random(TestSeed());
  std::map<PackId, std::vector<std::string>> packs;
  for (int round = 0; round < 200; ++round) {
    if (!packs.empty() && random.OneIn(3)) {
      auto gone = packs.begin();
      std::advance(gone, static_cast<std::ptrdiff_t>(random.Below(packs.size())));
      std::filesystem::remove(index_.PackPath(gone->first));
      packs.erase(gone);
      ASSERT_TRUE(index_.Refresh().ok());
    } else {
      std::vector<std::string> chunks;
      for (std::uint64_t count = random.Between(1, 6); count > 0; --count) {
        // At times twice in one pack.
        chunks.push_back(Cat("chunk ", random.Below(8)));
      }
      SealedPack pack = store_.WritePack(chunks);
      packs[pack.id] = chunks;
      index_.AddPack(std::move(pack));
    }
    for (int number = 0; number < 8; ++number) {
      const std::string chunk = Cat("chunk ", number);
      std::multiset<std::string> expected;
      for (const auto& [id, chunks] : packs) {
        for (std::uint32_t index = 0; index < chunks.size(); ++index) {
          if (chunks[index] == chunk) expected.insert(EncodeLocator(id, index));
        }
      }
      std::multiset<std::string> found;
      for (const ChunkPlace& place : index_.LocateAll(RefOf(chunk).digest)) {
        found.insert(place.locator());
      }
      ASSERT_EQ(found, expected) << "round " << round;
      const std::optional<ChunkPlace> first = index_.Locate(RefOf(chunk).digest);
      ASSERT_EQ(first.has_value(), !expected.empty());
      if (first.has_value()) {
        EXPECT_EQ(first->locator(), index_.LocateAll(RefOf(chunk).digest).front().locator());
      }
    }
  }
}

TEST_F(ChunkIndexTest, ADamagedPackIsListedAndTheOthersAreRead) {
  const SealedPack bad = store_.WritePack({"bad"});
  store_.WritePack({"good"});
  const std::string path = index_.PackPath(bad.id);
  const std::string whole = ReadTestFile(path);
  WriteTestFile(path, whole.substr(0, whole.size() - 1));
  ASSERT_TRUE(index_.Refresh().ok());
  EXPECT_FALSE(Contains("bad"));
  EXPECT_TRUE(Contains("good"));
  ASSERT_EQ(index_.damaged().size(), 1u);
  EXPECT_EQ(index_.damaged().front().path, path);
  EXPECT_TRUE(absl::IsDataLoss(index_.damaged().front().status));
  WriteTestFile(path, whole);
  ASSERT_TRUE(index_.Refresh().ok());
  EXPECT_TRUE(Contains("bad"));
  EXPECT_TRUE(index_.damaged().empty());
}

TEST_F(ChunkIndexTest, APackUnderAnotherNameIsDamaged) {
  const SealedPack pack = store_.WritePack({"chunk"});
  const std::string other = index_.PackPath(*ParsePackId(std::string(32, 'a')));
  std::filesystem::create_directories(std::filesystem::path(other).parent_path());
  std::filesystem::copy_file(index_.PackPath(pack.id), other);
  ASSERT_TRUE(index_.Refresh().ok());
  EXPECT_EQ(index_.damaged().size(), 1u);
}

TEST_F(ChunkIndexTest, APackThatIsAFifoIsDamaged) {
  store_.WritePack({"chunk"});
  const std::string path = index_.PackPath(*ParsePackId(std::string(32, 'a')));
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ASSERT_TRUE(index_.Refresh().ok());
  EXPECT_EQ(index_.damaged().size(), 1u);
  EXPECT_TRUE(Contains("chunk"));
}

TEST_F(ChunkIndexTest, MoreChunksThanMemoryHasRoomForAreAnErrorThatSaysSo) {
  store_.WritePack({"one", "two"});
  store_.WritePack({"three", "four"});
  ChunkIndex fits(store_.store().packs_directory(), SeenPacks::kAreThere, 4);
  EXPECT_TRUE(fits.Refresh().ok());
  ChunkIndex small(store_.store().packs_directory(), SeenPacks::kAreThere, 3);
  const absl::Status status = small.Refresh();
  EXPECT_TRUE(IsTooManyChunks(status));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << "no disk is full";
  EXPECT_NE(MessageOf(status).find("more than the 3 chunks"), std::string_view::npos) << status;
}

// Of packs that are opened.
class OpenCount final : public FileHook {
 public:
  OpenCount() { SetFileHookForTest(this); }
  ~OpenCount() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    if (operation.kind == FileOperation::Kind::kOpen) ++count_;
    return absl::OkStatus();
  }
  std::size_t count() const { return count_; }

 private:
  std::atomic<std::size_t> count_ = 0;
};

// In ascending order.
PackId NumberedId(std::uint32_t number) {
  PackId id;
  id.bytes[0] = static_cast<std::uint8_t>(number / 256);
  id.bytes[1] = static_cast<std::uint8_t>(number);
  return id;
}

TEST_F(ChunkIndexTest, AStoreThatIsMuchTooLargeIsNotReadToItsEnd) {
  constexpr std::uint32_t kPackCount = 2000;
  constexpr std::uint32_t kPackChunks = 4;
  const std::string packs = store_.store().packs_directory();
  for (std::uint32_t number = 0; number < kPackCount; ++number) {
    WriteHollowPack(packs, NumberedId(number), std::uint64_t{number} * kPackChunks, kPackChunks);
  }
  const auto opened_until_refused = [&](std::uint64_t max_chunk_count) {
    const OpenCount opened;
    ChunkIndex index(packs, SeenPacks::kAreThere, max_chunk_count);
    const absl::StatusOr<bool> fits = index.RefreshIfItFits();
    EXPECT_TRUE(fits.ok() && !*fits);
    EXPECT_TRUE(index.packs().empty());
    return opened.count();
  };
  // Some more by the other threads.
  EXPECT_LT(opened_until_refused(kPackCount * kPackChunks / 2 - 1), ChunkIndex::kSamplePacks + 200);
  EXPECT_GT(opened_until_refused(kPackCount * kPackChunks / 2), kPackCount / 2 - 1);
  ChunkIndex index(packs, SeenPacks::kAreThere, kPackCount * kPackChunks);
  const absl::StatusOr<bool> fits = index.RefreshIfItFits();
  EXPECT_TRUE(fits.ok() && *fits);
  EXPECT_EQ(index.packs().size(), kPackCount);
  EXPECT_TRUE(index.Contains(HollowChunk(kPackCount * kPackChunks - 1).digest));
}

// Who needs all chunks is not refused by a guess.
TEST_F(ChunkIndexTest, AGuessRefusesNobodyWhoNeedsAll) {
  constexpr std::uint32_t kPackCount = 2000;
  const std::string packs = store_.store().packs_directory();
  std::uint64_t chunk_count = 0;
  for (std::uint32_t number = 0; number < kPackCount; ++number) {
    const std::uint32_t count = number < 2 * ChunkIndex::kSamplePacks ? 20 : 1;
    WriteHollowPack(packs, NumberedId(number), chunk_count, count);
    chunk_count += count;
  }
  // The guess is 20 for each pack, and half of that is more than there are.
  ASSERT_LT(chunk_count, 20 * kPackCount / 2);
  ChunkIndex index(packs, SeenPacks::kAreThere, chunk_count);
  EXPECT_TRUE(index.Refresh().ok());
  EXPECT_EQ(index.packs().size(), kPackCount);
}

TEST_F(ChunkIndexTest, IsReadWhileItIsRefreshed) {
  store_.WritePack({"always"});
  ASSERT_TRUE(index_.Refresh().ok());
  std::atomic<bool> done = false;
  std::atomic<int> missing_count = 0;
  std::jthread reader([&] {
    while (!done) missing_count += Contains("always") ? 0 : 1;
  });
  for (int round = 0; round < 20; ++round) {
    const SealedPack pack = store_.WritePack({Cat("round ", round)});
    ASSERT_TRUE(index_.Refresh().ok());
    std::filesystem::remove(index_.PackPath(pack.id));
    ASSERT_TRUE(index_.Refresh().ok());
  }
  done = true;
  reader.join();
  EXPECT_EQ(missing_count, 0);
}

}  // namespace
}  // namespace kerf::agent
