// What a store notices of what it has lost: docs/adr/0016-what-a-store-notices.md.
#include "client/store/snapshots/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/format/framed_file.h"
#include "client/store/snapshots/copies.h"
#include "client/store/snapshots/forgotten.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/meanwhile.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kOld[] = "aaaa000000000001";
constexpr char kNew[] = "bbbb000000000002";

class ManifestTest : public ::testing::Test {
 protected:
  ManifestTest() {
    Add(kOld, 1);
    Add(kNew, 2);
  }

  void Add(const std::string& id, std::int64_t started_unix_ns) {
    store::v1::Snapshot snapshot;
    snapshot.set_id(id);
    snapshot.set_started_unix_ns(started_unix_ns);
    ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  }
  std::string PathOf(const std::string& id) {
    return SnapshotPath(test_.store().snapshots_directory(), id);
  }
  void Damage(const std::string& path) { WriteTestFile(path, "damaged"); }
  absl::Status Latest() { return test_.store().FindSnapshot("latest").status(); }
  std::string LatestMessage() { return std::string(Latest().message()); }
  // As kerf 0.1.0 made it.
  void MakeOld() {
    for (const char* folder : {"/manifest", "/copies", "/forgotten", "/pins"}) {
      std::filesystem::remove_all(test_.directory() + folder);
    }
  }

  TestStore test_;
};

TEST_F(ManifestTest, LatestIsNotAnOlderOneInSilence) {
  Damage(PathOf(kNew));
  EXPECT_TRUE(absl::IsDataLoss(Latest())) << Latest();
  EXPECT_THAT(LatestMessage(), AllOf(HasSubstr(kNew), HasSubstr(kOld)));
  EXPECT_TRUE(test_.store().FindSnapshot("aa").ok());
  EXPECT_TRUE(absl::IsDataLoss(test_.store().FindSnapshot("bb").status()));
  std::filesystem::remove(PathOf(kNew));
  EXPECT_TRUE(absl::IsDataLoss(Latest())) << Latest();
  EXPECT_THAT(LatestMessage(), AllOf(HasSubstr(kNew), HasSubstr(kOld), HasSubstr("is gone")));
  EXPECT_TRUE(absl::IsDataLoss(test_.store().FindSnapshot("bb").status()));
  EXPECT_TRUE(absl::IsDataLoss(test_.store().FindSnapshot(kNew).status()));
}

TEST_F(ManifestTest, AnOlderOneThatIsDamagedOrGoneKeepsNobodyFromTheLatest) {
  Damage(PathOf(kOld));
  EXPECT_TRUE(Latest().ok()) << Latest();
  std::filesystem::remove(PathOf(kOld));
  EXPECT_TRUE(Latest().ok()) << Latest();
  EXPECT_THAT(test_.store().ListSnapshots()->missing, SizeIs(1));
}

TEST_F(ManifestTest, ADamagedOneOfWhichNothingIsNotedMayBeTheLatest) {
  Damage(PathOf(kOld));
  std::filesystem::remove(test_.store().manifest().NotePath(kOld));
  EXPECT_TRUE(absl::IsDataLoss(Latest())) << Latest();
  Damage(test_.store().manifest().NotePath(kOld));
  EXPECT_TRUE(absl::IsDataLoss(Latest())) << Latest();
}

TEST_F(ManifestTest, EmptiedSnapshotsAreMissed) {
  std::filesystem::remove(PathOf(kOld));
  std::filesystem::remove(PathOf(kNew));
  EXPECT_THAT(test_.store().ListSnapshots()->missing, SizeIs(2));
  EXPECT_TRUE(absl::IsDataLoss(Latest())) << Latest();
  std::filesystem::remove(test_.store().snapshots_directory());
  EXPECT_TRUE(absl::IsDataLoss(test_.store().ListSnapshots().status()));
  // Nobody makes the folder anew behind the user's back.
  const auto opened = Store::OpenForWriting(test_.directory());
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT((*opened)->flaws(), IsEmpty()) << "nothing could not be made";
  EXPECT_FALSE(std::filesystem::exists(test_.store().snapshots_directory()));
}

TEST_F(ManifestTest, WhatIsNotPendingAnyMoreIsNotConfirmed) {
  store::v1::Snapshot snapshot;
  ASSERT_TRUE(PublishPending(test_.store(), snapshot).ok());
  ASSERT_TRUE(WithdrawPending(test_.store(), snapshot.id()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(ConfirmPending(test_.store(), snapshot)));
  EXPECT_FALSE(test_.store().manifest().Has(snapshot.id()));
}

TEST_F(ManifestTest, ForgettingIsNoLoss) {
  EXPECT_TRUE(test_.store().RemoveSnapshot(kNew).ok());
  EXPECT_TRUE(test_.store().RemoveSnapshot(kNew).ok()) << "another one was quicker";
  EXPECT_THAT(test_.store().ListSnapshots()->missing, IsEmpty());
  EXPECT_EQ(test_.store().FindSnapshot("latest")->id(), kOld);
  EXPECT_THAT(test_.store().ListForgotten()->snapshots, SizeIs(1));
}

TEST_F(ManifestTest, ManyForgetAtOnce) {
  std::vector<std::string> ids;
  for (int index = 0; index < 16; ++index) {
    ids.push_back(Cat("cccc0000000000", 10 + index));
    Add(ids.back(), 10 + index);
  }
  std::vector<absl::Status> ends(4);
  {
    std::vector<std::jthread> agents;
    agents.reserve(ends.size());
    for (absl::Status& end : ends) {
      agents.emplace_back([&] {
        for (const std::string& id : ids) end.Update(test_.store().RemoveSnapshot(id));
      });
    }
  }
  for (const absl::Status& end : ends) EXPECT_TRUE(end.ok()) << end;
  EXPECT_THAT(test_.store().ListSnapshots()->snapshots, SizeIs(2));
  EXPECT_THAT(test_.store().ListSnapshots()->missing, IsEmpty());
}

TEST_F(ManifestTest, AnOldStoreIsNotedWhenItIsOpenedForWriting) {
  MakeOld();
  EXPECT_THAT(test_.store().ListSnapshots()->missing, IsEmpty());
  EXPECT_TRUE(CheckAllAreSound(*test_.store().ListSnapshots()).ok());
  EXPECT_TRUE(Latest().ok()) << Latest();
  EXPECT_THAT((*Store::Open(test_.directory()))->flaws(), IsEmpty());
  EXPECT_FALSE(test_.store().manifest().IsThere()) << "reading changes nothing";
  const auto opened = Store::OpenForWriting(test_.directory());
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT((*opened)->flaws(), IsEmpty());
  EXPECT_THAT(*(*opened)->manifest().ListIds(), ElementsAre(kOld, kNew));
  EXPECT_EQ((*opened)->manifest().Read(kNew)->started_unix_ns(), 2);
  EXPECT_EQ(ReadTestFile(ConfigCopyPath(test_.directory())),
            ReadTestFile(ConfigPath(test_.directory())));
  EXPECT_EQ(ReadTestFile(EpochCopyPath(test_.directory())),
            ReadTestFile(EpochPath(test_.directory())));
  std::filesystem::remove(PathOf(kNew));
  EXPECT_THAT(test_.store().ListSnapshots()->missing, SizeIs(1));
}

// Of a store of 0.1.0 with a damaged snapshot: that it was there is noted all the same.
TEST_F(ManifestTest, ADamagedSnapshotIsNotedWithoutItsTime) {
  MakeOld();
  Damage(PathOf(kNew));
  ASSERT_TRUE(Store::OpenForWriting(test_.directory()).ok());
  EXPECT_EQ(test_.store().manifest().Read(kNew)->started_unix_ns(), 0);
  EXPECT_TRUE(absl::IsDataLoss(Latest())) << Latest();
}

TEST_F(ManifestTest, AManifestThatIsGoneIsSaid) {
  std::filesystem::remove_all(test_.store().manifest().directory());
  const auto opened = Store::OpenForWriting(test_.directory());
  ASSERT_TRUE(opened.ok());
  ASSERT_THAT((*opened)->flaws(), SizeIs(1));
  EXPECT_EQ((*opened)->flaws()[0].path, test_.store().manifest().directory());
  EXPECT_FALSE((*opened)->manifest().IsThere()) << "that would hide it";
  EXPECT_TRUE(absl::IsDataLoss(CheckRootsAreComplete(**opened, *ListRoots(**opened))));
}

TEST_F(ManifestTest, TheGenerationNeverGoesBack) {
  const Manifest& manifest = test_.store().manifest();
  const std::uint64_t before = *manifest.ReadGeneration();
  EXPECT_GT(before, 0u);
  ASSERT_TRUE(test_.store().RemoveSnapshot(kNew).ok());
  EXPECT_GT(*manifest.ReadGeneration(), before);
  std::uint64_t last = *manifest.ReadGeneration();
  {
    std::vector<std::jthread> agents;
    agents.reserve(4);
    for (int agent = 0; agent < 4; ++agent) {
      agents.emplace_back([&manifest] {
        for (int round = 0; round < 10; ++round) {
          const std::uint64_t seen = *manifest.ReadGeneration();
          EXPECT_TRUE(manifest.RaiseGeneration().ok());
          EXPECT_GT(*manifest.ReadGeneration(), seen);
        }
      });
    }
  }
  EXPECT_GE(*manifest.ReadGeneration(), last + 10);
}

// Whatever comes between which two steps: a snapshot is forgotten or not, and nobody misses it.
TEST(ManifestRaceTest, ForgettingAndNotingAtOnceMissNothing) {
  struct Race {
    std::function<void(Store&)> one;
    std::function<void(Store&)> other;
  };
  const auto forget = [](Store& store) { EXPECT_TRUE(store.RemoveSnapshot(kNew).ok()); };
  const auto note = [](Store& store) {
    EXPECT_TRUE(Store::OpenForWriting(store.directory()).ok());
  };
  const auto list = [](Store& store) { EXPECT_THAT(store.ListSnapshots()->missing, IsEmpty()); };
  const auto publish = [](Store& store) {
    store::v1::Snapshot snapshot;
    EXPECT_TRUE(PublishPending(store, snapshot).ok());
    EXPECT_TRUE(ConfirmPending(store, snapshot).ok());
  };
  SkipSyncForTest();
  for (const Race& race :
       {Race{note, forget}, Race{forget, note}, Race{list, forget}, Race{forget, list},
        Race{list, publish}, Race{publish, list}, Race{publish, note}, Race{forget, forget}}) {
    bool came = true;
    for (int number = 0; came; ++number) {
      const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
      TestStore test(folder.path());
      store::v1::Snapshot snapshot;
      snapshot.set_id(kNew);
      ASSERT_TRUE(test.store().WriteSnapshot(snapshot).ok());
      // As its agent leaves it that dies before it has noted it.
      if (number % 2 == 0) {
        EXPECT_TRUE(test.store().manifest().Remove(kNew).ok());
      }
      {
        Meanwhile meanwhile(number / 2, [&] { race.other(test.store()); });
        race.one(test.store());
        came = meanwhile.came();
      }
      const SnapshotList after = *test.store().ListSnapshots();
      EXPECT_THAT(after.missing, IsEmpty()) << "before operation " << number / 2;
      const std::vector<std::string> noted = *test.store().manifest().ListIds();
      for (const std::string& id : noted) {
        EXPECT_TRUE(std::filesystem::exists(SnapshotPath(test.store().snapshots_directory(), id)))
            << "a note stays before operation " << number / 2;
      }
    }
  }
}

// Before each operation of one that raises it: it is not seen lower, and another one's stays.
TEST_F(ManifestTest, TheGenerationIsAtNoMomentLower) {
  SkipSyncForTest();
  const Manifest& manifest = test_.store().manifest();
  bool came = true;
  for (int number = 0; came; ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    const std::uint64_t before = *manifest.ReadGeneration();
    std::uint64_t seen = 0;
    std::uint64_t raised = 0;
    {
      Meanwhile meanwhile(number, [&] {
        seen = *manifest.ReadGeneration();
        for (int round = 0; round < 3; ++round) EXPECT_TRUE(manifest.RaiseGeneration().ok());
        raised = *manifest.ReadGeneration();
      });
      EXPECT_TRUE(manifest.RaiseGeneration().ok());
      came = meanwhile.came();
    }
    if (came) {
      EXPECT_GE(seen, before);
      EXPECT_GE(raised, seen + 3);
    }
    EXPECT_GE(*manifest.ReadGeneration(), std::max(before + 1, raised));
  }
}

TEST_F(ManifestTest, OldGenerationsGo) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(test_.store().manifest().RaiseGeneration().ok());
  }
  const auto names = ListDirectory(test_.store().manifest().directory());
  EXPECT_EQ(std::count_if(names->begin(), names->end(),
                          [](const std::string& name) { return name.starts_with("generation-"); }),
            1);
}

TEST_F(ManifestTest, TheGenerationRisesWheneverOneIsNotedAndOnlyThen) {
  const Manifest& manifest = test_.store().manifest();
  std::uint64_t before = *manifest.ReadGeneration();
  ASSERT_TRUE(Store::OpenForWriting(test_.directory()).ok());
  EXPECT_EQ(*manifest.ReadGeneration(), before) << "there was nothing to note";
  WriteTestFile(test_.store().snapshots_directory() + "/mine.snap", "of nobody");
  ASSERT_TRUE(Store::OpenForWriting(test_.directory()).ok());
  EXPECT_EQ(*manifest.ReadGeneration(), before) << "that is no snapshot's name";
  EXPECT_FALSE(MayExist(manifest.NotePath("mine")));
  std::filesystem::remove(test_.store().snapshots_directory() + "/mine.snap");
  Add("cccc000000000003", 3);
  EXPECT_GT(*manifest.ReadGeneration(), before);
  before = *manifest.ReadGeneration();
  ASSERT_TRUE(manifest.Remove(kNew).ok());
  ASSERT_TRUE(Store::OpenForWriting(test_.directory()).ok());
  EXPECT_GT(*manifest.ReadGeneration(), before);
}

// Its loss was said when the store was opened: work goes on.
TEST_F(ManifestTest, WithoutAManifestSnapshotsComeAndGo) {
  std::filesystem::remove_all(test_.store().manifest().directory());
  EXPECT_EQ(*test_.store().manifest().ReadGeneration(), 0u);
  Add("cccc000000000003", 3);
  EXPECT_TRUE(test_.store().RemoveSnapshot(kNew).ok());
  EXPECT_TRUE(test_.store().RemoveSnapshot(kNew).ok());
  EXPECT_THAT(test_.store().ListSnapshots()->snapshots, SizeIs(2));
  EXPECT_THAT(test_.store().ListForgotten()->snapshots, SizeIs(1));
  EXPECT_TRUE(PurgeForgotten(test_.store(), kNew).ok());
  EXPECT_THAT(test_.store().ListForgotten()->snapshots, IsEmpty());
  EXPECT_FALSE(test_.store().manifest().IsThere());
}

TEST_F(ManifestTest, WithoutTheFolderForForgottenOnesItIsMade) {
  std::filesystem::remove_all(test_.store().forgotten_directory());
  EXPECT_TRUE(test_.store().RemoveSnapshot(kNew).ok());
  EXPECT_THAT(test_.store().ListForgotten()->snapshots, SizeIs(1));
}

// Wherever it fails or dies who opens a store of 0.1.0 for the first time: as soon as the second
// configuration is there, all snapshots are noted, and the second epoch is there, too.
TEST_F(ManifestTest, TheSecondConfigurationComesLast) {
  class FailsFrom final : public FileHook {
   public:
    explicit FailsFrom(int number) : left_(number) { SetFileHookForTest(this); }
    ~FailsFrom() override { SetFileHookForTest(nullptr); }
    absl::Status Before(const FileOperation& operation) override {
      if (!operation.changes_something()) return absl::OkStatus();
      return left_-- > 0 ? absl::OkStatus() : absl::UnknownError("Input/output error");
    }
    bool failed() const { return left_ < 0; }

   private:
    int left_;
  };
  SkipSyncForTest();
  bool failed = true;
  int without_count = 0;
  for (int number = 0; failed; ++number) {
    MakeOld();
    {
      const FailsFrom disk(number);
      (void)Store::OpenForWriting(test_.directory());
      failed = disk.failed();
    }
    if (!MayExist(ConfigCopyPath(test_.directory()))) {
      ++without_count;
      continue;
    }
    EXPECT_TRUE(MayExist(EpochCopyPath(test_.directory()))) << "from operation " << number;
    EXPECT_THAT(*test_.store().manifest().ListIds(), ElementsAre(kOld, kNew));
  }
  EXPECT_GT(without_count, 10);
}

TEST_F(ManifestTest, WhatIsNoNoteIsNone) {
  const std::string folder = test_.store().manifest().directory();
  WriteTestFile(folder + "/later.note", "of a later kerf");
  WriteTestFile(folder + "/AAAA000000000001.note", "of nobody");
  EXPECT_THAT(*test_.store().manifest().ListIds(), ElementsAre(kOld, kNew));
  std::filesystem::copy_file(test_.store().manifest().NotePath(kOld),
                             test_.store().manifest().NotePath(kNew),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(absl::IsDataLoss(test_.store().manifest().Read(kNew).status()));
}

TEST_F(ManifestTest, WhereNotesCannotBeListedNobodyKnows) {
  class Unlisted final : public FileHook {
   public:
    Unlisted() { SetFileHookForTest(this); }
    ~Unlisted() override { SetFileHookForTest(nullptr); }
    absl::Status Before(const FileOperation& operation) override {
      const bool hit = operation.kind == FileOperation::Kind::kListDirectory &&
                       operation.path.ends_with("/manifest");
      return hit ? absl::UnknownError("Input/output error") : absl::OkStatus();
    }
  };
  const Unlisted disk;
  EXPECT_FALSE(Latest().ok());
  const SnapshotList list = *test_.store().ListSnapshots();
  EXPECT_FALSE(CheckNoneIsMissing(list).ok());
  EXPECT_FALSE(CheckAllAreSound(list).ok());
  EXPECT_FALSE(CheckRootsAreComplete(test_.store(), *ListRoots(test_.store())).ok());
}

// As of a note that was made of a snapshot that could not be read: it may be of any time.
TEST_F(ManifestTest, AMissingOneOfUnknownTimeMayBeTheLatest) {
  store::v1::SnapshotNote note;
  note.set_id(kOld);
  ASSERT_TRUE(test_.store().manifest().Add(note).ok());
  EXPECT_TRUE(Latest().ok());
  std::filesystem::remove(PathOf(kOld));
  EXPECT_TRUE(absl::IsDataLoss(Latest())) << Latest();
  EXPECT_THAT(LatestMessage(), HasSubstr(kNew));
  const SnapshotList list = *test_.store().ListSnapshots();
  EXPECT_TRUE(absl::IsDataLoss(CheckNoneIsMissing(list)));
  EXPECT_TRUE(absl::IsDataLoss(CheckAllAreSound(list)));
  EXPECT_TRUE(absl::IsDataLoss(CheckRootsAreComplete(test_.store(), *ListRoots(test_.store()))));
}

TEST_F(ManifestTest, AMissingOneOfTheSameTimeMayBeTheLatest) {
  Add("cccc000000000003", 2);
  std::filesystem::remove(PathOf(kNew));
  EXPECT_TRUE(absl::IsDataLoss(Latest())) << Latest();
}

TEST_F(ManifestTest, OneOfANewerKerfIsNoLoss) {
  constexpr std::uint32_t kVersionOfANewerKerf = 1000;
  const std::vector<std::uint8_t> file = EncodeFramed(kSnapshotMagic, "", kVersionOfANewerKerf);
  WriteTestFile(PathOf(kNew), {reinterpret_cast<const char*>(file.data()), file.size()});
  EXPECT_TRUE(absl::IsFailedPrecondition(Latest())) << Latest();
  const SnapshotList list = *test_.store().ListSnapshots();
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckAllAreSound(list)));
}

// Another collection has purged it.
TEST_F(ManifestTest, AForgottenOneThatGoesMeanwhileKeepsNoCollectionFromRunning) {
  SkipSyncForTest();
  bool came = true;
  for (int number = 0; came; ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    const std::string id = Cat("dddd0000000", 10000 + number);
    Add(id, 1);
    ASSERT_TRUE(test_.store().RemoveSnapshot(id).ok());
    Meanwhile meanwhile(number, [&] { EXPECT_TRUE(PurgeForgotten(test_.store(), id).ok()); });
    const auto expired = ExpiredForgotten(test_.store(), 3600);
    EXPECT_TRUE(expired.ok()) << expired.status();
    came = meanwhile.came();
  }
}

TEST_F(ManifestTest, NobodyPinsWhatIsMissing) {
  std::filesystem::remove(PathOf(kNew));
  store::v1::SnapshotPin pin;
  pin.set_id(kNew);
  EXPECT_TRUE(absl::IsNotFound(test_.store().PinSnapshot(pin)));
  EXPECT_FALSE(test_.store().pins().Has(kNew));
}

class CopiesTest : public ManifestTest {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> Open() { return Store::Open(test_.directory()); }
};

// What no copy gives today is not lost: nobody should be told to make it anew.
TEST_F(CopiesTest, WhatCannotBeReadTodayIsNotDamaged) {
  class NothingIsRead final : public FileHook {
   public:
    NothingIsRead() { SetFileHookForTest(this); }
    ~NothingIsRead() override { SetFileHookForTest(nullptr); }
    absl::Status Before(const FileOperation& operation) override {
      return operation.kind == FileOperation::Kind::kOpen ? absl::UnknownError("Input/output error")
                                                          : absl::OkStatus();
    }
  };
  const NothingIsRead disk;
  for (const absl::Status& status : {Open().status(), test_.store().ReadEpoch().status()}) {
    EXPECT_TRUE(absl::IsUnknown(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("no copy can be read, run it again"));
  }
}

TEST_F(CopiesTest, EachOfTwoIsEnough) {
  const std::string id = test_.store().config().id();
  for (const auto& [path, copy] :
       {std::pair(ConfigPath(test_.directory()), ConfigCopyPath(test_.directory())),
        std::pair(EpochPath(test_.directory()), EpochCopyPath(test_.directory()))}) {
    for (const std::string& bad : {path, copy}) {
      const std::string good = ReadTestFile(bad);
      for (const bool is_gone : {true, false}) {
        if (is_gone) {
          std::filesystem::remove(bad);
        } else {
          Damage(bad);
        }
        const auto opened = Open();
        ASSERT_TRUE(opened.ok()) << bad << ": " << opened.status();
        EXPECT_EQ((*opened)->config().id(), id);
        EXPECT_EQ(*(*opened)->ReadEpoch(), 1u);
        // Kerf 0.1.0 makes no copies.
        EXPECT_THAT((*opened)->flaws(), SizeIs(is_gone && bad == copy ? 0 : 1)) << bad;
      }
      WriteTestFile(bad, good);
    }
    const std::string good = ReadTestFile(path);
    Damage(path);
    Damage(copy);
    const auto opened = Open();
    const absl::Status status = opened.ok() ? (*opened)->ReadEpoch().status() : opened.status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("kerf repair"));
    WriteTestFile(path, good);
    WriteTestFile(copy, good);
  }
}

// FAT and some file servers have no hard links, others sync no directories.
class PoorFileSystem final : public FileHook {
 public:
  PoorFileSystem() { SetFileHookForTest(this); }
  ~PoorFileSystem() override { SetFileHookForTest(nullptr); }
  absl::Status Before(const FileOperation& operation) override {
    const bool is_poor = operation.kind == FileOperation::Kind::kLink ||
                         operation.kind == FileOperation::Kind::kSyncDirectory;
    return is_poor ? absl::UnimplementedError("not here") : absl::OkStatus();
  }
};

TEST(PoorFileSystemTest, AStoreIsMadeAndUsedThere) {
  const PoorFileSystem poor;
  const TemporaryFolder folder;
  TestStore test(folder.path());
  test.WriteSnapshot({{"a", {"content"}}});
  EXPECT_TRUE(test.RestoreAll().ok());
  const std::string id = test.store().config().id();
  const auto again = Store::OpenOrCreate(test.directory(), "ram-8k", DigestAlgorithm::kSha256);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->config().id(), id) << "what is there stays";
  EXPECT_THAT((*again)->flaws(), IsEmpty());
  WriteTestFile(folder.path() + "/new", "new");
  WriteTestFile(folder.path() + "/old", "old");
  EXPECT_TRUE(PublishUnlessThere(folder.path() + "/new", folder.path() + "/old").ok());
  EXPECT_EQ(ReadTestFile(folder.path() + "/old"), "old");
}

TEST_F(CopiesTest, TheHigherEpochCounts) {
  for (const auto& [epoch, copy] : {std::pair(7, 6), std::pair(6, 7)}) {
    ASSERT_TRUE(WriteEpochFile(EpochPath(test_.directory()), test_.store().temporary_directory(),
                               static_cast<std::uint64_t>(epoch))
                    .ok());
    ASSERT_TRUE(WriteEpochFile(EpochCopyPath(test_.directory()),
                               test_.store().temporary_directory(),
                               static_cast<std::uint64_t>(copy))
                    .ok());
    EXPECT_EQ(*test_.store().ReadEpoch(), 7u);
  }
}

TEST_F(CopiesTest, TheConfigurationOfAnotherStoreIsNotWrittenUnder) {
  const TestStore other;
  std::filesystem::copy_file(ConfigPath(other.directory()), ConfigPath(test_.directory()),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::OpenForWriting(test_.directory()).status()));
  const auto opened = Open();
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT((*opened)->flaws(), SizeIs(1));
}

}  // namespace
}  // namespace kerf::agent
