// Collections of a store that keeps parity.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/pack_files.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CollectionParityTest : public testing::Test {
 protected:
  CollectionParityTest() { EXPECT_TRUE(WriteParityPercent(test_.directory(), 5).ok()); }

  CollectionReport Collect() {
    CollectionOptions options;
    options.max_waste_ratio = 0;
    options.thread_count = 1;
    auto report = CollectGarbage(test_.store(), server_, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }
  std::string Noise() {
    std::string text(300, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return text;
  }
  // Each pack has parity, and all parity a pack.
  void ExpectInPairs() {
    const auto parity = ListPackFiles(ParityDirectory(test_.directory()), kParitySuffix);
    const auto packs = ListPackFiles(test_.store().packs_directory(), ".pack");
    ASSERT_TRUE(parity.ok() && packs.ok());
    EXPECT_EQ(*parity, *packs);
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_{folder_.path()};
  TestStore test_{folder_.path()};
  Random random_{TestSeed()};
  PlainIndex server_;
};

TEST_F(CollectionParityTest, ParityGoesWithItsPackAndComesWithNewOnes) {
  const store::v1::Snapshot gone = test_.WriteSnapshot({{"gone", {Noise()}}});
  const std::string kept = Noise();
  test_.WriteSnapshot({{"half", {kept}}});
  test_.WritePack({kept, Noise()});
  ASSERT_TRUE(test_.store().RemoveSnapshot(gone.id()).ok());
  const CollectionReport report = Collect();
  EXPECT_GT(report.deleted_pack_count, 0u);
  EXPECT_THAT(report.damage, IsEmpty());
  ExpectInPairs();
  EXPECT_TRUE(test_.RestoreAll().ok());
}

// What kerf 0.1.0 leaves behind, which deletes packs alone.
TEST_F(CollectionParityTest, ParityWithoutAPackGoes) {
  test_.WriteSnapshot({{"kept", {Noise()}}});
  const SealedPack pack = test_.WritePack({Noise()});
  std::filesystem::remove(ChunkIndex(test_.store().packs_directory()).PackPath(pack.id));
  ASSERT_TRUE(std::filesystem::exists(ParityPath(test_.directory(), pack.id)));
  EXPECT_EQ(Collect().removed_temporary_count, 1u);
  ExpectInPairs();
  EXPECT_EQ(*ReadParityPercent(test_.directory()), 5u);
}

TEST_F(CollectionParityTest, WhatIsDamagedIsMovedAsItsParityGivesItBack) {
  const std::string damaged = Noise();
  const SealedPack pack = test_.WritePack({damaged, Noise()});
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"file", {damaged}}}, metadata);
  test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  const std::string path = ChunkIndex(test_.store().packs_directory()).PackPath(pack.id);
  std::string bytes = ReadTestFile(path);
  bytes[pack.footer.blocks[0].offset] ^= 1;
  WriteTestFile(path, bytes);
  const CollectionReport report = Collect();
  EXPECT_THAT(report.damage, Contains(HasSubstr("its parity gave back what is lost")));
  EXPECT_FALSE(std::filesystem::exists(path));
  ExpectInPairs();
  // Of whole packs.
  std::filesystem::remove_all(ParityDirectory(test_.directory()));
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  EXPECT_THAT(Collect().damage, IsEmpty());
}

TEST_F(CollectionParityTest, NewPacksWithoutParityAreCounted) {
  const std::string kept = Noise();
  const SealedPack pack = test_.WritePack({kept, Noise()});
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"file", {kept}}}, metadata);
  test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kWrite, ".parity",
                               absl::ResourceExhaustedError("No space left on device")));
  const CollectionReport report = Collect();
  hook_.RefuseWith({});
  EXPECT_EQ(report.parity_failure_count, 1u);
  EXPECT_EQ(report.left_pack_count, 0u) << "the pack itself was written";
  EXPECT_THAT(report.findings, Contains(HasSubstr("has no parity")));
  EXPECT_TRUE(test_.RestoreAll().ok());
}

// A backup that had read the setting before `kerf parity --off` makes some behind it.
TEST_F(CollectionParityTest, OfAStoreThatKeepsNoneNoneIsLeft) {
  test_.WriteSnapshot({{"kept", {Noise()}}});
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  ASSERT_THAT(*ListPackFiles(ParityDirectory(test_.directory()), kParitySuffix),
              ::testing::Not(IsEmpty()));
  Collect();
  EXPECT_THAT(*ListPackFiles(ParityDirectory(test_.directory()), kParitySuffix), IsEmpty());
  EXPECT_EQ(*ReadParityPercent(test_.directory()), 0u);
  EXPECT_TRUE(test_.RestoreAll().ok());
}

TEST_F(CollectionParityTest, OfAPackThatHasRottedItIsLeftWhereNoneIsKept) {
  test_.WriteSnapshot({{"kept", {Noise()}}});
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  for (const std::string& path : test_.PackFiles()) {
    std::string bytes = ReadTestFile(path);
    bytes[kPackHeaderBytes] = static_cast<char>(bytes[kPackHeaderBytes] ^ 1);
    WriteTestFile(path, bytes);
  }
  Collect();
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  // Nor is a setting that is gone one of none.
  std::filesystem::remove(ParitySettingPath(test_.directory()));
  Collect();
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// Of a store with many packs that takes hours.
TEST_F(CollectionParityTest, WhoInterruptsDoesNotWaitUntilAllStrayParityIsGone) {
  for (int number = 0; number < 4; ++number) test_.WriteSnapshot({{"kept", {Noise()}}});
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  const auto count = [this] {
    return ListPackFiles(ParityDirectory(test_.directory()), kParitySuffix)->size();
  };
  const std::size_t before_count = count();
  ASSERT_GT(before_count, 3u);
  CollectionOptions options;
  int left_count = 3;
  options.on_step = [&](CollectionStep /*step*/) {
    return left_count-- > 0 ? absl::OkStatus() : absl::CancelledError("it was interrupted");
  };
  EXPECT_TRUE(absl::IsCancelled(CollectGarbage(test_.store(), server_, options).status()));
  EXPECT_EQ(count(), before_count - 2);
  Collect();
  EXPECT_EQ(count(), 0u);
}

// The folder is not listed once more for each of its files.
TEST_F(CollectionParityTest, WithoutASettingParityIsListedAFewTimesAlone) {
  for (int number = 0; number < 20; ++number) test_.WriteSnapshot({{"kept", {Noise()}}});
  std::filesystem::remove(ParitySettingPath(test_.directory()));
  std::atomic<int> list_count = 0;
  hook_.RefuseWith([&](const FileOperation& operation) {
    if (operation.kind == FileOperation::Kind::kListDirectory &&
        operation.path.ends_with("/parity")) {
      ++list_count;
    }
    return absl::OkStatus();
  });
  Collect();
  hook_.RefuseWith({});
  EXPECT_GT(list_count, 0);
  EXPECT_LT(list_count, 10);
}

TEST_F(CollectionParityTest, WhatIsRewrittenHasRoomForItsParity) {
  std::string kept(400'000, '\0');
  std::string wasted(400'000, '\0');
  for (std::string* text : {&kept, &wasted}) {
    random_.Fill({reinterpret_cast<std::uint8_t*>(text->data()), text->size()});
  }
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"file", {kept}}}, metadata);
  test_.WritePack(metadata);
  test_.WritePack({kept, wasted});
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  CollectionOptions options;
  options.thread_count = 1;
  // Enough for the chunk and what a collection wants besides, and not for as much of parity.
  options.available_bytes = [] { return (std::uint64_t{1} << 20) + 600'000; };
  for (const unsigned percent : {100, 5}) {
    ASSERT_TRUE(WriteParityPercent(test_.directory(), percent).ok());
    const auto report = CollectGarbage(test_.store(), server_, options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->left_pack_count, percent == 100 ? 1u : 0u) << percent;
    EXPECT_EQ(report->rewritten_pack_count, percent == 100 ? 0u : 1u) << percent;
  }
}

}  // namespace
}  // namespace kerf::agent
