#include "client/agent/backup/chunk_keeper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

std::span<const std::uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Whatever is committed here must survive a power cut at that moment.
class WatchedLane final : public ChunkLane {
 public:
  explicit WatchedLane(DiskHook& disk) : disk_(disk) {}

  void Commit(std::span<const v1::CommitEntry> entries, std::uint64_t resolved_chunks) override {
    for (const v1::CommitEntry& entry : entries) {
      Digest digest;
      std::memcpy(digest.bytes.data(), entry.digest().data(), entry.digest().size());
      if (is_watched && !disk_.Survives(digest)) ++lost_count;
      const std::lock_guard lock(mutex_);
      committed[digest] = entry.locator();
    }
    resolved_count += resolved_chunks;
  }
  void ReportStale(std::span<const v1::CommitEntry> entries) override {
    stale_count += static_cast<int>(entries.size());
    for (const v1::CommitEntry& entry : entries) last_stale_locator = entry.locator();
    ++report_count;
  }

  // Each look goes through the whole disk.
  bool is_watched = true;
  std::map<Digest, std::string> committed;
  std::string last_stale_locator;
  std::atomic<int> lost_count = 0;
  std::atomic<int> stale_count = 0;
  std::atomic<int> report_count = 0;
  std::atomic<std::uint64_t> resolved_count = 0;

 private:
  DiskHook& disk_;
  std::mutex mutex_;
};

class ChunkKeeperTest : public testing::Test {
 protected:
  // What may be known of the store: all of it.
  explicit ChunkKeeperTest(std::optional<std::uint64_t> memory_bytes = std::nullopt)
      : known_(store_.store().packs_directory(), {.memory_bytes = memory_bytes}) {
    PackWriterOptions options = store_.writer_options();
    options.target_pack_bytes = 2000;
    options.on_sealed = [this](SealedPack pack) { keeper_.OnSealed(std::move(pack)); };
    writer_ = std::make_unique<PackWriter>(std::move(options));
    keeper_.AddLane(lane_, *writer_, LaneContent::kFiles);
    keeper_.AddLane(other_lane_, *writer_, LaneContent::kMetadata);
  }

  // As a backup does it before its first chunk.
  absl::Status Open() {
    guard_ = *CollectionGuard::Begin(store_.store());
    is_open_ = true;
    return known_.Open(guard_);
  }
  absl::Status Take(WatchedLane& lane, const std::string& content, v1::Verdict verdict,
                    const std::string& locator = "") {
    if (!is_open_) {
      EXPECT_TRUE(Open().ok());
    }
    const ChunkRef ref = RefOf(content);
    return keeper_.Take(lane, {ref.digest, ref.length_bytes, verdict, locator}, BytesOf(content));
  }
  // Of a collection that is under way.
  void PlanToDelete(const SealedPack& pack) {
    CollectionPlan plan;
    plan.target_epoch = 3;
    plan.packs = {{pack.id, std::vector<bool>(pack.footer.chunks.size(), true)}};
    ASSERT_TRUE(
        WriteCollectionPlan(store_.store().plan_path(), store_.store().temporary_directory(), plan)
            .ok());
  }
  bool Committed(const WatchedLane& lane, const std::string& content) {
    return lane.committed.contains(RefOf(content).digest);
  }
  void Finish() {
    ASSERT_TRUE(writer_->Flush().ok());
    keeper_.SendCommits();
    EXPECT_EQ(keeper_.unsealed_count(), 0u);
    EXPECT_EQ(lane_.lost_count + other_lane_.lost_count, 0);
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook disk_{folder_.path()};
  TestStore store_{folder_.path()};
  CollectionGuard guard_;
  bool is_open_ = false;
  KnownChunks known_;
  ChunkKeeper keeper_{known_, DigestAlgorithm::kBlake3};
  WatchedLane lane_{disk_};
  WatchedLane other_lane_{disk_};
  // Last: its threads use all of the above.
  std::unique_ptr<PackWriter> writer_;
};

TEST_F(ChunkKeeperTest, NothingIsTakenForARunThatHasEnded) {
  ASSERT_TRUE(Open().ok());
  known_.Stop();
  EXPECT_TRUE(absl::IsCancelled(Take(lane_, "chunk", v1::VERDICT_NEW)));
  EXPECT_EQ(keeper_.counts().chunks, 0u);
  EXPECT_EQ(keeper_.unsealed_count(), 0u);
}

TEST_F(ChunkKeeperTest, NothingIsCommittedBeforeItIsDurable) {
  Random random(TestSeed());
  std::vector<std::string> contents;
  for (int number = 0; number < 30; ++number) {
    contents.push_back(Cat("chunk ", number, std::string(random.Below(500), 'x')));
    ASSERT_TRUE(Take(lane_, contents.back(), v1::VERDICT_NEW).ok());
  }
  Finish();
  for (const std::string& content : contents) EXPECT_TRUE(Committed(lane_, content));
  EXPECT_EQ(lane_.resolved_count, contents.size());
  EXPECT_EQ(keeper_.counts().new_chunks, contents.size());
}

TEST_F(ChunkKeeperTest, WhatIsTakenIsUnsealedUntilTheFlush) {
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  EXPECT_EQ(keeper_.unsealed_count(), 1u);
  EXPECT_FALSE(Committed(lane_, "content"));
  Finish();
}

TEST_F(ChunkKeeperTest, AChunkOfTwoLanesIsStoredOnceAndCommittedByBoth) {
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  ASSERT_TRUE(Take(other_lane_, "content", v1::VERDICT_NEW).ok());
  Finish();
  EXPECT_TRUE(Committed(lane_, "content"));
  EXPECT_TRUE(Committed(other_lane_, "content"));
  EXPECT_EQ(lane_.resolved_count, 2u);
  EXPECT_EQ(other_lane_.resolved_count, 1u);
  EXPECT_EQ(keeper_.counts().new_chunks, 1u);
}

TEST_F(ChunkKeeperTest, WhatDescribesFilesIsCountedOnItsOwn) {
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  ASSERT_TRUE(Take(other_lane_, "names", v1::VERDICT_NEW).ok());
  ASSERT_TRUE(Take(other_lane_, "content", v1::VERDICT_NEW).ok());
  ASSERT_TRUE(Take(lane_, "more", v1::VERDICT_NEW).ok());
  Finish();
  EXPECT_EQ(keeper_.counts().new_chunks, 3u);
  EXPECT_EQ(keeper_.counts().new_metadata_chunks, 1u);
  EXPECT_EQ(keeper_.counts().new_metadata_bytes, 5u);
}

TEST_F(ChunkKeeperTest, ADuplicateThatTheStoreHasNotIsStoredAndReported) {
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_DUPLICATE).ok());
  Finish();
  EXPECT_TRUE(Committed(lane_, "content"));
  EXPECT_EQ(lane_.stale_count, 1);
  EXPECT_EQ(lane_.resolved_count, 0u);
}

// A server that lies about one chunk a million times must not be told a million times.
TEST_F(ChunkKeeperTest, AStaleChunkIsReportedOnceByEachLaneHoweverOftenItIsAnswered) {
  for (int number = 0; number < 100; ++number) {
    ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_DUPLICATE).ok());
    ASSERT_TRUE(Take(lane_, "more", v1::VERDICT_DUPLICATE).ok());
    ASSERT_TRUE(Take(other_lane_, "content", v1::VERDICT_DUPLICATE).ok());
  }
  Finish();
  EXPECT_EQ(lane_.stale_count, 2);
  EXPECT_EQ(other_lane_.stale_count, 1);
  EXPECT_EQ(lane_.report_count, 1) << "not batched";
  EXPECT_EQ(keeper_.counts().stale_chunks, 300u);
}

TEST_F(ChunkKeeperTest, WhatTheStoreHasIsCommittedFromThere) {
  store_.WritePack({"content", "known"});
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  ASSERT_TRUE(Take(lane_, "known", v1::VERDICT_DUPLICATE).ok());
  Finish();
  EXPECT_TRUE(Committed(lane_, "content"));
  EXPECT_FALSE(Committed(lane_, "known"));
  EXPECT_EQ(keeper_.counts().healed_chunks, 1u);
  EXPECT_EQ(keeper_.counts().new_chunks, 0u);
}

// Of a later protocol: nothing but DUPLICATE saves anybody from storing.
TEST_F(ChunkKeeperTest, AVerdictThatNobodyKnowsIsNew) {
  constexpr auto kLater = static_cast<v1::Verdict>(99);
  store_.WritePack({"known"});
  ASSERT_TRUE(Take(lane_, "content", kLater).ok());
  ASSERT_TRUE(Take(lane_, "known", kLater).ok());
  Finish();
  EXPECT_TRUE(Committed(lane_, "content"));
  EXPECT_TRUE(Committed(lane_, "known"));
  EXPECT_EQ(keeper_.counts().new_chunks, 1u);
  EXPECT_EQ(keeper_.counts().stale_chunks, 0u);
}

// The commit of the first answer may not have reached the index when the second one is given.
TEST_F(ChunkKeeperTest, WhatThisRunHasStoredIsNoLossOfTheIndex) {
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  ASSERT_TRUE(Take(other_lane_, "content", v1::VERDICT_NEW).ok());
  Finish();
  ASSERT_TRUE(Take(other_lane_, "content", v1::VERDICT_NEW).ok());
  Finish();
  EXPECT_TRUE(Committed(other_lane_, "content"));
  EXPECT_EQ(other_lane_.resolved_count, 2u);
  EXPECT_EQ(keeper_.counts().healed_chunks, 0u);
  EXPECT_EQ(keeper_.counts().chunks, 3u);
  EXPECT_EQ(keeper_.counts().bytes, 3 * std::string("content").size());
  EXPECT_EQ(keeper_.counts().new_bytes, std::string("content").size());
}

TEST_F(ChunkKeeperTest, APackOfAnotherAgentIsCommittedOnlyWhenItsNameIsDurable) {
  disk_.RefuseWith(RefuseEvery(FileOperation::Kind::kSyncDirectory, "/packs/",
                               absl::UnknownError("Input/output error")));
  {
    PackWriter another(store_.writer_options());
    const std::string content = "content";
    ASSERT_TRUE(another.Add(RefOf(content).digest, BytesOf(content)).ok());
    ASSERT_FALSE(another.Flush().ok());
  }
  EXPECT_FALSE(Open().ok());
  disk_.RefuseWith({});
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(known_.Find(RefOf("content").digest).has_value());
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  Finish();
  EXPECT_TRUE(Committed(lane_, "content"));
}

// A server that gives a chunk the name of another one must not put that one into the snapshot.
TEST_F(ChunkKeeperTest, AChunkUnderTheNameOfAStoredOneIsRefused) {
  ASSERT_TRUE(Open().ok());
  // By a keeper of its own: one that has met such a chunk is done for.
  const auto is_refused = [&](v1::Verdict verdict, bool is_sealed) {
    ChunkKeeper keeper(known_, DigestAlgorithm::kBlake3);
    PackWriterOptions options = store_.writer_options();
    options.on_sealed = [&keeper](SealedPack pack) { keeper.OnSealed(std::move(pack)); };
    PackWriter writer(std::move(options));
    keeper.AddLane(lane_, writer, LaneContent::kFiles);
    const auto take = [&](const std::string& bytes) {
      const ChunkRef ref = RefOf("content");
      return keeper.Take(lane_, {ref.digest, ref.length_bytes, verdict, "place"}, BytesOf(bytes));
    };
    // The first one is written, unless the store has it.
    EXPECT_TRUE(take("content").ok());
    EXPECT_TRUE(!is_sealed || writer.Flush().ok());
    EXPECT_TRUE(take("content").ok());
    EXPECT_TRUE(keeper.CheckTaken().ok());
    const absl::Status taken = take("CONTENT");
    return absl::IsDataLoss(keeper.CheckTaken()) && (taken.ok() || absl::IsDataLoss(taken));
  };
  for (const v1::Verdict verdict :
       {v1::VERDICT_NEW, v1::VERDICT_DUPLICATE, v1::VERDICT_UNVERIFIED}) {
    EXPECT_TRUE(is_refused(verdict, false)) << verdict << ", not sealed yet";
  }
  for (const v1::Verdict verdict :
       {v1::VERDICT_NEW, v1::VERDICT_DUPLICATE, v1::VERDICT_UNVERIFIED}) {
    EXPECT_TRUE(is_refused(verdict, true)) << verdict;
  }
}

TEST_F(ChunkKeeperTest, ADistrustedChunkIsStoredAnew) {
  PlanToDelete(store_.WritePack({"content"}));
  ASSERT_TRUE(Open().ok());
  const std::vector<ChunkRef> chunks = {RefOf("content")};
  EXPECT_FALSE(known_.HoldAll(chunks));
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_UNVERIFIED).ok());
  EXPECT_FALSE(Committed(lane_, "content"));
  Finish();
  EXPECT_TRUE(Committed(lane_, "content"));
  EXPECT_EQ(store_.PackFiles().size(), 2u);
  // The new copy is trusted.
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_DUPLICATE).ok());
  Finish();
  EXPECT_EQ(store_.PackFiles().size(), 2u);
}

// Also where a list is known: the server may name the place that goes, or one that has come since.
TEST_F(ChunkKeeperTest, ADistrustedChunkIsCountedOnOnlyWhereItStays) {
  const SealedPack goes = store_.WritePack({"one", "two"});
  PlanToDelete(goes);
  ASSERT_TRUE(Open().ok());
  const SealedPack stays = store_.WritePack({"two"});
  ASSERT_TRUE(Take(lane_, "one", v1::VERDICT_DUPLICATE, EncodeLocator(goes.id, 0)).ok());
  ASSERT_TRUE(Take(lane_, "two", v1::VERDICT_UNVERIFIED, EncodeLocator(stays.id, 0)).ok());
  Finish();
  EXPECT_EQ(keeper_.counts().new_chunks, 1u);
  EXPECT_NE(lane_.committed[RefOf("one").digest], EncodeLocator(goes.id, 0));
  EXPECT_EQ(lane_.committed[RefOf("two").digest], EncodeLocator(stays.id, 0));
}

TEST_F(ChunkKeeperTest, WhenTheDiskIsFullNothingIsCommitted) {
  disk_.RefuseWith(RefuseEvery(FileOperation::Kind::kWrite, "/tmp/",
                               absl::ResourceExhaustedError("the disk is full")));
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(writer_->Flush()));
  keeper_.SendCommits();
  EXPECT_TRUE(lane_.committed.empty());
  EXPECT_TRUE(absl::IsResourceExhausted(Take(lane_, "more", v1::VERDICT_NEW)));
}

// Of another agent, which has also told the index: its entry is sound.
TEST_F(ChunkKeeperTest, WhatHasComeSinceTheListIsFoundWhereTheServerSays) {
  ASSERT_TRUE(Open().ok());
  const SealedPack pack = store_.WritePack({"other", "content"});
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_DUPLICATE, EncodeLocator(pack.id, 1)).ok());
  Finish();
  EXPECT_EQ(lane_.stale_count, 0);
  EXPECT_EQ(keeper_.counts().new_chunks, 0u);
  EXPECT_TRUE(lane_.committed.empty());
}

// Without a list of the store's chunks.
class ByPlaceKeeperTest : public ChunkKeeperTest {
 protected:
  ByPlaceKeeperTest() : ChunkKeeperTest(0) {}
};

TEST_F(ByPlaceKeeperTest, AChunkThatLiesWhereTheServerSaysIsNotStored) {
  const SealedPack pack = store_.WritePack({"one", "two", "three"});
  constexpr auto kLater = static_cast<v1::Verdict>(99);
  ASSERT_TRUE(Take(lane_, "one", v1::VERDICT_DUPLICATE, EncodeLocator(pack.id, 0)).ok());
  ASSERT_TRUE(known_.is_by_place());
  ASSERT_TRUE(Take(lane_, "two", v1::VERDICT_UNVERIFIED, EncodeLocator(pack.id, 1)).ok());
  ASSERT_TRUE(Take(lane_, "three", kLater, EncodeLocator(pack.id, 2)).ok());
  Finish();
  EXPECT_EQ(keeper_.counts().new_chunks, 0u);
  EXPECT_EQ(lane_.stale_count, 0);
  EXPECT_FALSE(Committed(lane_, "one"));
  EXPECT_EQ(lane_.committed[RefOf("two").digest], EncodeLocator(pack.id, 1));
  EXPECT_EQ(lane_.committed[RefOf("three").digest], EncodeLocator(pack.id, 2));
  EXPECT_EQ(lane_.resolved_count, 2u);
}

TEST_F(ByPlaceKeeperTest, AChunkThatLiesElsewhereIsStoredAndReported) {
  const SealedPack pack = store_.WritePack({"one", "two"});
  const std::string wrong = EncodeLocator(pack.id, 1);
  ASSERT_TRUE(Take(lane_, "one", v1::VERDICT_DUPLICATE, wrong).ok());
  Finish();
  EXPECT_TRUE(Committed(lane_, "one"));
  EXPECT_EQ(lane_.stale_count, 1);
  EXPECT_EQ(lane_.last_stale_locator, wrong);
  EXPECT_EQ(store_.PackFiles().size(), 2u);
}

TEST_F(ByPlaceKeeperTest, AChunkOfAPackThatIsGoneIsStored) {
  const SealedPack pack = store_.WritePack({"one", "two"});
  ASSERT_TRUE(Open().ok());
  std::filesystem::remove(PackPathIn(store_.store().packs_directory(), pack.id));
  ASSERT_TRUE(Take(lane_, "one", v1::VERDICT_DUPLICATE, EncodeLocator(pack.id, 0)).ok());
  ASSERT_TRUE(Take(lane_, "two", v1::VERDICT_UNVERIFIED, EncodeLocator(pack.id, 1)).ok());
  Finish();
  EXPECT_EQ(keeper_.counts().new_chunks, 2u);
  EXPECT_EQ(lane_.stale_count, 1);
  EXPECT_TRUE(Committed(lane_, "one") && Committed(lane_, "two"));
  EXPECT_EQ(store_.PackFiles().size(), 1u);
}

TEST_F(ByPlaceKeeperTest, AChunkThatACollectionWillDeleteIsStoredAnew) {
  const SealedPack pack = store_.WritePack({"one", "two"});
  PlanToDelete(pack);
  ASSERT_TRUE(Take(lane_, "one", v1::VERDICT_DUPLICATE, EncodeLocator(pack.id, 0)).ok());
  ASSERT_TRUE(Take(lane_, "two", v1::VERDICT_UNVERIFIED, EncodeLocator(pack.id, 1)).ok());
  EXPECT_FALSE(known_.HoldAll(std::vector<ChunkRef>{RefOf("one")}));
  Finish();
  EXPECT_EQ(keeper_.counts().new_chunks, 2u);
  EXPECT_NE(lane_.committed[RefOf("two").digest], EncodeLocator(pack.id, 1));
  EXPECT_EQ(store_.PackFiles().size(), 2u);
}

// Nobody says where it might be.
TEST_F(ByPlaceKeeperTest, WhatIsCalledNewIsStored) {
  store_.WritePack({"content"});
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  ASSERT_TRUE(Take(lane_, "content", v1::VERDICT_NEW).ok());
  Finish();
  ASSERT_TRUE(Take(other_lane_, "content", v1::VERDICT_NEW).ok());
  Finish();
  EXPECT_EQ(keeper_.counts().new_chunks, 1u);
  EXPECT_EQ(keeper_.counts().healed_chunks, 0u);
  EXPECT_EQ(lane_.resolved_count, 2u);
  EXPECT_EQ(other_lane_.resolved_count, 1u);
}

TEST_F(ByPlaceKeeperTest, AChunkUnderTheNameOfAStoredOneIsRefused) {
  const SealedPack pack = store_.WritePack({"content"});
  ASSERT_TRUE(Open().ok());
  const ChunkRef ref = RefOf("content");
  const std::string other = "CONTENT";
  const absl::Status taken = keeper_.Take(
      lane_, {ref.digest, ref.length_bytes, v1::VERDICT_DUPLICATE, EncodeLocator(pack.id, 0)},
      BytesOf(other));
  EXPECT_TRUE(taken.ok() || absl::IsDataLoss(taken));
  EXPECT_TRUE(absl::IsDataLoss(keeper_.CheckTaken()));
}

// More than a run remembers of what it has stored: the server remembers the rest.
TEST_F(ByPlaceKeeperTest, MoreNewChunksThanARunRemembersAreStoredOnce) {
  const std::size_t count = KnownChunks::kMinOwnBytes / (sizeof(PackChunk) + 24) * 3 / 2;
  const auto content_of = [](std::size_t number) { return Cat("chunk ", number); };
  lane_.is_watched = false;
  for (std::size_t number = 0; number < count; ++number) {
    ASSERT_TRUE(Take(lane_, content_of(number), v1::VERDICT_NEW).ok());
  }
  Finish();
  ASSERT_EQ(lane_.committed.size(), count);
  std::size_t forgotten_count = 0;
  for (std::size_t number = 0; number < count; number += 100) {
    const Digest digest = RefOf(content_of(number)).digest;
    if (!known_.Find(digest).has_value()) ++forgotten_count;
    ASSERT_TRUE(
        Take(other_lane_, content_of(number), v1::VERDICT_DUPLICATE, lane_.committed[digest]).ok());
  }
  EXPECT_GT(forgotten_count, 0u);
  Finish();
  EXPECT_EQ(keeper_.counts().new_chunks, count);
  EXPECT_EQ(other_lane_.stale_count, 0);
}

}  // namespace
}  // namespace kerf::agent
