// Collections on stores that cannot be read in part, or have no room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/reserve.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kLetters[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};
constexpr char kIoError[] = "Input/output error";

class CollectionTroubleTest : public testing::Test {
 protected:
  CollectionTroubleTest() {
    options_.max_waste_ratio = 0;
    options_.min_merged_packs = 1000;
    options_.thread_count = 1;
  }

  absl::StatusOr<CollectionReport> Collect() {
    return CollectGarbage(test_.store(), index_, options_);
  }
  std::string PathOf(const SealedPack& pack) {
    return ChunkIndex(test_.store().packs_directory()).PackPath(pack.id);
  }
  // Bytes that do not compress, so that each chunk has a block of its own.
  std::string Noise(std::size_t size_bytes = 300) {
    std::string text(size_bytes, '\0');
    for (char& byte : text) byte = static_cast<char>(random_.Below(256));
    return text;
  }
  // The content of the files in `packs`, whose snapshot's metadata is in a pack of its own.
  store::v1::Snapshot WriteSnapshotOf(const FileChunks& files) {
    std::vector<std::string> metadata;
    store::v1::Snapshot snapshot = test_.Describe(files, metadata);
    test_.WritePack(metadata);
    EXPECT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
    return snapshot;
  }
  static void Flip(const std::string& path, std::uint64_t position) {
    std::string bytes = ReadTestFile(path);
    bytes[position] = static_cast<char>(bytes[position] ^ 1);
    WriteTestFile(path, bytes);
  }
  // From now on the blocks of these packs cannot be read; their footers can.
  void BreakBlocks(const std::vector<SealedPack>& packs) {
    std::vector<DiskHook::Refuse> refusals;
    refusals.reserve(packs.size());
    for (const SealedPack& pack : packs) {
      refusals.push_back(
          RefuseReading(PathOf(pack), kPackHeaderBytes,
                        pack.footer.blocks.back().offset + pack.footer.blocks.back().stored_bytes));
    }
    hook_.RefuseWith([refusals](const FileOperation& operation) {
      for (const DiskHook::Refuse& refuse : refusals) {
        if (absl::Status status = refuse(operation); !status.ok()) return status;
      }
      return absl::OkStatus();
    });
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_{folder_.path()};
  TestStore test_{folder_.path()};
  PlainIndex index_;
  CollectionOptions options_;
  Random random_{TestSeed()};
};

// What lies there may be the only copy, or name what is to be deleted.
TEST_F(CollectionTroubleTest, WhereAFolderCannotBeListedNothingIsDeleted) {
  const std::string dead = PathOf(test_.WritePack({Noise()}));
  WriteSnapshotOf({{"a", {}}});
  const std::string folder = std::filesystem::path(dead).parent_path();
  for (const std::string& unlisted :
       {folder, test_.store().manifest().directory(), test_.store().snapshots_directory(),
        test_.store().pending_directory(), test_.store().forgotten_directory()}) {
    hook_.RefuseWith(
        RefuseEvery(FileOperation::Kind::kListDirectory, unlisted, absl::UnknownError(kIoError)));
    EXPECT_FALSE(Collect().ok()) << unlisted;
    EXPECT_TRUE(std::filesystem::exists(dead)) << unlisted;
  }
  hook_.RefuseWith({});
  ASSERT_TRUE(Collect().ok());
  EXPECT_FALSE(std::filesystem::exists(dead));
}

// Of what it did before people hear, too: a pack that cannot be deleted, an interrupt, no server.
TEST_F(CollectionTroubleTest, WhatWasDoneBeforeItBrokeOffIsReported) {
  const SealedPack dead = test_.WritePack({Noise()});
  const SealedPack stays = test_.WritePack({Noise()});
  WriteSnapshotOf({{"a", {}}});
  hook_.RefuseWith(
      RefuseEvery(FileOperation::Kind::kRemove, PathOf(stays), absl::UnknownError(kIoError)));
  CollectionReport report;
  EXPECT_THAT(CollectGarbage(test_.store(), index_, options_, report).message(),
              HasSubstr(kIoError));
  EXPECT_FALSE(std::filesystem::exists(PathOf(dead)));
  EXPECT_EQ(report.deleted_pack_count, 1u);
  EXPECT_EQ(report.snapshot_count, 1u);
  EXPECT_EQ(report.condemned_chunk_count, 2u);
  EXPECT_EQ(report.stored_bytes_before - report.stored_bytes_after, dead.file_bytes);
  hook_.RefuseWith({});
  EXPECT_EQ(Collect()->deleted_pack_count, 1u);
}

// Of two copies a collection keeps the one whose pack comes last, and ids are random: many pairs.
TEST_F(CollectionTroubleTest, ASoundCopyStaysWhenTheOtherOneCannotBeRead) {
  FileChunks files;
  std::vector<SealedPack> unreadable;
  for (const char letter : kLetters) {
    const std::string content = Noise();
    files[std::string(1, letter)] = {content};
    test_.WritePack({content});
    unreadable.push_back(test_.WritePack({content}));
  }
  WriteSnapshotOf(files);
  BreakBlocks(unreadable);
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  hook_.RefuseWith({});
  // Those that stay are named; those that went are nobody's any more.
  std::size_t stay_count = 0;
  for (const SealedPack& pack : unreadable) {
    if (!std::filesystem::exists(PathOf(pack))) continue;
    ++stay_count;
    EXPECT_THAT(report->damage, Contains(AllOf(HasSubstr(PathOf(pack)), HasSubstr(kIoError))));
  }
  EXPECT_EQ(report->damage.size(), stay_count);
  // The disk never gives them back.
  for (const SealedPack& pack : unreadable) std::filesystem::remove(PathOf(pack));
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

TEST_F(CollectionTroubleTest, ASoundCopyStaysWhenThePackOfTheOtherOneIsGone) {
  FileChunks files;
  std::vector<SealedPack> gone;
  for (const char letter : kLetters) {
    const std::string content = Noise();
    files[std::string(1, letter)] = {content};
    test_.WritePack({content});
    gone.push_back(test_.WritePack({content}));
  }
  WriteSnapshotOf(files);
  options_.on_step = [&](CollectionStep step) {
    if (step != CollectionStep::kForgotten) return absl::OkStatus();
    for (const SealedPack& pack : gone) std::filesystem::remove(PathOf(pack));
    return absl::OkStatus();
  };
  ASSERT_TRUE(Collect().ok());
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// Both copies go, and the one that should be moved cannot be read: neither does the other, which
// could not be read either.
TEST_F(CollectionTroubleTest, NoCopyGoesOfAChunkThatCannotBeReadToday) {
  const std::string content = Noise();
  const std::string waste = Noise();
  const SealedPack first = test_.WritePack({content, waste});
  const SealedPack second = test_.WritePack({content, Noise()});
  const SealedPack other = test_.WritePack({Noise(), Noise()});
  WriteSnapshotOf({{"a", {content}}});
  BreakBlocks({first, second});
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->damage, ElementsAre(AllOf(HasSubstr(kIoError), HasSubstr("is kept"))));
  EXPECT_TRUE(std::filesystem::exists(PathOf(first)));
  EXPECT_TRUE(std::filesystem::exists(PathOf(second)));
  EXPECT_FALSE(std::filesystem::exists(PathOf(other)));
  hook_.RefuseWith({});
  // One of them is read again, whichever it is.
  std::filesystem::remove(PathOf(random_.OneIn(2) ? first : second));
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

TEST_F(CollectionTroubleTest, APackThatCannotBeReadIsKeptAndTheOthersGo) {
  const std::string kept = Noise();
  const std::string moved = Noise();
  const SealedPack unreadable = test_.WritePack({kept, Noise()});
  const SealedPack wasteful = test_.WritePack({moved, Noise()});
  const SealedPack dead = test_.WritePack({Noise()});
  WriteSnapshotOf({{"a", {kept}}, {"b", {moved}}});
  index_.CommitAll(test_.store());
  BreakBlocks({unreadable});
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->damage, ElementsAre(AllOf(HasSubstr(PathOf(unreadable)), HasSubstr(kIoError),
                                                HasSubstr("is kept"))));
  EXPECT_TRUE(std::filesystem::exists(PathOf(unreadable)));
  EXPECT_FALSE(std::filesystem::exists(PathOf(wasteful)));
  EXPECT_FALSE(std::filesystem::exists(PathOf(dead)));
  EXPECT_EQ(report->missing_chunk_count, 0u);
  EXPECT_TRUE(index_.locators.contains(RefOf(kept).digest));
  hook_.RefuseWith({});
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  // The next one does what this one could not.
  const auto next = Collect();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->damage, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(PathOf(unreadable)));
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

TEST_F(CollectionTroubleTest, APackThatCannotBeDeletedDoesNotHoldUpTheOthers) {
  const SealedPack fixed = test_.WritePack({Noise()});
  std::vector<SealedPack> dead;
  dead.reserve(8);
  for (int count = 0; count < 8; ++count) dead.push_back(test_.WritePack({Noise()}));
  hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kRemove, PackIdToHex(fixed.id),
                               absl::PermissionDeniedError("Operation not permitted")));
  EXPECT_TRUE(absl::IsPermissionDenied(Collect().status()));
  for (const SealedPack& pack : dead) EXPECT_FALSE(std::filesystem::exists(PathOf(pack)));
}

// A pack whose footer cannot be read may hold what an unchecked snapshot needs: that is no snapshot
// of which chunks are gone.
TEST_F(CollectionTroubleTest, APackThatCannotBeOpenedIsNotTakenForOneThatIsNotThere) {
  const std::string content = Noise();
  test_.WritePack({content});
  std::vector<std::string> metadata;
  store::v1::Snapshot pending = test_.Describe({{"a", {content}}}, metadata);
  const SealedPack unreadable = test_.WritePack(metadata);
  ASSERT_TRUE(PublishPending(test_.store(), pending).ok());
  hook_.RefuseWith(RefuseReading(PathOf(unreadable), 0, unreadable.file_bytes));
  const absl::Status refused = Collect().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(MessageOf(refused)),
              AllOf(HasSubstr(pending.id()), HasSubstr("run `kerf gc` again"),
                    HasSubstr("move that file out of the store")));
  EXPECT_EQ(test_.PackFiles().size(), 2u);
  hook_.RefuseWith({});
  ASSERT_TRUE(Collect().ok());
  // Its agent had looked before.
  ASSERT_TRUE(ConfirmPending(test_.store(), pending).ok());
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

TEST_F(CollectionTroubleTest, ACheckedSnapshotThatCannotBeReadTodayIsNotToBeForgotten) {
  const std::string content = Noise();
  test_.WritePack({content});
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"a", {content}}}, metadata);
  const SealedPack unreadable = test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{kPackHeaderBytes}}) {
    hook_.RefuseWith(RefuseReading(PathOf(unreadable), begin, kPackHeaderBytes + 1));
    const absl::Status refused = Collect().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(MessageOf(refused)),
                AllOf(HasSubstr("run `kerf gc` again"), Not(HasSubstr("kerf forget"))));
  }
  EXPECT_EQ(test_.PackFiles().size(), 2u);
}

// It can still be brought back.
TEST_F(CollectionTroubleTest, WhatAForgottenSnapshotNeedsStaysWhenItCannotBeReadToday) {
  options_.max_forgotten_age_s = 3600;
  const std::string content = Noise();
  const SealedPack wanted = test_.WritePack({content});
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"a", {content}}}, metadata);
  const SealedPack pack = test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{kPackHeaderBytes}}) {
    hook_.RefuseWith(RefuseReading(PathOf(pack), begin, kPackHeaderBytes + 1));
    const absl::Status refused = Collect().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("run `kerf gc` again"));
  }
  hook_.RefuseWith({});
  EXPECT_EQ(test_.PackFiles().size(), 2u);
  // What has rotted could not be brought back, and is no reason to keep anything.
  Flip(PathOf(pack), kPackHeaderBytes + 20);
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->damage, Contains(HasSubstr(snapshot.id())));
  EXPECT_FALSE(std::filesystem::exists(PathOf(wanted)));
}

TEST_F(CollectionTroubleTest, AnUncheckedSnapshotThatHasRottedIsPutIntoQuarantine) {
  const std::string content = Noise();
  const SealedPack wanted = test_.WritePack({content});
  std::vector<std::string> metadata;
  store::v1::Snapshot pending = test_.Describe({{"a", {content}}}, metadata);
  const SealedPack rotten = test_.WritePack(metadata);
  Flip(PathOf(rotten), kPackHeaderBytes + 20);
  const std::string quarantine = test_.directory() + "/quarantine/pending-";
  for (const bool file_is_damaged : {false, true}) {
    pending.clear_id();
    ASSERT_TRUE(PublishPending(test_.store(), pending).ok());
    const std::string path = Store::SnapshotPath(test_.store().pending_directory(), pending.id());
    if (file_is_damaged) Flip(path, 40);
    const std::string bytes = ReadTestFile(path);
    options_.dry_run = true;
    EXPECT_TRUE(Collect().ok());
    EXPECT_TRUE(std::filesystem::exists(path));
    options_.dry_run = false;
    const auto report = Collect();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->damage, Contains(AllOf(HasSubstr(path), HasSubstr("made again"))));
    EXPECT_EQ(ReadTestFile(quarantine + pending.id() + ".snap"), bytes);
    // Its agent is told, instead of making it a snapshot without its chunks.
    EXPECT_TRUE(absl::IsFailedPrecondition(ConfirmPending(test_.store(), pending)));
  }
  EXPECT_FALSE(std::filesystem::exists(PathOf(wanted)));
}

// Between the first look at the snapshots and the second one.
TEST_F(CollectionTroubleTest, ASnapshotThatComesMeanwhileMissesNothing) {
  test_.WriteSnapshot({{"a", {Noise()}}});
  options_.on_step = [&](CollectionStep step) {
    if (step == CollectionStep::kMarked) test_.WriteSnapshot({{"b", {Noise()}}});
    return absl::OkStatus();
  };
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->snapshot_count, 2u);
  EXPECT_EQ(report->missing_chunk_count, 0u);
  EXPECT_THAT(report->damage, IsEmpty());
}

TEST_F(CollectionTroubleTest, ACopyThatWasSteppedOverIsTold) {
  const std::string content = Noise();
  test_.WritePack({content});
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"a", {content}}}, metadata);
  std::vector<SealedPack> packs = {test_.WritePack(metadata), test_.WritePack(metadata)};
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  ChunkIndex index(test_.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  const std::string read_first =
      index.PackPath(index.Locate(RefOf(metadata.front()).digest)->pack->id);
  hook_.RefuseWith(RefuseReading(read_first, kPackHeaderBytes, kPackHeaderBytes + 1));
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->damage, Contains(AllOf(HasSubstr(read_first), HasSubstr(kIoError))));
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

TEST_F(CollectionTroubleTest, WhatIsMissingIsDamage) {
  const SealedPack lost = test_.WritePack({Noise()});
  const std::string content = Noise();
  test_.WritePack({content});
  const std::string also = Noise();
  const SealedPack rotten = test_.WritePack({also});
  WriteSnapshotOf({{"a", {content, also}}});
  Flip(PathOf(rotten), rotten.file_bytes - 70);
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->missing_chunk_count, 1u);
  EXPECT_THAT(report->damage, ElementsAre(HasSubstr(PathOf(rotten)), HasSubstr("no pack holds 1")));
  EXPECT_FALSE(std::filesystem::exists(PathOf(lost)));
}

TEST_F(CollectionTroubleTest, BytesThatNobodyHasWrittenAreDamage) {
  const std::string content = Noise();
  const SealedPack pack = test_.WritePack({content});
  WriteSnapshotOf({{"a", {content}}});
  // Reserved, in the header.
  Flip(PathOf(pack), 13);
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->damage, ElementsAre(HasSubstr(PathOf(pack))));
  EXPECT_EQ(report->missing_chunk_count, 0u);
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

class FullDiskTest : public CollectionTroubleTest {
 protected:
  // More than half a block: each has one of its own.
  static constexpr std::size_t kContentBytes = 300'000;
  static constexpr std::size_t kWasteBytes = 100'000;

  FullDiskTest() {
    for (const char letter : kLetters) {
      std::string content = Noise(kContentBytes);
      wasteful_.push_back(test_.WritePack({content, Noise(kWasteBytes)}));
      files_[std::string(1, letter)] = {std::move(content)};
    }
    WriteSnapshotOf(files_);
    dead_ = test_.WritePack({Noise(kContentBytes + kContentBytes / 10)});
  }
  std::size_t WastefulLeft() {
    std::size_t count = 0;
    for (const SealedPack& pack : wasteful_) count += std::filesystem::exists(PathOf(pack)) ? 1 : 0;
    return count;
  }
  std::uint64_t PackBytes() {
    std::uint64_t sum = 0;
    for (const std::string& path : test_.PackFiles()) sum += std::filesystem::file_size(path);
    return sum;
  }

  FileChunks files_;
  std::vector<SealedPack> wasteful_;
  SealedPack dead_;
};

TEST_F(FullDiskTest, WhatNeedsNoRoomGoesAndTheRestIsTold) {
  options_.available_bytes = [] { return 0; };
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(std::filesystem::exists(PathOf(dead_)));
  EXPECT_EQ(WastefulLeft(), 8u);
  EXPECT_EQ(report->deleted_pack_count, 1u);
  EXPECT_EQ(report->left_pack_count, 8u);
  EXPECT_GE(report->left_bytes, 8 * kWasteBytes);
  EXPECT_THAT(report->findings, ElementsAre(AllOf(HasSubstr("the disk is too full"),
                                                  HasSubstr("8 are left as they are"))));
  EXPECT_THAT(report->damage, IsEmpty());
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// Room for one pack more than there are, by and by.
TEST_F(FullDiskTest, EachPassMakesRoomForTheNextOne) {
  constexpr std::uint64_t kBesides = (1 << 20) + 1000;
  const std::uint64_t size_bytes = PackBytes() + kBesides;
  std::vector<std::uint64_t> available;
  options_.available_bytes = [&] {
    available.push_back(size_bytes - PackBytes());
    return available.back();
  };
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(available.size(), 2u);
  EXPECT_EQ(WastefulLeft(), 0u);
  EXPECT_EQ(report->rewritten_pack_count, 8u);
  EXPECT_EQ(report->deleted_pack_count, 9u);
  EXPECT_EQ(report->left_pack_count, 0u);
  EXPECT_EQ(report->stored_bytes_after, PackBytes());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// As with a quota, of which the file system says nothing.
TEST_F(FullDiskTest, AWriteThatFailsTakesNothingWithIt) {
  options_.available_bytes = [] { return std::nullopt; };
  options_.target_pack_bytes = 2 * kContentBytes;
  for (const bool for_ever : {true, false}) {
    int write_count = 0;
    hook_.RefuseWith([&](const FileOperation& operation) -> absl::Status {
      const bool is_pack = operation.kind == FileOperation::Kind::kWrite &&
                           operation.path.find("/tmp/") != std::string_view::npos &&
                           operation.path.ends_with(".pack");
      if (!is_pack) return absl::OkStatus();
      ++write_count;
      const bool is_full = for_ever ? write_count > 10 : std::filesystem::exists(PathOf(dead_));
      return is_full ? absl::ResourceExhaustedError("No space left on device") : absl::OkStatus();
    });
    dead_ = test_.WritePack({Noise(100)});
    const auto report = Collect();
    hook_.RefuseWith({});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(std::filesystem::exists(PathOf(dead_)));
    EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
    if (for_ever) {
      EXPECT_GT(WastefulLeft(), 0u);
      EXPECT_LT(WastefulLeft(), 8u) << "what was moved before may go";
      EXPECT_EQ(report->left_pack_count, WastefulLeft());
    } else {
      EXPECT_EQ(WastefulLeft(), 0u);
      EXPECT_EQ(report->left_pack_count, 0u);
      EXPECT_THAT(report->findings, IsEmpty());
    }
  }
}

TEST_F(FullDiskTest, ADiskWithoutAByteIsMadeRoomOnOutOfTheReserve) {
  const Reserve reserve = test_.store().reserve();
  ASSERT_TRUE(reserve.IsThere());
  options_.available_bytes = [] { return 0; };
  options_.max_forgotten_age_s = 3600;
  const store::v1::Snapshot snapshot = WriteSnapshotOf({{"x", {files_["a"].front()}}});
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  hook_.RefuseWith(RefuseWhatNeedsRoomWhile(reserve.path()));
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(std::filesystem::exists(PathOf(dead_)));
  EXPECT_TRUE(reserve.IsThere()) << "for the next time";
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

TEST_F(FullDiskTest, WhoOnlyLooksLeavesTheReserve) {
  options_.dry_run = true;
  options_.max_forgotten_age_s = 3600;
  const store::v1::Snapshot snapshot = WriteSnapshotOf({{"x", {files_["a"].front()}}});
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  const Reserve reserve = test_.store().reserve();
  hook_.RefuseWith(RefuseWhatNeedsRoomWhile(reserve.path()));
  const auto report = Collect();
  EXPECT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(reserve.IsThere());
}

// There is no other word for it where nothing is left to give up.
TEST_F(FullDiskTest, WithoutAReserveItSaysThatTheDiskIsFull) {
  std::filesystem::remove(test_.store().reserve().path());
  options_.available_bytes = [] { return 0; };
  hook_.RefuseWith(RefuseWhatNeedsRoomWhile(test_.directory()));
  EXPECT_TRUE(absl::IsResourceExhausted(Collect().status()));
  hook_.RefuseWith({});
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// The plan has to fit into what the reserve leaves: several plans, each for what it has room for.
TEST_F(FullDiskTest, APlanIsNoLongerThanThereIsRoomFor) {
  for (int count = 0; count < 6; ++count) test_.WritePack({Noise()});
  options_.available_bytes = [] { return 0; };
  options_.full_disk_plan_bytes = 3 * PlannedBytes(1) - 1;
  std::vector<std::size_t> planned;
  options_.on_step = [&](CollectionStep step) {
    if (step != CollectionStep::kPlanned) return absl::OkStatus();
    const auto plan = ReadCollectionPlan(test_.store().plan_path());
    EXPECT_TRUE(plan.ok() && plan->has_value());
    planned.push_back((*plan)->packs.size());
    return absl::OkStatus();
  };
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  // Seven that are dead; then there is none that goes.
  EXPECT_THAT(planned, ElementsAre(2, 2, 2, 1, 0));
  EXPECT_EQ(report->deleted_pack_count, 7u);
  EXPECT_EQ(report->left_pack_count, 8u);
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

}  // namespace
}  // namespace kerf::agent
