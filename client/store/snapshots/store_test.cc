#include "client/store/snapshots/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/quarantine.h"
#include "client/store/snapshots/reserve.h"
#include "client/store/snapshots/store_stats.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

TEST(StoreTest, IsPrivateToItsOwner) {
  TestStore test;
  test.WriteSnapshot({{"a", {"content"}}});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test.directory())) {
    struct stat info{};
    ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0077, 0u) << entry.path();
  }
}

TEST(StoreTest, OpensOnlyWhatIsAStore) {
  TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(Store::Open(folder.path()).status()));
  WriteTestFile(folder.path() + "/letter", "dear");
  const auto refused =
      Store::OpenOrCreate(folder.path(), "fastcdc2020-8k", DigestAlgorithm::kBlake3);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
}

TEST(StoreTest, AgentsThatMakeOneAtOnceAgree) {
  TemporaryFolder folder;
  const std::string directory = folder.path() + "/a/b";
  std::vector<std::string> ids(4);
  {
    std::vector<std::jthread> agents(ids.size());
    for (std::size_t index = 0; index < ids.size(); ++index) {
      agents[index] = std::jthread([&directory, &id = ids[index]] {
        const auto store =
            Store::OpenOrCreate(directory, "fastcdc2020-8k", DigestAlgorithm::kSha256);
        if (store.ok()) id = (*store)->config().id();
      });
    }
  }
  EXPECT_EQ(ids[0].size(), 32u);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u);
}

TEST(StoreTest, EveryDamagedByteOfASmallFileIsNoticed) {
  TestStore test;
  const store::v1::Snapshot snapshot = test.WriteSnapshot({{"a", {"content"}}});
  for (const std::string& path :
       {test.directory() + "/config", test.directory() + "/epoch",
        Store::SnapshotPath(test.store().snapshots_directory(), snapshot.id())}) {
    const std::string good = ReadTestFile(path);
    for (std::size_t index = 0; index < good.size(); ++index) {
      std::string bad = good;
      bad[index] = static_cast<char>(bad[index] ^ 0x10);
      WriteTestFile(path, bad);
      const auto opened = Store::Open(test.directory());
      const auto list = test.store().ListSnapshots();
      ASSERT_TRUE(list.ok());
      // The other copy is of use.
      ASSERT_TRUE(opened.ok()) << opened.status();
      const bool noticed = !(*opened)->flaws().empty() || !list->damaged.empty();
      // The four bytes behind the version are not used.
      EXPECT_TRUE(noticed) << path << " at " << index;
    }
    WriteTestFile(path, good);
  }
  EXPECT_TRUE(test.store().FindSnapshot("latest").ok());
}

// kerf 0.1.0 knows version 1, and refuses a later one by name.
TEST(StoreTest, OnlyASnapshotWithLinkedSpecialsIsOfVersionTwo) {
  TestStore test;
  for (const bool has_links : {false, true}) {
    store::v1::Snapshot snapshot;
    snapshot.set_has_linked_specials(has_links);
    ASSERT_TRUE(test.store().WriteSnapshot(snapshot).ok());
    const std::string path = Store::SnapshotPath(test.store().snapshots_directory(), snapshot.id());
    const std::string bytes = ReadTestFile(path);
    EXPECT_EQ(bytes[8], has_links ? 2 : 1);
    const auto read = test.store().FindSnapshot(snapshot.id());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->has_linked_specials(), has_links);
  }
}

TEST(StoreTest, FindsSnapshotsByIdAndPrefix) {
  TestStore test;
  for (const std::string_view id : {"aaaa000000000000", "aabb000000000000", "cccc000000000000"}) {
    store::v1::Snapshot snapshot;
    snapshot.set_id(std::string(id));
    snapshot.set_started_unix_ns(id[0]);
    ASSERT_TRUE(test.store().WriteSnapshot(snapshot).ok());
  }
  EXPECT_EQ(test.store().FindSnapshot("cc")->id(), "cccc000000000000");
  EXPECT_EQ(test.store().FindSnapshot("aab")->id(), "aabb000000000000");
  EXPECT_EQ(test.store().FindSnapshot("latest")->id(), "cccc000000000000");
  EXPECT_EQ(test.store().FindSnapshot("aaaa000000000000")->id(), "aaaa000000000000");
  EXPECT_TRUE(absl::IsInvalidArgument(test.store().FindSnapshot("aa").status()));
  EXPECT_TRUE(absl::IsNotFound(test.store().FindSnapshot("dd").status()));
  EXPECT_TRUE(absl::IsNotFound(test.store().FindSnapshot("").status()));
  EXPECT_TRUE(absl::IsNotFound(test.store().FindSnapshot("aaaa000000000001").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(test.store().RemoveSnapshot("../config")));
  EXPECT_TRUE(test.store().RemoveSnapshot("cccc000000000000").ok());
  EXPECT_EQ(test.store().ListSnapshots()->snapshots.size(), 2u);
}

TEST(StoreTest, AFileUnderAnotherNameIsNotTheSnapshot) {
  TestStore test;
  const store::v1::Snapshot snapshot = test.WriteSnapshot({{"a", {"content"}}});
  const std::string& folder = test.store().snapshots_directory();
  std::filesystem::rename(Store::SnapshotPath(folder, snapshot.id()),
                          Store::SnapshotPath(folder, "0123456789abcdef"));
  EXPECT_TRUE(absl::IsDataLoss(test.store().FindSnapshot("0123456789abcdef").status()));
  EXPECT_EQ(test.store().ListSnapshots()->damaged.size(), 1u);
}

TEST(PendingTest, IsARootAndNoSnapshot) {
  TestStore test;
  store::v1::Snapshot snapshot;
  ASSERT_TRUE(PublishPending(test.store(), snapshot).ok());
  EXPECT_TRUE(test.store().ListSnapshots()->snapshots.empty());
  EXPECT_EQ(ListRoots(test.store())->pending.snapshots.size(), 1u);
  ASSERT_TRUE(ConfirmPending(test.store(), snapshot).ok());
  EXPECT_EQ(test.store().FindSnapshot("latest")->id(), snapshot.id());
  EXPECT_TRUE(ListRoots(test.store())->pending.snapshots.empty());
}

TEST(PendingTest, OneThatIsGoneIsNotConfirmed) {
  TestStore test;
  store::v1::Snapshot snapshot;
  ASSERT_TRUE(PublishPending(test.store(), snapshot).ok());
  EXPECT_TRUE(WithdrawPending(test.store(), snapshot.id()).ok());
  EXPECT_TRUE(WithdrawPending(test.store(), snapshot.id()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(ConfirmPending(test.store(), snapshot)));
}

TEST(QuarantineTest, WhatIsMovedThereIsKeptUnderItsOwnNameAndSurvives) {
  const TemporaryFolder folder;
  DiskHook hook(folder.path());
  TestStore test(folder.path());
  const std::string path = test.store().pending_directory() + "/a.snap";
  const std::string moved = test.directory() + "/quarantine/pending-a.snap";
  EXPECT_TRUE(absl::IsNotFound(MoveToQuarantine(test.directory(), path).status()));
  const auto write = [&](std::string_view text) {
    ASSERT_TRUE(WriteFileDurably(path, test.store().temporary_directory(),
                                 {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()})
                    .ok());
  };
  write("first");
  EXPECT_EQ(*MoveToQuarantine(test.directory(), path), moved);
  write("second");
  EXPECT_EQ(*MoveToQuarantine(test.directory(), path), moved + ".1");
  EXPECT_EQ(ReadTestFile(moved), "first");
  EXPECT_EQ(ReadTestFile(moved + ".1"), "second");
  const TemporaryFolder after;
  hook.CutPower(after.path());
  EXPECT_EQ(ReadTestFile(after.path() + "/store/quarantine/pending-a.snap"), "first");
  EXPECT_EQ(ReadTestFile(after.path() + "/store/quarantine/pending-a.snap.1"), "second");
  EXPECT_FALSE(std::filesystem::exists(after.path() + "/store/pending/a.snap"));
}

TEST(StoreStatsTest, CountsEachChunkOnce) {
  TestStore test;
  test.WriteSnapshot({{"a", {std::string(1000, 'a')}}, {"b", {std::string(1000, 'a'), "bb"}}});
  test.WriteSnapshot({{"a", {std::string(1000, 'a')}}});
  const auto stats = ReadStoreStats(test.store());
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->snapshot_count, 2u);
  EXPECT_EQ(stats->file_count, 3u);
  EXPECT_EQ(stats->logical_bytes, 3002u);
  EXPECT_EQ(stats->pack_count, 2u);
  EXPECT_GE(stats->unique_bytes, 1002u);
  EXPECT_LT(stats->unique_bytes, 2000u);
  EXPECT_GE(stats->redundant_bytes, 2000u);
  EXPECT_GT(stats->compression_ratio(), 1.0);
}

// As where the folder of the packs was moved to another disk, and a link left.
TEST(StoreTest, FoldersOnTwoFileSystemsAreRefusedWithWords) {
  const TemporaryFolder one;
  const TemporaryFolder other(TemporaryFolder::Place::kMemory);
  struct stat one_info{};
  struct stat other_info{};
  ASSERT_EQ(stat(one.path().c_str(), &one_info), 0);
  ASSERT_EQ(stat(other.path().c_str(), &other_info), 0);
  if (one_info.st_dev == other_info.st_dev) GTEST_SKIP() << "there is only one file system here";
  WriteTestFile(one.path() + "/from", "bytes");
  for (const absl::Status& status :
       {PublishFile(one.path() + "/from", other.path() + "/to"),
        PublishUnlessThere(one.path() + "/from", other.path() + "/to")}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find("on one file system"), std::string::npos) << status;
  }
  EXPECT_EQ(ReadTestFile(one.path() + "/from"), "bytes");
}

class ReserveTest : public testing::Test {
 protected:
  ReserveTest() {
    snapshot_.set_id(kId);
    EXPECT_TRUE(test_.store().WriteSnapshot(snapshot_).ok());
  }
  std::size_t TemporaryCount() {
    return ListDirectory(test_.store().temporary_directory())->size();
  }

  static constexpr char kId[] = "aaaa000000000001";
  const TemporaryFolder folder_;
  DiskHook hook_{folder_.path()};
  TestStore test_{folder_.path()};
  const Reserve reserve_ = test_.store().reserve();
  store::v1::Snapshot snapshot_;
  int rename_count_ = 0;
};

TEST_F(ReserveTest, ItTakesTheRoomThatItKeeps) {
  struct stat info{};
  ASSERT_EQ(stat(reserve_.path().c_str(), &info), 0);
  EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, kReserveBytes);
  // As one of kerf 0.1.0, which has none.
  std::filesystem::remove(reserve_.path());
  ASSERT_TRUE(Store::Open(test_.directory()).ok());
  EXPECT_FALSE(reserve_.IsThere()) << "who reads changes nothing";
  ASSERT_TRUE(Store::OpenForWriting(test_.directory()).ok());
  EXPECT_TRUE(reserve_.IsThere());
}

// A file system that keeps no room for what is not written gets bytes that do not compress.
TEST_F(ReserveTest, WhereNoRoomCanBeKeptItIsWritten) {
  std::filesystem::remove(reserve_.path());
  hook_.RefuseWith([](const FileOperation& operation) {
    return operation.kind == FileOperation::Kind::kWrite && operation.bytes.empty()
               ? absl::UnimplementedError("Operation not supported")
               : absl::OkStatus();
  });
  ASSERT_TRUE(reserve_.Make().ok());
  const std::string bytes = ReadTestFile(reserve_.path());
  EXPECT_EQ(bytes.size(), kReserveBytes);
  std::vector<std::size_t> counts(256);
  for (const char byte : bytes) ++counts[static_cast<unsigned char>(byte)];
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 2 * kReserveBytes / 256);
}

TEST_F(ReserveTest, ASnapshotIsForgottenOnADiskWithoutAByte) {
  hook_.RefuseWith(RefuseWhatNeedsRoomWhile(reserve_.path()));
  const absl::Status status = test_.store().RemoveSnapshot(kId);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(reserve_.IsThere()) << "for the next one";
  EXPECT_TRUE(test_.store().ListSnapshots()->snapshots.empty());
  EXPECT_TRUE(test_.store().ListSnapshots()->missing.empty());
  EXPECT_EQ(test_.store().ListForgotten()->snapshots.size(), 1u);
}

// Its note is gone already when the disk turns out to be full: the pin brings it back all the same.
TEST_F(ReserveTest, APinHoldsOnADiskWithoutAByte) {
  store::v1::SnapshotPin pin;
  pin.set_id(kId);
  ASSERT_TRUE(test_.store().PinSnapshot(pin).ok());
  hook_.RefuseWith(RefuseWhatNeedsRoomWhile(reserve_.path()));
  const absl::Status status = test_.store().RemoveSnapshot(kId);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(test_.store().manifest().Has(kId));
}

TEST_F(ReserveTest, TheEpochIsWrittenOnADiskWithoutAByte) {
  hook_.RefuseWith(RefuseWhatNeedsRoomWhile(reserve_.path()));
  EXPECT_TRUE(test_.store().WriteEpoch(7).ok());
  EXPECT_EQ(*test_.store().ReadEpoch(), 7u);
  // It is gone, and nothing else is to be given up.
  hook_.RefuseWith(RefuseWhatNeedsRoomWhile(test_.directory()));
  EXPECT_TRUE(absl::IsResourceExhausted(test_.store().WriteEpoch(8)));
  EXPECT_TRUE(absl::IsResourceExhausted(test_.store().RemoveSnapshot(kId)));
}

// Part of the room is in use: as much of it as there is.
TEST_F(ReserveTest, ASmallerOneIsTakenBackAndBecomesWholeLater) {
  std::filesystem::remove(reserve_.path());
  hook_.RefuseWith([this](const FileOperation& operation) {
    const bool is_first = operation.kind == FileOperation::Kind::kRename && ++rename_count_ <= 2;
    return is_first ? absl::ResourceExhaustedError("No space left on device") : absl::OkStatus();
  });
  ASSERT_TRUE(reserve_.TakeBack().ok());
  EXPECT_EQ(std::filesystem::file_size(reserve_.path()), kReserveBytes / 4);
  EXPECT_EQ(TemporaryCount(), 0u);
  ASSERT_TRUE(Store::OpenForWriting(test_.directory()).ok());
  EXPECT_EQ(std::filesystem::file_size(reserve_.path()), kReserveBytes);
}

TEST_F(ReserveTest, WhereThereIsNoRoomForItNoneIsMadeAndNothingSaid) {
  std::filesystem::remove(reserve_.path());
  // As a quota says.
  hook_.RefuseWith(RefuseWhatNeedsRoomWhile(test_.directory()));
  const auto opened = Store::OpenForWriting(test_.directory());
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE((*opened)->flaws().empty());
  EXPECT_FALSE(reserve_.IsThere());
  EXPECT_EQ(TemporaryCount(), 0u);
  // A collection makes it again itself.
  hook_.RefuseWith({});
  WriteTestFile(test_.store().plan_path(), "");
  EXPECT_TRUE(reserve_.Make().ok());
  EXPECT_FALSE(reserve_.IsThere());
}

}  // namespace
}  // namespace kerf::agent
