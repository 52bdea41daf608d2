#include "client/store/copy/copy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "client/store/collect/collection.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/format/file_hook.h"
#include "client/store/snapshots/pending.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

std::string RandomText(std::uint64_t seed, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  Random(seed).Fill(bytes);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::string> Ids(const Store& store) {
  std::vector<std::string> ids;
  const auto list = store.ListSnapshots();
  for (const store::v1::Snapshot& snapshot : list->snapshots) {
    ids.push_back(snapshot.id());
  }
  return ids;
}

void FlipByte(const std::string& path, std::size_t offset) {
  std::string bytes = ReadTestFile(path);
  bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
  WriteTestFile(path, bytes);
}

bool IsStored(TestStore& store, const StoredChunk& chunk) {
  ChunkIndex index(store.store().packs_directory());
  if (!index.Refresh().ok()) return false;
  const std::optional<ChunkPlace> place = index.Locate(chunk.digest);
  return place.has_value() && place->locator() == chunk.locator;
}

// Two stores, and what the copying from one into the other has said.
class CopyRunTest : public testing::Test {
 protected:
  CopyRunTest() {
    options_.transfer.thread_count = 1;
    options_.on_snapshot = [this](const SnapshotCopy& copy) { said_[copy.id] = copy; };
  }

  // With an id that sorts behind those before it.
  store::v1::Snapshot Snapshot(const FileChunks& files) {
    std::vector<std::string> chunks;
    store::v1::Snapshot snapshot = from_.Describe(files, chunks);
    snapshot.set_id(Cat("aaaa00000000000", ++snapshot_count_));
    snapshot.set_started_unix_ns(snapshot_count_);
    snapshot.set_host("host");
    for (const auto& [path, contents] : files) {
      chunks.insert(chunks.end(), contents.begin(), contents.end());
    }
    from_.WritePack(chunks);
    EXPECT_TRUE(from_.store().WriteSnapshot(snapshot).ok());
    return snapshot;
  }

  absl::StatusOr<CopyReport> TryCopy() {
    said_.clear();
    const SnapshotList list = *from_.store().ListSnapshots();
    return CopySnapshots(from_.store(), to_.store(), list.snapshots, options_);
  }
  CopyReport Copy() {
    const auto report = TryCopy();
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(CopyReport());
  }

  std::string PackOf(TestStore& store, const std::string& chunk) {
    ChunkIndex index(store.store().packs_directory());
    EXPECT_TRUE(index.Refresh().ok());
    return index.PackPath(index.Locate(RefOf(chunk).digest)->pack->id);
  }

  TestStore from_;
  TestStore to_;
  CopyOptions options_;
  std::map<std::string, SnapshotCopy> said_;
  int snapshot_count_ = 0;
};

TEST_F(CopyRunTest, CopiesWhatIsNotThere) {
  const store::v1::Snapshot one = Snapshot({{"a", {"shared", "first"}}});
  const store::v1::Snapshot two = Snapshot({{"a", {"shared", "second"}}, {"b", {"shared"}}});
  to_.WritePack({"second"});
  ASSERT_NE(from_.store().config().id(), to_.store().config().id());
  const CopyReport report = Copy();
  EXPECT_EQ(report.copied_count, 2u);
  EXPECT_EQ(report.failed_count, 0u);
  EXPECT_TRUE(to_.RestoreAll().ok());
  EXPECT_THAT(Ids(to_.store()), ElementsAre(one.id(), two.id()));
  EXPECT_THAT(to_.store().ListPending()->snapshots, IsEmpty());
  const store::v1::Snapshot copy = *to_.store().FindSnapshot(two.id());
  EXPECT_EQ(copy.host(), "host");
  EXPECT_EQ(copy.started_unix_ns(), 2);
  EXPECT_EQ(copy.stats().total_bytes(), two.stats().total_bytes());
  EXPECT_GT(copy.stats().stored_bytes(), 0u);
  // "shared" and "first"; of the second one nothing but metadata, as "second" was there.
  EXPECT_EQ(said_[one.id()].new_chunk_count - static_cast<unsigned>(one.tree_size()) -
                static_cast<unsigned>(one.identity_size()),
            2u);
  EXPECT_LE(said_[two.id()].new_chunk_count,
            static_cast<unsigned>(two.tree_size() + two.identity_size()));
  EXPECT_EQ(report.new_chunk_count,
            said_[one.id()].new_chunk_count + said_[two.id()].new_chunk_count);
}

TEST_F(CopyRunTest, ASecondTimeThereIsNothingToDo) {
  Snapshot({{"a", {"content"}}});
  Copy();
  const std::vector<std::string> packs = to_.PackFiles();
  const CopyReport again = Copy();
  EXPECT_EQ(again.present_count, 1u);
  EXPECT_EQ(again.copied_count, 0u);
  EXPECT_EQ(again.new_chunk_count, 0u);
  EXPECT_THAT(to_.PackFiles(), UnorderedElementsAreArray(packs));
}

TEST_F(CopyRunTest, OnlyStoresOfTheSameDigestAndNotOneWithItself) {
  Snapshot({{"a", {"content"}}});
  const TemporaryFolder folder;
  const auto other =
      Store::OpenOrCreate(folder.path() + "/other", "mincdc-8k", DigestAlgorithm::kSha256);
  ASSERT_TRUE(other.ok());
  const absl::Status digests = CheckCopyable(from_.store(), **other);
  EXPECT_EQ(digests.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(digests.message()), HasSubstr("--digest blake3"));
  EXPECT_EQ(CopySnapshots(from_.store(), **other, {}, options_).status(), digests);
  std::filesystem::create_directory_symlink(from_.directory(), folder.path() + "/link");
  const auto itself = Store::Open(folder.path() + "/link");
  ASSERT_TRUE(itself.ok());
  EXPECT_THAT(std::string(CheckCopyable(from_.store(), **itself).message()),
              HasSubstr("the same store"));
}

TEST_F(CopyRunTest, WhatIsDamagedIsLeftOutAndTheOthersGoOn) {
  const std::string good = RandomText(1, 500);
  const std::string bad = RandomText(2, 500);
  const store::v1::Snapshot first = Snapshot({{"a", {good}}});
  const store::v1::Snapshot second = Snapshot({{"a", {bad}}});
  const store::v1::Snapshot third = Snapshot({{"a", {RandomText(3, 500)}}});
  // Incompressible, so its bytes stand there as they are.
  const std::string pack = PackOf(from_, bad);
  FlipByte(pack, ReadTestFile(pack).find(bad) + 250);
  const CopyReport report = Copy();
  EXPECT_EQ(report.copied_count, 2u);
  EXPECT_EQ(report.damaged_count, 1u);
  EXPECT_EQ(said_[second.id()].outcome, CopyOutcome::kFailed);
  EXPECT_EQ(said_[second.id()].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Ids(to_.store()), ElementsAre(first.id(), third.id()));
  EXPECT_TRUE(to_.RestoreAll().ok());
}

TEST_F(CopyRunTest, WhatIsMissingIsDamageUnlessItWasForgotten) {
  const store::v1::Snapshot lost = Snapshot({{"a", {"lost"}}});
  const store::v1::Snapshot forgotten = Snapshot({{"a", {"forgotten"}}});
  const store::v1::Snapshot good = Snapshot({{"a", {"good"}}});
  const SnapshotList list = *from_.store().ListSnapshots();
  std::filesystem::remove(PackOf(from_, "lost"));
  std::filesystem::remove(PackOf(from_, "forgotten"));
  ASSERT_TRUE(from_.store().RemoveSnapshot(forgotten.id()).ok());
  const auto report = CopySnapshots(from_.store(), to_.store(), list.snapshots, options_);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(said_[lost.id()].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(said_[forgotten.id()].status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(said_[forgotten.id()].status.message()), HasSubstr("forgotten"));
  EXPECT_EQ(report->failed_count, 2u);
  EXPECT_EQ(report->damaged_count, 1u);
  EXPECT_THAT(Ids(to_.store()), ElementsAre(good.id()));
}

// Footers can be read, or there would be no pack; what snapshots say nobody has checked.
TEST_F(CopyRunTest, ASnapshotThatLiesIsNotPublished) {
  store::v1::Snapshot wrong_length = Snapshot({{"a", {"content"}}});
  wrong_length.set_id("aaaa000000000009");
  wrong_length.mutable_identity(0)->set_length_bytes(7);
  ASSERT_TRUE(from_.store().WriteSnapshot(wrong_length).ok());
  store::v1::Snapshot wrong_name = wrong_length;
  wrong_name.set_id("no id");
  ASSERT_TRUE(from_.store().WriteSnapshot(wrong_name).ok());
  const CopyReport report = Copy();
  EXPECT_EQ(report.copied_count, 1u);
  EXPECT_EQ(said_[wrong_length.id()].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(said_["no id"].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(to_.RestoreAll().ok());
  // Also where the other store has all chunks already.
  EXPECT_EQ(Copy().damaged_count, 2u);
}

TEST_F(CopyRunTest, AnotherSnapshotOfThatIdStays) {
  const store::v1::Snapshot snapshot = Snapshot({{"a", {"content"}}});
  store::v1::Snapshot other = to_.WriteSnapshot({{"b", {"of its own"}}});
  other.set_id(snapshot.id());
  ASSERT_TRUE(to_.store().WriteSnapshot(other).ok());
  const CopyReport report = Copy();
  EXPECT_EQ(report.failed_count, 1u);
  EXPECT_EQ(report.damaged_count, 0u);
  EXPECT_EQ(said_[snapshot.id()].status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(to_.store().FindSnapshot(snapshot.id())->tree(0).digest(), other.tree(0).digest());
}

TEST_F(CopyRunTest, WhatTheOtherStoreHasLostComesBack) {
  const store::v1::Snapshot snapshot = Snapshot({{"a", {"content"}}});
  Copy();
  std::filesystem::remove(Store::SnapshotPath(to_.store().snapshots_directory(), snapshot.id()));
  ASSERT_EQ(to_.store().FindSnapshot(snapshot.id()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Copy().copied_count, 1u);
  EXPECT_TRUE(to_.store().FindSnapshot(snapshot.id()).ok());
  EXPECT_THAT(to_.store().ListSnapshots()->missing, IsEmpty());
}

TEST_F(CopyRunTest, AnInterruptedOneGoesOnWhereItWas) {
  // More than a batch of 16 MiB.
  std::vector<std::string> chunks;
  chunks.reserve(180);
  for (std::uint64_t number = 0; number < 180; ++number) {
    chunks.push_back(RandomText(number, 100'000));
  }
  Snapshot({{"a", chunks}});
  options_.transfer.target_pack_bytes = 1 << 20;
  bool stop = false;
  options_.on_progress = [&](const CopyProgress& progress) {
    stop = stop || progress.bytes_done >= 17'500'000;
  };
  options_.transfer.cancelled = [&] { return stop; };
  EXPECT_EQ(TryCopy().status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Ids(to_.store()), IsEmpty());
  EXPECT_THAT(to_.store().ListPending()->snapshots, IsEmpty());
  EXPECT_THAT(std::filesystem::is_empty(to_.store().temporary_directory()), true);
  EXPECT_GE(to_.PackFiles().size(), 10u);
  stop = false;
  options_.on_progress = nullptr;
  EXPECT_EQ(Copy().copied_count, 1u);
  EXPECT_TRUE(to_.RestoreAll().ok());
  ChunkIndex index(to_.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  for (const std::string& chunk : chunks) {
    EXPECT_EQ(index.LocateAll(RefOf(chunk).digest).size(), 1u) << "it was copied twice";
  }
}

TEST_F(CopyRunTest, ChunksThatACollectionCondemnsAreStoredAnew) {
  Snapshot({{"a", {"content"}}});
  const SealedPack goes = to_.WritePack({"content"});
  CollectionPlan plan;
  plan.target_epoch = 3;
  plan.packs = {{goes.id, {true}}};
  ASSERT_TRUE(
      WriteCollectionPlan(to_.store().plan_path(), to_.store().temporary_directory(), plan).ok());
  EXPECT_EQ(Copy().copied_count, 1u);
  // The plan is carried out.
  std::filesystem::remove(ChunkIndex(to_.store().packs_directory()).PackPath(goes.id));
  EXPECT_TRUE(to_.RestoreAll().ok());
}

TEST_F(CopyRunTest, WhatACollectionTakesInBetweenIsCopiedAgain) {
  const store::v1::Snapshot snapshot = Snapshot({{"a", {"content"}}});
  PlainIndex index;
  int collection_count = 1;
  // All is stored, and nothing is pending yet.
  options_.commit = [&](std::uint64_t, std::span<const StoredChunk>) {
    if (collection_count == 0) return absl::OkStatus();
    --collection_count;
    return CollectGarbage(to_.store(), index, CollectionOptions()).status();
  };
  const CopyReport report = Copy();
  EXPECT_EQ(collection_count, 0);
  EXPECT_EQ(report.copied_count, 1u);
  EXPECT_TRUE(to_.RestoreAll().ok());
  EXPECT_GT(to_.store().FindSnapshot(snapshot.id())->store_epoch(), 1u);
  EXPECT_THAT(to_.store().ListPending()->snapshots, IsEmpty());

  Snapshot({{"a", {"another"}}});
  collection_count = 100;
  EXPECT_EQ(TryCopy().status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(collection_count, 97);
  EXPECT_THAT(to_.store().ListPending()->snapshots, IsEmpty());
  EXPECT_TRUE(to_.RestoreAll().ok());
}

// The collection has got as far as its plan when the snapshot becomes pending.
TEST_F(CopyRunTest, WhatAPlanCondemnsMeanwhileIsStoredAnew) {
  Snapshot({{"a", {"content"}}});
  std::optional<PackId> goes;
  options_.commit = [&](std::uint64_t, std::span<const StoredChunk> chunks) -> absl::Status {
    if (goes.has_value()) return absl::OkStatus();
    for (const StoredChunk& chunk : chunks) {
      if (chunk.digest == RefOf("content").digest) goes = DecodeLocator(chunk.locator)->pack;
    }
    CollectionPlan plan;
    plan.target_epoch = 3;
    plan.packs = {{*goes, {true}}};
    return WriteCollectionPlan(to_.store().plan_path(), to_.store().temporary_directory(), plan);
  };
  EXPECT_EQ(Copy().copied_count, 1u);
  ASSERT_TRUE(goes.has_value());
  std::filesystem::remove(ChunkIndex(to_.store().packs_directory()).PackPath(*goes));
  EXPECT_TRUE(to_.RestoreAll().ok());
}

TEST_F(CopyRunTest, TheServerIsToldOfWhatIsDurable) {
  Snapshot({{"a", {"one", "two"}}});
  PlainIndex index;
  int refusal_count = 0;
  options_.commit = [&](std::uint64_t epoch, std::span<const StoredChunk> chunks) {
    if (refusal_count > 0) {
      --refusal_count;
      return absl::FailedPreconditionError("the epoch lies behind");
    }
    for (const StoredChunk& chunk : chunks) EXPECT_TRUE(IsStored(to_, chunk));
    return index.Commit(epoch, chunks);
  };
  EXPECT_TRUE(Copy().index_warning.ok());
  PlainIndex expected;
  expected.CommitAll(to_.store());
  EXPECT_EQ(index.locators, expected.locators);
  EXPECT_EQ(index.epochs[RefOf("one").digest], 1u);
  // What it refuses once, it is told once more; what it refuses for ever is a warning.
  Snapshot({{"a", {"three"}}});
  refusal_count = 1;
  EXPECT_TRUE(Copy().index_warning.ok());
  EXPECT_TRUE(index.locators.contains(RefOf("three").digest));
  Snapshot({{"a", {"four"}}});
  refusal_count = 100;
  const CopyReport report = Copy();
  EXPECT_EQ(report.index_warning.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(report.copied_count, 1u);
}

TEST_F(CopyRunTest, ALostServerIsNotAskedForEach) {
  for (int number = 0; number < 4; ++number) Snapshot({{"a", {Cat("content ", number)}}});
  options_.max_unpublished = 1;
  int call_count = 0;
  options_.commit = [&](std::uint64_t, std::span<const StoredChunk>) {
    ++call_count;
    return absl::UnavailableError("nobody answers");
  };
  const CopyReport report = Copy();
  EXPECT_EQ(report.copied_count, 4u);
  EXPECT_EQ(report.index_warning.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(call_count, 1);
}

TEST_F(CopyRunTest, ManyAreOnlyFewPacks) {
  for (int number = 0; number < 9; ++number) Snapshot({{"a", {Cat("content ", number)}}});
  Copy();
  EXPECT_EQ(to_.PackFiles().size(), 2u) << "data and metadata";
}

TEST_F(CopyRunTest, TwoAtOnceDoNotDisturbEachOther) {
  for (int number = 0; number < 5; ++number) Snapshot({{"a", {Cat("content ", number)}}});
  const SnapshotList list = *from_.store().ListSnapshots();
  options_.on_snapshot = nullptr;
  options_.max_unpublished = 1;
  std::vector<std::jthread> runs;
  runs.reserve(2);
  std::atomic<int> failure_count = 0;
  for (int run = 0; run < 2; ++run) {
    runs.emplace_back([&] {
      const auto report = CopySnapshots(from_.store(), to_.store(), list.snapshots, options_);
      if (!report.ok() || report->copied_count + report->present_count != 5) ++failure_count;
    });
  }
  runs.clear();
  EXPECT_EQ(failure_count, 0);
  EXPECT_EQ(Ids(to_.store()).size(), 5u);
  EXPECT_TRUE(to_.RestoreAll().ok());
  EXPECT_THAT(to_.store().ListPending()->snapshots, IsEmpty());
}

TEST_F(CopyRunTest, AFullDiskEndsIt) {
  const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
  DiskHook hook(folder.path());
  TestStore to(folder.path());
  Snapshot({{"a", {"content"}}});
  hook.RefuseWith(
      RefuseEvery(FileOperation::Kind::kWrite, "/tmp/", absl::ResourceExhaustedError("no room")));
  const SnapshotList list = *from_.store().ListSnapshots();
  EXPECT_EQ(CopySnapshots(from_.store(), to.store(), list.snapshots, options_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Ids(to.store()), IsEmpty());
}

// What is left of the other store when the power goes, or the process is killed, before the n-th
// file operation: every snapshot there is whole, and the next run brings the rest.
TEST(CopyPowerCutTest, WhateverIsLeftIsWholeAndGoesOn) {
  const TemporaryFolder source(TemporaryFolder::Place::kMemory);
  TestStore from(source.path());
  for (int number = 0; number < 3; ++number) {
    from.WriteSnapshot({{"a", {"shared", Cat("content ", number)}}});
  }
  const SnapshotList list = *from.store().ListSnapshots();
  CopyOptions options;
  options.transfer.thread_count = 1;
  options.max_unpublished = 2;
  Random random(1);
  int cut_count = 0;
  for (bool is_done = false; !is_done; ++cut_count) {
    SCOPED_TRACE(Cat("cut before operation ", cut_count));
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    DiskHook hook(folder.path());
    std::optional<TestStore> to(std::in_place, folder.path());
    std::atomic<int> left = cut_count;
    hook.RefuseWith([&left](const FileOperation& operation) {
      return !operation.changes_something() || left-- > 0 ? absl::OkStatus()
                                                          : absl::UnavailableError("no power");
    });
    is_done = CopySnapshots(from.store(), to->store(), list.snapshots, options).ok();
    const std::size_t published_count = is_done ? 3 : 0;
    for (const auto survival : {DiskModel::Survival::kNothing, DiskModel::Survival::kSome,
                                DiskModel::Survival::kEverything}) {
      const TemporaryFolder after(TemporaryFolder::Place::kMemory);
      hook.RefuseWith(nullptr);
      hook.CutPower(after.path(), survival, random);
      SetFileHookForTest(nullptr);
      TestStore left_over(after.path());
      EXPECT_TRUE(left_over.RestoreAll().ok());
      EXPECT_GE(Ids(left_over.store()).size(), published_count);
      const auto again = CopySnapshots(from.store(), left_over.store(), list.snapshots, options);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(Ids(left_over.store()).size(), 3u);
      EXPECT_TRUE(left_over.RestoreAll().ok());
      SetFileHookForTest(&hook);
    }
    ASSERT_LT(cut_count, 500);
  }
  EXPECT_GT(cut_count, 30);
}

}  // namespace
}  // namespace kerf::agent
