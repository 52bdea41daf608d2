// What is durable when they return who publish, forget, note and bring back, and what a power cut
// in their middle may take (docs/spec/store.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "base/random.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/snapshots/copies.h"
#include "client/store/snapshots/forgotten.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::IsEmpty;

constexpr char kId[] = "bbbb000000000002";
constexpr char kLater[] = "cccc000000000003";
constexpr int kCutsPerOperation = 16;

store::v1::Snapshot Made(const std::string& id) {
  store::v1::Snapshot snapshot;
  snapshot.set_id(id);
  snapshot.set_started_unix_ns(2);
  return snapshot;
}
void Publish(const Store& store, const std::string& id) {
  store::v1::Snapshot snapshot = Made(id);
  EXPECT_TRUE(PublishPending(store, snapshot).ok());
  EXPECT_TRUE(ConfirmPending(store, snapshot).ok());
}

class ManifestPowerTest : public testing::Test {
 protected:
  ManifestPowerTest() { SkipSyncForTest(); }

  Store& store() { return test_.store(); }
  std::string Snapshots() { return store().snapshots_directory(); }

  // What is there if the power goes now, nothing that was not synced survives, and the store is
  // read.
  void AfterCut(const std::function<void(const Store&)>& look) {
    const TemporaryFolder after(TemporaryFolder::Place::kMemory);
    disk_.CutPower(after.path());
    const auto opened = Store::Open(after.path() + "/store");
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_THAT((*opened)->flaws(), IsEmpty());
    EXPECT_THAT((*opened)->ListSnapshots()->missing, IsEmpty());
    look(**opened);
  }
  // The file is renamed there, and the directory not synced, as its agent leaves it that dies then.
  void PublishHalf(const std::string& id) {
    store::v1::Snapshot snapshot = Made(id);
    ASSERT_TRUE(PublishPending(store(), snapshot).ok());
    disk_.RefuseWith(RefuseEvery(FileOperation::Kind::kSyncDirectory, "/snapshots",
                                 absl::UnknownError("it dies here")));
    EXPECT_FALSE(ConfirmPending(store(), snapshot).ok());
    disk_.RefuseWith({});
    EXPECT_TRUE(MayExist(SnapshotPath(Snapshots(), id)));
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook disk_{folder_.path()};
  TestStore test_{folder_.path()};
};

bool IsThere(const Store& store, const std::string& id) {
  return MayExist(SnapshotPath(store.snapshots_directory(), id));
}
bool IsPending(const Store& store, const std::string& id) {
  return MayExist(SnapshotPath(store.pending_directory(), id));
}
bool IsForgotten(const Store& store, const std::string& id) {
  return MayExist(SnapshotPath(store.forgotten_directory(), id));
}

// Who makes it dies before it has synced its names.
TEST_F(ManifestPowerTest, AStoreThatIsOpenedForWritingIsDurable) {
  const std::string directory = folder_.path() + "/second";
  const auto open = [&] {
    return Store::OpenOrCreate(directory, "fastcdc2020-8k", DigestAlgorithm::kBlake3).status();
  };
  disk_.RefuseWith([&](const FileOperation& operation) {
    const bool hit = operation.kind == FileOperation::Kind::kSyncDirectory &&
                     operation.path == directory && std::filesystem::exists(directory + "/config");
    return hit ? absl::UnknownError("it dies here") : absl::OkStatus();
  });
  EXPECT_FALSE(open().ok());
  disk_.RefuseWith({});
  ASSERT_TRUE(open().ok());
  const TemporaryFolder after(TemporaryFolder::Place::kMemory);
  disk_.CutPower(after.path());
  const auto opened = Store::Open(after.path() + "/second");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT((*opened)->flaws(), IsEmpty());
}

TEST_F(ManifestPowerTest, WhatWasPublishedIsThereAndNoted) {
  std::uint64_t generation = *store().manifest().ReadGeneration();
  Publish(store(), kId);
  AfterCut([&](const Store& after) {
    EXPECT_TRUE(IsThere(after, kId));
    EXPECT_TRUE(after.manifest().Has(kId));
    EXPECT_FALSE(IsPending(after, kId)) << "a collection would keep it when it has been forgotten";
    EXPECT_GT(*after.manifest().ReadGeneration(), generation);
  });
}

TEST_F(ManifestPowerTest, WhatWasWithdrawnStaysAway) {
  store::v1::Snapshot snapshot = Made(kId);
  ASSERT_TRUE(PublishPending(store(), snapshot).ok());
  AfterCut([](const Store& after) { EXPECT_TRUE(IsPending(after, kId)); });
  ASSERT_TRUE(WithdrawPending(store(), kId).ok());
  AfterCut([](const Store& after) { EXPECT_FALSE(IsPending(after, kId)); });
}

TEST_F(ManifestPowerTest, WhatWasForgottenOrPurgedStaysSo) {
  Publish(store(), kId);
  std::uint64_t generation = *store().manifest().ReadGeneration();
  ASSERT_TRUE(store().RemoveSnapshot(kId).ok());
  AfterCut([&](const Store& after) {
    EXPECT_FALSE(IsThere(after, kId));
    EXPECT_TRUE(IsForgotten(after, kId));
    EXPECT_FALSE(after.manifest().Has(kId));
    EXPECT_GT(*after.manifest().ReadGeneration(), generation);
  });
  ASSERT_TRUE(PurgeForgotten(store(), kId).ok());
  AfterCut([](const Store& after) {
    EXPECT_FALSE(IsForgotten(after, kId)) << "its chunks may be gone";
    EXPECT_FALSE(after.manifest().Has(kId));
  });
}

// The note goes first: whoever dies in between leaves one that can be brought back, and not one
// that is missed for ever.
TEST_F(ManifestPowerTest, WhoDiesWhilePurgingLeavesNothingThatIsMissed) {
  bool died = true;
  for (int number = 0; died; ++number) {
    SCOPED_TRACE(Cat("dead from operation ", number));
    Publish(store(), kId);
    ASSERT_TRUE(store().RemoveSnapshot(kId).ok());
    // Of somebody who noted it anew meanwhile.
    ASSERT_TRUE(store().manifest().Add(NoteOf(Made(kId))).ok());
    int left = number;
    disk_.RefuseWith([&left](const FileOperation& operation) {
      if (!operation.changes_something()) return absl::OkStatus();
      return left-- > 0 ? absl::OkStatus() : absl::UnknownError("it dies here");
    });
    died = !PurgeForgotten(store(), kId).ok();
    disk_.RefuseWith({});
    EXPECT_THAT(store().ListSnapshots()->missing, IsEmpty());
  }
}

// One of kerf 0.1.0 has no folder for notes.
TEST_F(ManifestPowerTest, WhatAnOldStoreLacksIsDurableWhenItIsThere) {
  const std::string directory = folder_.path() + "/old";
  const auto make = [](const std::string& folder) {
    EXPECT_TRUE(MakeDirectory(folder).ok());
    EXPECT_TRUE(SyncDirectory(DirectoryOf(folder)).ok());
  };
  make(directory);
  for (const char* name : {"packs", "snapshots", "pending", "tmp", "gc", "locks"}) {
    make(Cat(directory, "/", name));
  }
  const std::string temporary = directory + "/tmp";
  ASSERT_TRUE(WriteEpochFile(EpochPath(directory), temporary, 1).ok());
  ASSERT_TRUE(WriteConfigFile(ConfigPath(directory), temporary, store().config()).ok());
  store::v1::Snapshot snapshot = Made(kId);
  ASSERT_TRUE(store().WriteSnapshotTo(directory + "/snapshots", snapshot).ok());

  ASSERT_TRUE(Store::OpenForWriting(directory).ok());
  const TemporaryFolder after(TemporaryFolder::Place::kMemory);
  disk_.CutPower(after.path());
  const auto opened = Store::Open(after.path() + "/old");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT((*opened)->flaws(), IsEmpty());
  EXPECT_TRUE((*opened)->manifest().Has(kId));
  for (const char* name : {"/copies/config", "/copies/epoch", "/forgotten", "/pins"}) {
    EXPECT_TRUE(MayExist(after.path() + "/old" + name)) << name;
  }
}

// Another one has removed the note, and died before he had synced that.
TEST_F(ManifestPowerTest, ANoteThatWasGoneAlreadyIsGoneDurably) {
  Publish(store(), kId);
  disk_.RefuseWith(RefuseEvery(FileOperation::Kind::kSyncDirectory, "/manifest",
                               absl::UnknownError("it dies here")));
  EXPECT_FALSE(store().manifest().Remove(kId).ok());
  disk_.RefuseWith({});
  AfterCut([](const Store& after) { EXPECT_TRUE(after.manifest().Has(kId)); });
  ASSERT_TRUE(store().manifest().Remove(kId).ok());
  AfterCut([](const Store& after) { EXPECT_FALSE(after.manifest().Has(kId)); });
}

TEST_F(ManifestPowerTest, APinIsThereAndGoneWhenThatIsSaid) {
  Publish(store(), kId);
  store::v1::SnapshotPin pin;
  pin.set_id(kId);
  ASSERT_TRUE(store().PinSnapshot(pin).ok());
  AfterCut([](const Store& after) { EXPECT_TRUE(after.pins().Has(kId)); });
  ASSERT_TRUE(store().pins().Remove(kId).ok());
  AfterCut([](const Store& after) { EXPECT_FALSE(after.pins().Has(kId)); });
}

// As in a store of kerf 0.1.0.
TEST_F(ManifestPowerTest, APinIsDurableWhereItsFolderIsNew) {
  const std::string folder = folder_.path() + "/old";
  for (const std::string& made : {folder, folder + "/tmp"}) {
    ASSERT_TRUE(MakeDirectory(made).ok());
    ASSERT_TRUE(SyncDirectory(DirectoryOf(made)).ok());
  }
  store::v1::SnapshotPin pin;
  pin.set_id(kId);
  ASSERT_TRUE(Pins(folder).Add(pin).ok());
  const TemporaryFolder after(TemporaryFolder::Place::kMemory);
  disk_.CutPower(after.path());
  EXPECT_TRUE(Pins(after.path() + "/old").Has(kId));
}

// Else its note would miss what nobody was promised.
TEST_F(ManifestPowerTest, WhatIsNotedIsDurableBefore) {
  PublishHalf(kId);
  ASSERT_TRUE(Store::OpenForWriting(store().directory()).ok());
  EXPECT_TRUE(store().manifest().Has(kId));
  AfterCut([](const Store& after) { EXPECT_TRUE(IsThere(after, kId)); });
}

// The power goes before each operation of forgetting one where a later one is there, and the name
// of that not durable yet: one of the two stays.
TEST(ManifestPowerCutTest, WhoeverForgetsOneForALaterOneHasThatOne) {
  SkipSyncForTest();
  const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
  DiskHook disk(folder.path());
  TestStore test(folder.path());
  Publish(test.store(), kId);
  store::v1::Snapshot later = Made(kLater);
  ASSERT_TRUE(PublishPending(test.store(), later).ok());
  disk.RefuseWith(RefuseEvery(FileOperation::Kind::kSyncDirectory, "/snapshots",
                              absl::UnknownError("it dies here")));
  EXPECT_FALSE(ConfirmPending(test.store(), later).ok());
  disk.RefuseWith({});

  // At each operation the disk of that moment; the hook's own lock is held meanwhile.
  class Cuts final : public FileHook {
   public:
    explicit Cuts(DiskHook& disk) : disk_(disk) { SetFileHookForTest(this); }
    ~Cuts() override { SetFileHookForTest(&disk_); }
    absl::Status Before(const FileOperation& operation) override {
      if (!operation.changes_something()) return absl::OkStatus();
      SetFileHookForTest(nullptr);
      Random random(7);
      for (int cut = 0; cut < kCutsPerOperation; ++cut) {
        const TemporaryFolder after(TemporaryFolder::Place::kMemory);
        disk_.CutPower(after.path(), DiskModel::Survival::kSome, random);
        const auto opened = Store::Open(after.path() + "/store");
        EXPECT_TRUE(opened.ok());
        const auto list = (*opened)->ListSnapshots();
        EXPECT_FALSE(list->snapshots.empty()) << "before operation " << count_;
        EXPECT_THAT(list->missing, IsEmpty()) << "before operation " << count_;
      }
      ++count_;
      SetFileHookForTest(this);
      return disk_.Before(operation);
    }
    int count() const { return count_; }

   private:
    DiskHook& disk_;
    int count_ = 0;
  };
  Cuts cuts(disk);
  EXPECT_TRUE(test.store().RemoveSnapshot(kId).ok());
  EXPECT_GT(cuts.count(), 6);
}

}  // namespace
}  // namespace kerf::agent
