#include "client/store/check/store_repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/store/snapshots/copies.h"
#include "client/store/snapshots/pending.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using State = RepairStep::State;

class StoreRepairTest : public ::testing::Test {
 protected:
  StoreRepairTest() {
    first_ = test_.WriteSnapshot({{"a", {"first"}}});
    second_ = test_.WriteSnapshot({{"a", {"second"}}});
  }

  std::string Path(const std::string& name) { return test_.directory() + "/" + name; }
  std::string PathOf(const store::v1::Snapshot& snapshot) {
    return SnapshotPath(test_.store().snapshots_directory(), snapshot.id());
  }
  // First only says what it would do, and changes nothing.
  RepairReport Mend() {
    const std::vector<std::string> before = AllFiles();
    options_.dry_run = true;
    const auto dry = RepairStore(test_.directory(), options_);
    EXPECT_TRUE(dry.ok()) << dry.status();
    EXPECT_EQ(AllFiles(), before);
    options_.dry_run = false;
    const auto report = RepairStore(test_.directory(), options_);
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(dry->steps.size(), report->steps.size());
    EXPECT_EQ(report->Count(State::kWould), 0u);
    EXPECT_EQ(dry->Count(State::kWould), report->Count(State::kDone));
    return *report;
  }
  std::vector<std::string> AllFiles() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test_.directory())) {
      files.push_back(entry.is_regular_file()
                          ? Cat(entry.path().string(), ReadTestFile(entry.path()))
                          : entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  std::vector<std::string> Quarantine() {
    std::vector<std::string> names;
    if (!std::filesystem::exists(Path("quarantine"))) return names;
    for (const auto& entry : std::filesystem::directory_iterator(Path("quarantine"))) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void ExpectSound() {
    EXPECT_THAT(FindFlaws(test_.directory()), IsEmpty());
    EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
    EXPECT_THAT(Mend().steps, IsEmpty()) << "twice is once";
  }

  TestStore test_;
  store::v1::Snapshot first_;
  store::v1::Snapshot second_;
  RepairOptions options_;
};

TEST_F(StoreRepairTest, AStoreThatIsSoundIsLeftAlone) {
  EXPECT_THAT(Mend().steps, IsEmpty());
  EXPECT_THAT(Quarantine(), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(RepairStore(Path("none"), options_).status()));
}

TEST_F(StoreRepairTest, OneCopyMendsTheOther) {
  for (const char* name : {"config", "copies/config", "epoch", "copies/epoch"}) {
    const std::string good = ReadTestFile(Path(name));
    std::string bad = good;
    bad[8] ^= 4;
    WriteTestFile(Path(name), bad);
    EXPECT_EQ(Mend().Count(State::kDone), 1u) << name;
    EXPECT_EQ(ReadTestFile(Path(name)), good);
    ExpectSound();
  }
  EXPECT_THAT(Quarantine(), SizeIs(4));
}

TEST_F(StoreRepairTest, TheCopyThatFitsThePacksIsTaken) {
  store::v1::StoreConfig other = test_.store().config();
  other.set_id(std::string(32, 'e'));
  other.set_digest_algorithm(kerf::v1::DIGEST_ALGORITHM_SHA256);
  ASSERT_TRUE(WriteConfigFile(Path("config"), Path("tmp"), other).ok());
  EXPECT_EQ(Mend().Count(State::kDone), 1u);
  EXPECT_EQ((*Store::Open(test_.directory()))->config().id(), test_.store().config().id());
  ExpectSound();
}

TEST_F(StoreRepairTest, ALostConfigurationIsMadeOfPacksAndSnapshots) {
  const store::v1::StoreConfig config = test_.store().config();
  std::string id = config.id();
  std::filesystem::remove(Path("config"));
  WriteTestFile(Path("copies/config"), "damaged");
  EXPECT_EQ(Mend().Count(State::kNeedsWord), 1u) << "these snapshots do not know the id";
  options_.new_id = true;
  options_.remembered_ids = {id};
  EXPECT_EQ(Mend().Count(State::kDone), 2u);
  const auto store = Store::Open(test_.directory());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->config().id(), id);
  EXPECT_EQ((*store)->config().digest_algorithm(), config.digest_algorithm());
  EXPECT_EQ((*store)->config().metadata_profile(), config.metadata_profile());
  options_ = RepairOptions();
  ExpectSound();
}

TEST_F(StoreRepairTest, ASnapshotKnowsTheIdOfItsStore) {
  first_.set_store_id(test_.store().config().id());
  first_.set_profile("mincdc-8k");
  ASSERT_TRUE(test_.store().WriteSnapshot(first_).ok());
  std::filesystem::remove(Path("config"));
  std::filesystem::remove(Path("copies/config"));
  EXPECT_EQ(Mend().Count(State::kDone), 1u);
  EXPECT_EQ((*Store::Open(test_.directory()))->config().id(), test_.store().config().id());
  ExpectSound();
}

TEST_F(StoreRepairTest, ALostEpochGoesOnPastAllThatIsKnown) {
  first_.set_store_epoch(40);
  ASSERT_TRUE(test_.store().WriteSnapshot(first_).ok());
  std::filesystem::remove(Path("epoch"));
  std::filesystem::remove(Path("copies/epoch"));
  EXPECT_EQ(Mend().Count(State::kDone), 1u);
  EXPECT_GT(*test_.store().ReadEpoch(), 40u);
  ExpectSound();
}

// Two bits, of whatever they are, lose nothing that cannot be made anew: a version is believed only
// where the checksum is.
TEST_F(StoreRepairTest, BothCopiesMayNameAnotherVersion) {
  const std::string id = test_.store().config().id();
  first_.set_store_id(id);
  first_.set_profile("mincdc-8k");
  ASSERT_TRUE(test_.store().WriteSnapshot(first_).ok());
  for (const std::string name : {"config", "epoch"}) {
    for (const std::size_t other_byte : {std::size_t{8}, std::size_t{11}, std::size_t{24}}) {
      for (const auto& [path, byte] :
           {std::pair{name, std::size_t{8}}, std::pair{"copies/" + name, other_byte}}) {
        std::string bytes = ReadTestFile(Path(path));
        bytes[byte] ^= 16;
        WriteTestFile(Path(path), bytes);
      }
      EXPECT_EQ(Mend().Count(State::kDone), 2u) << name << " " << other_byte;
      EXPECT_EQ((*Store::Open(test_.directory()))->config().id(), id);
      ExpectSound();
    }
  }
}

TEST_F(StoreRepairTest, WhatANewerKerfWroteStaysAsItIs) {
  for (const std::string& path : {Path("config"), Path("copies/config"), Path("epoch"),
                                  Path("copies/epoch"), PathOf(first_)}) {
    const std::string good = ReadTestFile(path);
    const std::string newer = OfNewerKerf(good);
    WriteTestFile(path, newer);
    const RepairReport report = Mend();
    EXPECT_EQ(report.Count(State::kDone), 0u) << path;
    ASSERT_THAT(report.steps, SizeIs(1)) << path;
    EXPECT_THAT(report.steps[0].text, HasSubstr("a newer kerf wrote it"));
    EXPECT_EQ(ReadTestFile(path), newer);
    WriteTestFile(path, good);
  }
  ExpectSound();
}

TEST_F(StoreRepairTest, ADamagedPendingSnapshotIsPutAside) {
  store::v1::Snapshot pending;
  ASSERT_TRUE(PublishPending(test_.store(), pending).ok());
  WriteTestFile(SnapshotPath(test_.store().pending_directory(), pending.id()), "damaged");
  EXPECT_EQ(Mend().Count(State::kDone), 1u);
  EXPECT_THAT(Quarantine(), SizeIs(1));
  ExpectSound();
}

TEST_F(StoreRepairTest, SnapshotsAreGivenUpByTheirIdsOnly) {
  WriteTestFile(PathOf(first_), "damaged");
  std::filesystem::remove(PathOf(second_));
  const RepairReport report = Mend();
  EXPECT_EQ(report.Count(State::kNeedsWord), 2u);
  for (const RepairStep& step : report.steps) EXPECT_THAT(step.text, HasSubstr("--accept-loss"));
  EXPECT_TRUE(std::filesystem::exists(PathOf(first_)));
  options_.accepted_losses = {first_.id()};
  EXPECT_EQ(Mend().Count(State::kDone), 1u);
  EXPECT_THAT(Quarantine(), SizeIs(2)) << "the snapshot and its note";
  // One that is no loss any more, and one that never was.
  EXPECT_TRUE(absl::IsInvalidArgument(RepairStore(test_.directory(), options_).status()));
  options_.accepted_losses = {second_.id()};
  EXPECT_EQ(Mend().Count(State::kDone), 1u);
  options_ = RepairOptions();
  ExpectSound();
  EXPECT_THAT(test_.store().ListSnapshots()->missing, IsEmpty());
}

// As kerf 0.1.0 leaves a store in which it has forgotten them.
TEST_F(StoreRepairTest, AllThatAreGoneAreGivenUpAtOnceButNoneThatIsDamaged) {
  const store::v1::Snapshot third = test_.WriteSnapshot({{"a", {"third"}}});
  std::filesystem::remove(PathOf(first_));
  std::filesystem::remove(PathOf(second_));
  WriteTestFile(PathOf(third), "damaged");
  options_.accept_missing = true;
  const RepairReport report = Mend();
  EXPECT_EQ(report.Count(State::kDone), 2u);
  EXPECT_EQ(report.Count(State::kNeedsWord), 1u);
  EXPECT_THAT(test_.store().ListSnapshots()->missing, IsEmpty());
  EXPECT_THAT(test_.store().ListSnapshots()->damaged, SizeIs(1));
}

// That all is well must not be said of a snapshot that nobody could note.
TEST_F(StoreRepairTest, WhatCouldNotBeMadeIsSaid) {
  ASSERT_TRUE(test_.store().manifest().Remove(second_.id()).ok());
  DiskHook hook(test_.directory());
  hook.RefuseWith(
      RefuseEvery(FileOperation::Kind::kCreate, "/tmp/", absl::UnknownError("Input/output error")));
  options_.dry_run = false;
  const auto report = RepairStore(test_.directory(), options_);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->steps, SizeIs(1));
  EXPECT_EQ(report->steps[0].state, State::kFailed);
  EXPECT_THAT(report->steps[0].text, HasSubstr("Input/output error"));
}

TEST_F(StoreRepairTest, ALostManifestIsMadeAnewIfThatIsAccepted) {
  std::filesystem::remove_all(Path("manifest"));
  EXPECT_EQ(Mend().Count(State::kNeedsWord), 1u);
  EXPECT_FALSE(std::filesystem::exists(Path("manifest")));
  options_.accepted_losses = {kManifestLoss};
  EXPECT_EQ(Mend().Count(State::kDone), 1u);
  EXPECT_THAT(*test_.store().manifest().ListIds(), SizeIs(2));
  options_ = RepairOptions();
  ExpectSound();
}

TEST_F(StoreRepairTest, NotesAndFoldersAreMadeAnew) {
  WriteTestFile(test_.store().manifest().NotePath(first_.id()), "damaged");
  std::filesystem::remove_all(Path("pending"));
  std::filesystem::remove_all(Path("locks"));
  EXPECT_EQ(Mend().Count(State::kDone), 3u);
  ExpectSound();
  std::filesystem::remove_all(Path("snapshots"));
  EXPECT_EQ(Mend().Count(State::kNeedsWord), 3u) << "the folder, and each of its snapshots";
}

TEST_F(StoreRepairTest, ACopiedStoreGetsAnIdOfItsOwn) {
  const auto id = GiveNewId(test_.directory());
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_NE(*id, test_.store().config().id());
  EXPECT_EQ((*Store::Open(test_.directory()))->config().id(), *id);
  ExpectSound();
}

}  // namespace
}  // namespace kerf::agent
