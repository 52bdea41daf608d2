// What was forgotten and is wanted back: it is a root at every moment, whatever comes in between.
#include "client/store/collect/undelete.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <thread>

#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/snapshots/forgotten.h"
#include "client/store/testing/interleave.h"
#include "client/store/testing/meanwhile.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

constexpr std::time_t kDayS = std::time_t{24} * 3600;

class UndeleteTest : public testing::Test {
 protected:
  // Of a snapshot that was made 30 days ago and forgotten today.
  static std::string Forget(TestStore& test) {
    const std::string id = test.WriteSnapshot({{"a", {"wanted back"}}}).id();
    const std::string path = SnapshotPath(test.store().snapshots_directory(), id);
    const std::array<timespec, 2> times = {{{0, UTIME_OMIT}, {std::time(nullptr) - 30 * kDayS, 0}}};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
    EXPECT_TRUE(test.store().RemoveSnapshot(id).ok());
    return id;
  }

  static absl::Status Collect(TestStore& test, std::int64_t max_forgotten_age_s) {
    PlainIndex index;
    CollectionOptions options;
    options.thread_count = 1;
    options.max_forgotten_age_s = max_forgotten_age_s;
    return CollectGarbage(test.store(), index, options).status();
  }

  static bool IsForgotten(TestStore& test) {
    return test.store().ListForgotten()->snapshots.size() == 1;
  }
  static bool IsBack(TestStore& test) {
    return test.store().ListSnapshots()->snapshots.size() == 1;
  }

  void SetUp() override { SkipSyncForTest(); }
};

TEST_F(UndeleteTest, BringsBackWhatWasForgotten) {
  TestStore test;
  const std::string id = Forget(test);
  EXPECT_EQ(*FindForgotten(test.store(), id.substr(0, 4)), id);
  ASSERT_TRUE(Undelete(test.store(), id).ok());
  EXPECT_TRUE(IsBack(test));
  EXPECT_FALSE(IsForgotten(test));
  EXPECT_TRUE(test.store().ListPending()->snapshots.empty());
  EXPECT_TRUE(test.store().manifest().Has(id));
  EXPECT_TRUE(test.RestoreAll().ok());
}

TEST_F(UndeleteTest, AnInterruptedOneStaysForgotten) {
  TestStore test;
  const std::string id = Forget(test);
  EXPECT_TRUE(absl::IsCancelled(Undelete(test.store(), id, [] { return true; })));
  EXPECT_TRUE(IsForgotten(test));
  EXPECT_TRUE(test.store().ListPending()->snapshots.empty());
}

TEST_F(UndeleteTest, WhatCollectionsHaveTakenSomethingOfStaysForgotten) {
  TestStore test;
  const std::string id = Forget(test);
  for (const std::string& pack : test.PackFiles()) ASSERT_TRUE(RemoveFile(pack).ok());
  EXPECT_TRUE(absl::IsDataLoss(Undelete(test.store(), id)));
  EXPECT_FALSE(IsBack(test));
  EXPECT_TRUE(IsForgotten(test));
  EXPECT_TRUE(test.store().ListPending()->snapshots.empty());
}

// However old the snapshot is: a collection that begins in the middle takes the pending file of a
// backup that died a week ago.
TEST_F(UndeleteTest, CollectionsMeanwhileTakeNothingOfIt) {
  for (const std::int64_t max_forgotten_age_s : {std::int64_t{3600}, std::int64_t{0}}) {
    bool came = true;
    int number = 0;
    for (; came; ++number) {
      const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
      TestStore test(folder.path());
      const std::string id = Forget(test);
      absl::Status status;
      {
        Meanwhile meanwhile(number, [&] { EXPECT_TRUE(Collect(test, max_forgotten_age_s).ok()); });
        status = Undelete(test.store(), id);
        came = meanwhile.came();
      }
      EXPECT_EQ(IsBack(test), status.ok()) << "before operation " << number << ": " << status;
      // One whose time is over may go as long as it is not wanted back.
      if (max_forgotten_age_s > 0) {
        EXPECT_TRUE(status.ok()) << "before operation " << number << ": " << status;
      }
      EXPECT_TRUE(Collect(test, max_forgotten_age_s).ok());
      const absl::Status whole = test.RestoreAll();
      EXPECT_TRUE(whole.ok()) << "before operation " << number << ": " << whole;
    }
    EXPECT_GT(number, 15) << "else they never met";
  }
}

TEST_F(UndeleteTest, WhatIsBroughtBackBesideACollectionIsWholeAndNoted) {
  bool came = true;
  int back_count = 0;
  for (int number = 0; came; ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    TestStore test(folder.path());
    const std::string id = Forget(test);
    absl::Status status = absl::UnknownError("it has not come");
    {
      Meanwhile meanwhile(number, [&] { status = Undelete(test.store(), id); });
      EXPECT_TRUE(Collect(test, 0).ok());
      came = meanwhile.came();
    }
    EXPECT_EQ(IsBack(test), status.ok()) << status;
    EXPECT_EQ(test.store().manifest().Has(id), status.ok());
    EXPECT_TRUE(Collect(test, 0).ok());
    EXPECT_TRUE(test.RestoreAll().ok()) << test.RestoreAll();
    back_count += status.ok() ? 1 : 0;
  }
  EXPECT_GT(back_count, 5) << "else they never met";
}

// It is kept in one of the two places, and once more for whoever wants it back.
TEST_F(UndeleteTest, WhatIsForgottenAnewMeanwhileCanBeBroughtBackOnceMore) {
  bool came = true;
  for (int number = 0; came; ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    TestStore test(folder.path());
    const std::string id = Forget(test);
    {
      Meanwhile meanwhile(number, [&] { EXPECT_TRUE(test.store().RemoveSnapshot(id).ok()); });
      EXPECT_TRUE(Undelete(test.store(), id).ok());
      came = meanwhile.came();
    }
    EXPECT_TRUE(IsBack(test) != IsForgotten(test));
    EXPECT_EQ(test.store().manifest().Has(id), IsBack(test));
    if (IsForgotten(test)) {
      EXPECT_TRUE(Undelete(test.store(), id).ok());
    }
    EXPECT_TRUE(IsBack(test));
    EXPECT_TRUE(test.RestoreAll().ok());
  }
}

// Nor is it removed to be written again, which a full disk, or whoever is killed, would not come
// to.
TEST_F(UndeleteTest, WhatIsForgottenAnewMeanwhileStaysWhereThatHasPutIt) {
  class ForgetsOncePublished final : public FileHook {
   public:
    ForgetsOncePublished(const Store& store, const std::string& id) : store_(store), id_(id) {
      SetFileHookForTest(this);
    }
    ~ForgetsOncePublished() override { SetFileHookForTest(nullptr); }
    absl::Status Before(const FileOperation& operation) override {
      if (is_published_ && !has_forgotten_) {
        has_forgotten_ = true;
        SetFileHookForTest(nullptr);
        EXPECT_TRUE(store_.RemoveSnapshot(id_).ok());
        SetFileHookForTest(this);
      }
      if (operation.kind != FileOperation::Kind::kRename) return absl::OkStatus();
      is_published_ = is_published_ || operation.to.starts_with(store_.snapshots_directory());
      return operation.to.starts_with(store_.forgotten_directory())
                 ? absl::ResourceExhaustedError("the disk is full")
                 : absl::OkStatus();
    }

   private:
    const Store& store_;
    const std::string id_;
    bool is_published_ = false;
    bool has_forgotten_ = false;
  };
  TestStore test;
  const std::string id = Forget(test);
  {
    ForgetsOncePublished hook(test.store(), id);
    const absl::Status status = Undelete(test.store(), id);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_FALSE(IsBack(test));
  ASSERT_TRUE(IsForgotten(test));
  EXPECT_TRUE(Undelete(test.store(), id).ok());
  EXPECT_TRUE(test.RestoreAll().ok());
}

// They share what is pending.
TEST_F(UndeleteTest, TwoAtOnceBringItBackAndBothSaySo) {
  bool came = true;
  int number = 0;
  for (; came; ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    TestStore test(folder.path());
    const std::string id = Forget(test);
    {
      Meanwhile meanwhile(number, [&] {
        const absl::Status other = Undelete(test.store(), id);
        EXPECT_TRUE(other.ok()) << other;
      });
      const absl::Status status = Undelete(test.store(), id);
      EXPECT_TRUE(status.ok()) << status;
      came = meanwhile.came();
    }
    EXPECT_TRUE(IsBack(test));
    EXPECT_FALSE(IsForgotten(test));
    EXPECT_TRUE(test.store().manifest().Has(id));
    EXPECT_TRUE(test.store().ListPending()->snapshots.empty());
    EXPECT_TRUE(test.RestoreAll().ok());
  }
  EXPECT_GT(number, 15) << "else they never met";
}

TEST_F(UndeleteTest, TwoAtOnceInAnyOrderOfTheirOperations) {
  const std::uint64_t seed = TestSeed();
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    SCOPED_TRACE(Cat("round ", round));
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    TestStore test(folder.path());
    const std::string id = Forget(test);
    const auto bring_back = [&] {
      const absl::Status status = Undelete(test.store(), id);
      EXPECT_TRUE(status.ok()) << status;
    };
    {
      Interleave interleave(seed + static_cast<std::uint64_t>(round));
      interleave.Run({bring_back, bring_back});
    }
    EXPECT_TRUE(IsBack(test));
    EXPECT_FALSE(IsForgotten(test));
    EXPECT_TRUE(test.store().manifest().Has(id));
  }
}

TEST_F(UndeleteTest, WhatWasNeverThereIsNotFound) {
  TestStore test;
  EXPECT_TRUE(absl::IsNotFound(Undelete(test.store(), "bbbb000000000002")));
}

TEST_F(UndeleteTest, WhatIsForgottenAnewAndPurgedMeanwhileIsGone) {
  bool came = true;
  for (int number = 0; came; ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    TestStore test(folder.path());
    const std::string id = Forget(test);
    bool was_there = false;
    {
      Meanwhile meanwhile(number, [&] {
        // Behind that nobody can tell who has removed it.
        was_there = IsForgotten(test);
        EXPECT_TRUE(test.store().RemoveSnapshot(id).ok());
        EXPECT_TRUE(PurgeForgotten(test.store(), id).ok());
      });
      const absl::Status status = Undelete(test.store(), id);
      EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
      came = meanwhile.came();
    }
    EXPECT_FALSE(was_there && IsForgotten(test)) << "its chunks may be gone";
    EXPECT_EQ(test.store().manifest().Has(id), IsBack(test));
  }
}

// By the clock of the file system, in whole seconds.
TEST_F(UndeleteTest, WhatWasForgottenLongerAgoThanToldExpires) {
  TestStore test;
  Forget(test);
  EXPECT_TRUE(ExpiredForgotten(test.store(), 3600)->empty());
  constexpr int kMaxPolls = 100;
  int polls = 0;
  while (ExpiredForgotten(test.store(), 1)->empty() && ++polls < kMaxPolls) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LT(polls, kMaxPolls);
}

// Whoever is killed, or meets a disk that fails, leaves the snapshot or what he found.
TEST_F(UndeleteTest, WhatFailsInTheMiddleLosesNothing) {
  class FailsFrom final : public FileHook {
   public:
    explicit FailsFrom(int number) : remaining_(number) { SetFileHookForTest(this); }
    ~FailsFrom() override { SetFileHookForTest(nullptr); }
    absl::Status Before(const FileOperation& /*operation*/) override {
      return remaining_-- > 0 ? absl::OkStatus() : absl::UnknownError("Input/output error");
    }
    bool failed() const { return remaining_ < 0; }

   private:
    int remaining_;
  };
  bool failed = true;
  int number = 0;
  for (; failed; ++number) {
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    TestStore test(folder.path());
    const std::string id = Forget(test);
    absl::Status status;
    {
      FailsFrom disk(number);
      status = Undelete(test.store(), id);
      failed = disk.failed();
    }
    EXPECT_EQ(status.ok(), !failed);
    EXPECT_FALSE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(Collect(test, kDayS).ok());
    EXPECT_TRUE(IsBack(test) || IsForgotten(test)) << "from operation " << number;
    EXPECT_TRUE(test.store().ListSnapshots()->missing.empty());
    if (!IsBack(test)) {
      EXPECT_TRUE(Undelete(test.store(), id).ok()) << "from operation " << number;
    }
    EXPECT_TRUE(test.RestoreAll().ok());
  }
  EXPECT_GT(number, 15) << "else nothing failed";
}

}  // namespace
}  // namespace kerf::agent
