// Pinning beside forgetting: one of the two sees the other (docs/spec/store.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/snapshots/forgotten.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/interleave.h"
#include "client/store/testing/meanwhile.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kId[] = "bbbb000000000002";
constexpr int kRounds = 200;

class PinRace {
 public:
  PinRace() {
    store::v1::Snapshot snapshot;
    snapshot.set_id(kId);
    EXPECT_TRUE(store().WriteSnapshot(snapshot).ok());
  }

  Store& store() { return test_.store(); }
  void Pin() {
    store::v1::SnapshotPin pin;
    pin.set_id(kId);
    pinned_ = store().PinSnapshot(pin);
  }
  void Forget() { forgot_ = store().RemoveSnapshot(kId); }
  void Note() { EXPECT_TRUE(Store::OpenForWriting(test_.directory()).ok()); }

  void ExpectThereIfPinned() {
    const bool is_there = MayExist(SnapshotPath(store().snapshots_directory(), kId));
    EXPECT_TRUE(is_there || !pinned_.ok());
  }
  // Once both are done. Which of them went through is what it returns: pin, forget, or neither.
  char Judge() {
    EXPECT_THAT(pinned_.code(), AnyOf(absl::StatusCode::kOk, absl::StatusCode::kNotFound))
        << pinned_;
    EXPECT_THAT(forgot_.code(), AnyOf(absl::StatusCode::kOk, absl::StatusCode::kFailedPrecondition))
        << forgot_;
    EXPECT_FALSE(pinned_.ok() && forgot_.ok()) << "neither has seen the other";
    const bool is_there = MayExist(SnapshotPath(store().snapshots_directory(), kId));
    EXPECT_EQ(is_there, !forgot_.ok());
    EXPECT_EQ(store().manifest().Has(kId), is_there);
    EXPECT_EQ(store().pins().Has(kId), pinned_.ok());
    EXPECT_THAT(store().ListSnapshots()->missing, IsEmpty());
    return pinned_.ok() ? 'p' : forgot_.ok() ? 'f' : '-';
  }

 private:
  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  TestStore test_{folder_.path()};
  absl::Status pinned_;
  absl::Status forgot_;
};

TEST(PinRaceTest, EachBeforeEachOperationOfTheOther) {
  SkipSyncForTest();
  for (const bool pin_comes_between : {false, true}) {
    bool came = true;
    for (int number = 0; came; ++number) {
      SCOPED_TRACE(Cat("before operation ", number));
      PinRace race;
      {
        Meanwhile meanwhile(number, [&] { pin_comes_between ? race.Pin() : race.Forget(); });
        pin_comes_between ? race.Forget() : race.Pin();
        came = meanwhile.came();
      }
      // Nobody came between its operations.
      if (came) race.Judge();
    }
  }
}

// Who notes it anew while it is being forgotten tells whoever pins that it is not.
TEST(PinRaceTest, OneWhoNotesAndOneWhoPinsBeforeEachOperationOfForgetting) {
  SkipSyncForTest();
  std::set<char> ends;
  bool came = true;
  for (int number = 0; came; ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    PinRace race;
    {
      Meanwhile meanwhile(number, [&] {
        race.Note();
        race.Pin();
      });
      race.Forget();
      came = meanwhile.came();
    }
    if (came) ends.insert(race.Judge());
  }
  EXPECT_TRUE(ends.contains('p') && ends.contains('f'));
}

// Pins before one operation of a forgetting that dies at a later one.
class PinThenDeath final : public FileHook {
 public:
  PinThenDeath(int pin_at, int dies_at, std::function<void()> pin)
      : pin_at_(pin_at), dies_at_(dies_at), pin_(std::move(pin)) {
    SetFileHookForTest(this);
  }
  ~PinThenDeath() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& /*operation*/) override {
    const int number = count_++;
    if (number == pin_at_) {
      SetFileHookForTest(nullptr);
      pin_();
      SetFileHookForTest(this);
    }
    return number < dies_at_ ? absl::OkStatus() : absl::UnknownError("it dies here");
  }
  bool came() const { return count_ > pin_at_; }
  bool died() const { return count_ > dies_at_; }

 private:
  const int pin_at_;
  const int dies_at_;
  const std::function<void()> pin_;
  int count_ = 0;
};

TEST(PinRaceTest, WhatIsPinnedStaysWhereItIsWhenItsForgetterDies) {
  SkipSyncForTest();
  bool came = true;
  for (int pin_at = 0; came; ++pin_at) {
    bool died = true;
    for (int dies_at = pin_at; died; ++dies_at) {
      SCOPED_TRACE(Cat("pinned before operation ", pin_at, ", dead from ", dies_at));
      PinRace race;
      {
        PinThenDeath hook(pin_at, dies_at, [&] { race.Pin(); });
        race.Forget();
        came = hook.came();
        died = hook.died();
      }
      if (came) race.ExpectThereIfPinned();
    }
  }
}

// Who pins has not looked yet whether it is there, and will take his pin back if it is not.
TEST(PinRaceTest, WhoForgetsBringsBackOnlyWhatHeHasMovedHimself) {
  SkipSyncForTest();
  store::v1::SnapshotPin pin;
  pin.set_id(kId);
  for (const bool was_forgotten : {false, true}) {
    bool came = true;
    for (int number = 0; came; ++number) {
      SCOPED_TRACE(Cat("before operation ", number));
      PinRace race;
      if (was_forgotten) race.Forget();
      {
        Meanwhile meanwhile(number, [&] { EXPECT_TRUE(race.store().pins().Add(pin).ok()); });
        race.Forget();
        came = meanwhile.came();
      }
      const bool is_there = MayExist(SnapshotPath(race.store().snapshots_directory(), kId));
      EXPECT_FALSE(was_forgotten && is_there) << "another one had forgotten it";
      EXPECT_EQ(race.store().manifest().Has(kId), is_there);
    }
  }
}

// Who forgets it dies, or waits, before he has seen the pin.
TEST(PinRaceTest, NoCollectionTakesAForgottenOneThatIsPinned) {
  PinRace race;
  race.Forget();
  store::v1::SnapshotPin pin;
  pin.set_id(kId);
  EXPECT_THAT(*ExpiredForgotten(race.store(), 0), SizeIs(1));
  ASSERT_TRUE(race.store().pins().Add(pin).ok());
  EXPECT_THAT(*ExpiredForgotten(race.store(), 0), IsEmpty());
}

TEST(PinRaceTest, InAnyOrderOfTheirOperations) {
  SkipSyncForTest();
  const std::uint64_t seed = TestSeed();
  std::set<char> ends;
  for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(Cat("round ", round));
    PinRace race;
    {
      Interleave interleave(seed + static_cast<std::uint64_t>(round));
      interleave.Run({[&] { race.Pin(); }, [&] { race.Forget(); }, [&] { race.Note(); }});
    }
    ends.insert(race.Judge());
  }
  // Else nothing of interest was tried.
  EXPECT_TRUE(ends.contains('p') && ends.contains('f'));
}

}  // namespace
}  // namespace kerf::agent
