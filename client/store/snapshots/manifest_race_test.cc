// Notes, while snapshots come, go, and come back (docs/adr/0016-what-a-store-notices.md): another
// agent's whole work before each file operation and each look.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/snapshots/forgotten.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/meanwhile.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::IsEmpty;

constexpr char kId[] = "bbbb000000000002";

store::v1::Snapshot Made() {
  store::v1::Snapshot snapshot;
  snapshot.set_id(kId);
  snapshot.set_started_unix_ns(2);
  return snapshot;
}
bool IsThere(Store& store) { return MayExist(SnapshotPath(store.snapshots_directory(), kId)); }
bool IsForgotten(Store& store) { return MayExist(SnapshotPath(store.forgotten_directory(), kId)); }

// What agents do.
void Publish(Store& store) {
  store::v1::Snapshot snapshot = Made();
  EXPECT_TRUE(PublishPending(store, snapshot).ok());
  EXPECT_TRUE(ConfirmPending(store, snapshot).ok());
}
void Forget(Store& store) { EXPECT_TRUE(store.RemoveSnapshot(kId).ok()); }
void Purge(Store& store) { EXPECT_TRUE(PurgeForgotten(store, kId).ok()); }
void ForgetAndPurge(Store& store) {
  Forget(store);
  Purge(store);
}
// As Undelete does, in a store without chunks.
void BringBack(Store& store) {
  if (!IsForgotten(store)) return;
  Publish(store);
  const absl::Status status = RemoveFile(SnapshotPath(store.forgotten_directory(), kId));
  EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
}
void Note(Store& store) { EXPECT_TRUE(Store::OpenForWriting(store.directory()).ok()); }
void List(Store& store) { EXPECT_THAT(store.ListSnapshots()->missing, IsEmpty()); }

// Each one's work before the file operation of its number, in the order of these.
class Comings final : public FileHook {
 public:
  using Coming = std::pair<int, std::function<void()>>;
  explicit Comings(std::vector<Coming> comings) : comings_(std::move(comings)) {
    SetFileHookForTest(this);
  }
  ~Comings() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& /*operation*/) override {
    SetFileHookForTest(nullptr);
    while (next_ < comings_.size() && comings_[next_].first == number_) comings_[next_++].second();
    SetFileHookForTest(this);
    ++number_;
    return absl::OkStatus();
  }
  // All of them.
  bool came() const { return next_ == comings_.size(); }

 private:
  const std::vector<Coming> comings_;
  std::size_t next_ = 0;
  int number_ = 0;
};

struct Race {
  std::string name;
  // What was there before.
  std::function<void(Store&)> before;
  std::function<void(Store&)> one;
  std::function<void(Store&)> other;
};

void StayAway(Store& /*store*/) {}
// As its agent leaves it that dies before it has noted it.
void LeaveUnnoted(Store& store) {
  Publish(store);
  EXPECT_TRUE(store.manifest().Remove(kId).ok());
}
void LeaveForgotten(Store& store) {
  Publish(store);
  Forget(store);
}
// Who noted it while it was being forgotten died before his second look.
void LeaveForgottenAndNoted(Store& store) {
  LeaveForgotten(store);
  EXPECT_TRUE(store.manifest().Add(NoteOf(Made())).ok());
}

// Wherever the other one comes in between: it is noted if and only if it is there. A note beside a
// forgotten one misses nobody.
void Judge(Store& store, bool may_be_unnoted) {
  EXPECT_THAT(store.ListSnapshots()->missing, IsEmpty());
  if (IsThere(store)) {
    EXPECT_TRUE(may_be_unnoted || store.manifest().Has(kId)) << "nobody would miss it";
  } else {
    EXPECT_FALSE(store.manifest().Has(kId) && !IsForgotten(store)) << "it is missed for ever";
  }
}

void Play(const Race& race) {
  SkipSyncForTest();
  bool came = true;
  for (int number = 0; came && !::testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE(Cat(race.name, " before operation ", number));
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    TestStore test(folder.path());
    race.before(test.store());
    const bool was_unnoted = IsThere(test.store()) && !test.store().manifest().Has(kId);
    {
      Meanwhile meanwhile(number, [&] { race.other(test.store()); });
      race.one(test.store());
      came = meanwhile.came();
    }
    Judge(test.store(), was_unnoted);
  }
}

TEST(ManifestRaceTest, WhoListsMissesNothingThatIsForgottenPurgedOrBroughtBackMeanwhile) {
  Play({"published while listed", StayAway, List, Publish});
  Play({"forgotten while listed", Publish, List, Forget});
  Play({"forgotten and purged while listed", Publish, List, ForgetAndPurge});
  Play({"purged while listed", LeaveForgotten, List, Purge});
  Play({"noted by a dead one, purged while listed", LeaveForgottenAndNoted, List, Purge});
  Play({"noted by a dead one, brought back while listed", LeaveForgottenAndNoted, List, BringBack});
}

// The first publishes, the second has forgotten it half way, with a note that a third one has made
// anew: what was not there when the snapshots were listed is elsewhere by now.
TEST(ManifestRaceTest, WhoListsMissesNothingThatCameAndWentMeanwhile) {
  SkipSyncForTest();
  const auto move = [](Store& store) {
    if (!IsThere(store)) return;
    EXPECT_TRUE(PublishFile(SnapshotPath(store.snapshots_directory(), kId),
                            SnapshotPath(store.forgotten_directory(), kId))
                    .ok());
  };
  for (const auto& second : std::vector<std::function<void(Store&)>>{move, ForgetAndPurge}) {
    bool came = true;
    for (int first = 0; came; ++first) {
      came = false;
      bool second_came = true;
      for (int number = first; second_came; ++number) {
        SCOPED_TRACE(Cat("before operations ", first, " and ", number));
        const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
        TestStore test(folder.path());
        Comings comings(
            {{first, [&] { Publish(test.store()); }}, {number, [&] { second(test.store()); }}});
        List(test.store());
        second_came = comings.came();
        came = came || second_came;
      }
    }
  }
}

// Whoever collects lists it, in one of the three places.
TEST(ManifestRaceTest, WhoListsRootsSeesWhatIsConfirmedOrForgottenMeanwhile) {
  const auto list = [](Store& store) {
    const absl::StatusOr<Roots> roots = ListRoots(store);
    ASSERT_TRUE(roots.ok()) << roots.status();
    EXPECT_GE(roots->pending.snapshots.size() + roots->checked.snapshots.size() +
                  roots->forgotten.snapshots.size(),
              1u);
  };
  const auto leave_pending = [](Store& store) {
    store::v1::Snapshot snapshot = Made();
    EXPECT_TRUE(PublishPending(store, snapshot).ok());
  };
  const auto confirm = [](Store& store) { EXPECT_TRUE(ConfirmPending(store, Made()).ok()); };
  Play({"confirmed while listed", leave_pending, list, confirm});
  Play({"forgotten while listed", Publish, list, Forget});
}

TEST(ManifestRaceTest, ANoteIsThereIfAndOnlyIfTheSnapshotIs) {
  Play({"forgotten while published", StayAway, Publish, Forget});
  Play({"forgotten and purged while published", StayAway, Publish, ForgetAndPurge});
  Play({"forgotten while noted", LeaveUnnoted, Note, Forget});
  Play({"forgotten and purged while noted", LeaveUnnoted, Note, ForgetAndPurge});
  Play({"noted while forgotten", Publish, Forget, Note});
  Play({"noted while forgotten and purged", Publish, ForgetAndPurge, Note});
  Play({"forgotten twice", Publish, Forget, Forget});
  Play({"brought back while forgotten", Publish, Forget, BringBack});
  Play({"brought back while purged", LeaveForgotten, Purge, BringBack});
  Play(
      {"noted by a dead one, brought back while purged", LeaveForgottenAndNoted, Purge, BringBack});
  Play({"purged while brought back", LeaveForgotten, BringBack, Purge});
  Play({"forgotten while brought back", LeaveForgotten, BringBack, Forget});
  Play({"forgotten and brought back while noted", LeaveUnnoted, Note, [](Store& store) {
          Forget(store);
          BringBack(store);
        }});
}

// Whoever forgets it has noted nothing of the pin, moves it, sees the pin, and finds it moved back
// already.
TEST(ManifestRaceTest, WhatIsPinnedAndBroughtBackWhileForgottenIsToldToBePinned) {
  SkipSyncForTest();
  const auto pin = [](Store& store) {
    Note(store);
    store::v1::SnapshotPin one;
    one.set_id(kId);
    store.PinSnapshot(one).IgnoreError();
  };
  int pinned_count = 0;
  bool came = true;
  for (int first = 0; came; ++first) {
    came = false;
    bool second_came = true;
    for (int number = first; second_came; ++number) {
      SCOPED_TRACE(Cat("before operations ", first, " and ", number));
      const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
      TestStore test(folder.path());
      Publish(test.store());
      absl::Status status;
      {
        Comings comings(
            {{first, [&] { pin(test.store()); }}, {number, [&] { BringBack(test.store()); }}});
        status = test.store().RemoveSnapshot(kId);
        second_came = comings.came();
        came = came || second_came;
      }
      Judge(test.store(), false);
      if (!test.store().pins().Has(kId)) continue;
      ++pinned_count;
      EXPECT_TRUE(IsThere(test.store()));
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    }
  }
  EXPECT_GT(pinned_count, 0) << "else it never was";
}

}  // namespace
}  // namespace kerf::agent
