// The power goes at seeded moments while agents back up, forget and collect. What is left on the
// disk is what DiskModel allows; the server's index, on another machine, goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/sim/sim_world.h"
#include "client/store/testing/disk_model.h"

namespace kerf::agent {
namespace {

constexpr int kWorldCount = 4;
constexpr int kStepsBefore = 30;
constexpr int kStepsAfter = 2;
constexpr int kCutsPerWorld = 60;
// Of half of the worlds.
constexpr unsigned kParityPercent = 10;

// KERF_POWER_CUT_WORLDS says how many worlds (4) of 60 cuts each.
int WorldCount() {
  const char* text = std::getenv("KERF_POWER_CUT_WORLDS");
  if (text == nullptr) return kWorldCount;
  const long count = std::strtol(text, nullptr, 10);
  KERF_CHECK(count > 0 && count < INT_MAX);
  return static_cast<int>(count);
}

// Keeps every file operation of a world, and what the rest of the world was before it.
class Recorder final : public FileHook {
 public:
  struct Moment {
    SimIndex::State index;
    std::deque<SimWorld::Message> network;
    std::size_t promise_count = 0;
  };
  struct Record {
    FileOperation operation;
    std::string path;
    std::string to;
    std::vector<std::uint8_t> bytes;
    Moment moment;
  };

  absl::Status Before(const FileOperation& operation) override {
    if (!operation.changes_something()) return absl::OkStatus();
    const std::lock_guard lock(mutex_);
    Record& record = records_.emplace_back();
    record.operation = operation;
    record.path = operation.path;
    record.to = operation.to;
    record.bytes.assign(operation.bytes.begin(), operation.bytes.end());
    record.operation.path = record.path;
    record.operation.to = record.to;
    record.operation.bytes = record.bytes;
    record.moment = Now();
    return absl::OkStatus();
  }

  // The world whose operations come; before, there is none.
  void Watch(SimWorld& world) { world_ = &world; }

  Moment Now() const {
    if (world_ == nullptr) return {};
    return {world_->index.state, world_->network, world_->promises.size()};
  }
  const std::deque<Record>& records() const { return records_; }

 private:
  std::mutex mutex_;
  SimWorld* world_ = nullptr;
  std::deque<Record> records_;
};

class PowerCut {
 public:
  PowerCut(const SimWorld& world, const Recorder::Moment& moment) : world_(world), moment_(moment) {
    Promise({world.promises.data(), moment.promise_count});
  }

  // What is wrong with what was left in `folder`.
  absl::Status Check(const std::string& folder, Random& random) {
    if (!promised_.empty()) {
      KERF_RETURN_IF_ERROR(Annotate(Store::Open(folder + "/store").status(), "the store is lost"));
    }
    SimWorld::Past past;
    past.folder = folder;
    past.index = moment_.index;
    past.network = moment_.network;
    past.contents = world_.contents;
    past.files_of = world_.files_of;
    past.agents_go_by_place = world_.agents_go_by_place;
    SimWorld after(random.Next(), std::move(past));
    KERF_RETURN_IF_ERROR(CheckWhole(after));
    if (world_.parity_percent > 0) KERF_RETURN_IF_ERROR(after.CheckSnapshotsHaveParity());
    KERF_RETURN_IF_ERROR(after.BackUp());
    KERF_RETURN_IF_ERROR(after.Run(kStepsAfter));
    Promise(after.promises);
    return CheckWhole(after);
  }

 private:
  void Promise(std::span<const SimWorld::Promise> promises) {
    for (const SimWorld::Promise& promise : promises) {
      std::set<std::string>& ids =
          promise.kind == SimWorld::Promise::Kind::kPin ? pinned_ : promised_;
      if (promise.holds) {
        ids.insert(promise.id);
      } else {
        ids.erase(promise.id);
      }
    }
  }

  absl::Status CheckWhole(SimWorld& after) {
    const Store& store = after.test.store();
    KERF_ASSIGN_OR_RETURN(const SnapshotList checked, store.ListSnapshots());
    KERF_ASSIGN_OR_RETURN(const SnapshotList pending, store.ListPending());
    for (const SnapshotList* list : {&checked, &pending}) {
      if (!list->damaged.empty()) return list->damaged.front().status;
    }
    // Nor does anybody miss one that was forgotten.
    KERF_RETURN_IF_ERROR(CheckNoneIsMissing(checked));
    for (const StoreFlaw& flaw : FindFlaws(store.directory())) return flaw.status;
    std::set<std::string> ids;
    for (const store::v1::Snapshot& snapshot : checked.snapshots) ids.insert(snapshot.id());
    for (const std::string& id : promised_) {
      if (!ids.contains(id)) return absl::DataLossError(Cat("snapshot ", id, " is gone"));
    }
    for (const std::string& id : pinned_) {
      if (!store.pins().Has(id)) return absl::DataLossError(Cat("the pin of ", id, " is gone"));
    }
    ChunkIndex packs(store.packs_directory());
    KERF_RETURN_IF_ERROR(packs.Refresh());
    if (!packs.damaged().empty()) return packs.damaged().front().status;
    KERF_RETURN_IF_ERROR(after.CheckParity());
    KERF_RETURN_IF_ERROR(store.ReadEpoch().status());
    KERF_RETURN_IF_ERROR(ReadCollectionPlan(store.plan_path()).status());
    return after.test.RestoreAll();
  }

  const SimWorld& world_;
  const Recorder::Moment& moment_;
  // Snapshots that must be there, and those that must be pinned.
  std::set<std::string> promised_;
  std::set<std::string> pinned_;
};

struct Totals {
  std::size_t operations = 0;
  std::size_t cuts = 0;
  int confirmed = 0;
  int collections = 0;
  std::uint64_t merged = 0;
};

void CutOneWorld(std::uint64_t seed, bool agents_go_by_place, Totals& totals) {
  SCOPED_TRACE(Cat("KERF_TEST_SEED=", seed, " KERF_POWER_CUT_WORLDS=1 replays this world alone"));
  Random random(seed);
  const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
  Recorder recorder;
  SetFileHookForTest(&recorder);
  SimWorld::Past nothing;
  nothing.folder = folder.path();
  nothing.agents_go_by_place = agents_go_by_place;
  if (random.OneIn(2)) nothing.parity_percent = kParityPercent;
  SimWorld world(random.Next(), std::move(nothing));
  recorder.Watch(world);
  const absl::Status run = world.Run(kStepsBefore);
  SetFileHookForTest(nullptr);
  ASSERT_TRUE(run.ok()) << run;

  const std::deque<Recorder::Record>& records = recorder.records();
  const Recorder::Moment last = recorder.Now();
  std::vector<std::size_t> cuts(kCutsPerWorld);
  for (std::size_t& cut : cuts) cut = random.Below(records.size() + 1);
  std::sort(cuts.begin(), cuts.end());
  DiskModel disk(folder.path());
  std::size_t applied = 0;
  for (const std::size_t cut : cuts) {
    for (; applied < cut; ++applied) disk.Apply(records[applied].operation);
    constexpr DiskModel::Survival kSurvivals[] = {
        DiskModel::Survival::kNothing, DiskModel::Survival::kEverything, DiskModel::Survival::kSome,
        DiskModel::Survival::kSome};
    const DiskModel::Survival survival = kSurvivals[random.Below(std::size(kSurvivals))];
    const TemporaryFolder after(TemporaryFolder::Place::kMemory);
    disk.Materialise(after.path(), survival, random);
    const Recorder::Moment& moment = cut < records.size() ? records[cut].moment : last;
    const absl::Status status = PowerCut(world, moment).Check(after.path(), random);
    ASSERT_TRUE(status.ok()) << "cut before operation " << cut << " of " << records.size()
                             << ", survival " << static_cast<int>(survival) << ": " << status;
  }
  totals.operations += records.size();
  totals.cuts += cuts.size();
  totals.confirmed += world.confirmed_count;
  totals.collections += world.collection_count;
  totals.merged += world.merged_pack_count;
}

void CutWorlds(bool agents_go_by_place) {
  std::uint64_t seed = TestSeed();
  Random seeds(seed);
  Totals totals;
  for (int number = 0; number < WorldCount() && !testing::Test::HasFatalFailure(); ++number) {
    CutOneWorld(seed, agents_go_by_place, totals);
    seed = seeds.Next();
  }
  std::printf(
      "%zu cuts in %zu operations, %d snapshots checked, %d collections, %zu packs merged\n",
      totals.cuts, totals.operations, totals.confirmed, totals.collections,
      static_cast<std::size_t>(totals.merged));
  EXPECT_GT(totals.confirmed, 0);
  EXPECT_GT(totals.collections, 0);
}

TEST(PowerCutTest, WhatWasPromisedIsThereAndTheStoreGoesOn) { CutWorlds(false); }

TEST(PowerCutTest, SoItIsWhereAgentsGoByPlace) { CutWorlds(true); }

}  // namespace
}  // namespace kerf::agent
