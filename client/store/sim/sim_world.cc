#include "client/store/sim/sim_world.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/check/index_check.h"
#include "client/store/collect/index_rebuild.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/snapshots/collector_lock.h"
#include "client/store/snapshots/pending.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kAgentCount = 3;
// Few, so that agents and collections meet over the same chunks.
constexpr std::uint64_t kContentCount = 16;
constexpr std::size_t kMaxSnapshots = 3;
constexpr int kSwiftSteps = 8;
constexpr int kMaxBackUpSteps = 1000;
constexpr std::uint64_t kCallsPerLostAnswer = 20;
// Small: more happens between two calls.
constexpr std::size_t kScannedEntries = 32;
// What a collection leaves free (targets.cc), and what it may have beside that.
constexpr std::uint64_t kFreeBytesBesides = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxFreeBytes = 4000;
constexpr std::uint64_t kMaxWritesOnFullDisk = 12;
// Of a comparison: a collection takes long.
constexpr std::uint64_t kCallsPerCollection = 24;
// Of a check: it has some ten chunks.
constexpr std::uint64_t kChunksPerCollection = 40;
constexpr std::int64_t kLongForgottenAge_s = 3600;

// The world's index, read while the world goes on.
class ComparedIndex final : public ReadableIndex {
 public:
  explicit ComparedIndex(SimWorld& world) : world_(world) {}

  absl::StatusOr<std::uint64_t> ReadEpoch() override { return world_.index.state.epoch; }

  absl::StatusOr<std::vector<IndexAnswer>> Lookup(std::uint64_t epoch,
                                                  std::span<const Digest> digests) override {
    KERF_RETURN_IF_ERROR(world_.InterleaveAll());
    std::vector<IndexAnswer> answers;
    for (const Digest& digest : digests) {
      IndexAnswer& answer = answers.emplace_back();
      switch (world_.index.Lookup(epoch, digest)) {
        case SimVerdict::kNew:
          continue;
        case SimVerdict::kDuplicate:
          answer.verdict = IndexVerdict::kDuplicate;
          break;
        case SimVerdict::kUnverified:
          answer.verdict = IndexVerdict::kUnverified;
          break;
      }
      const SimIndex::Entry& entry = world_.index.state.entries.at(digest);
      answer.locator = entry.locator;
      answer.length_bytes = static_cast<std::uint32_t>(world_.contents.at(digest).size()) +
                            (entry.has_wrong_length ? 1 : 0);
    }
    KERF_RETURN_IF_ERROR(world_.InterleaveAll());
    return answers;
  }

  absl::StatusOr<std::vector<StoredChunk>> ScanPage(const std::optional<Digest>& after) override {
    KERF_RETURN_IF_ERROR(world_.InterleaveAll());
    KERF_ASSIGN_OR_RETURN(std::vector<StoredChunk> page, world_.index.ScanPage(after));
    KERF_RETURN_IF_ERROR(world_.InterleaveAll());
    return page;
  }

 private:
  SimWorld& world_;
};

// A disk that is full after some more writes into new packs, until the object goes.
class FullDisk final : public FileHook {
 public:
  FullDisk(std::uint64_t write_count, int& refused_count, int& refused_parity_count)
      : left_count_(write_count),
        refused_count_(refused_count),
        refused_parity_count_(refused_parity_count) {
    SetFileHookForTest(this);
  }
  ~FullDisk() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    if (operation.kind != FileOperation::Kind::kWrite) return absl::OkStatus();
    const bool is_parity = operation.path.ends_with(kParitySuffix);
    if (!is_parity && !operation.path.ends_with(".pack")) return absl::OkStatus();
    const std::lock_guard lock(mutex_);
    if (left_count_ > 0) {
      --left_count_;
      return absl::OkStatus();
    }
    ++(is_parity ? refused_parity_count_ : refused_count_);
    return absl::ResourceExhaustedError("No space left on device");
  }

 private:
  std::mutex mutex_;
  std::uint64_t left_count_;
  int& refused_count_;
  int& refused_parity_count_;
};

}  // namespace

absl::StatusOr<std::uint64_t> SimIndex::ReadEpoch() { return state.epoch; }

absl::Status SimIndex::Answer() {
  lost_answer = may_lose_answers && world_.random.OneIn(kCallsPerLostAnswer);
  return lost_answer ? absl::UnavailableError("the answer is lost") : absl::OkStatus();
}

absl::StatusOr<std::uint64_t> SimIndex::AdvanceEpoch(std::uint64_t epoch,
                                                     std::uint64_t min_before) {
  world_.Interleave();
  if (epoch < state.epoch) return absl::FailedPreconditionError("the epoch lies behind");
  const std::uint64_t before = state.epoch;
  if (before >= min_before && epoch > before) {
    state.epoch = epoch;
    state.removed_count = 0;
    // That is when it may come to be believed.
    world_.NoteIndex();
  }
  KERF_RETURN_IF_ERROR(Answer());
  return before;
}

absl::StatusOr<ForgottenChunks> SimIndex::Forget(std::span<const StoredChunk> chunks) {
  ForgottenChunks forgotten{0, state.epoch, 0};
  // What a replica has that is behind by this call.
  if (world_.random.OneIn(2)) world_.KeepBackup();
  for (const StoredChunk& chunk : chunks) {
    world_.Interleave();
    const std::uint64_t count = Remove(chunk.digest, chunk.locator) ? 1 : 0;
    forgotten.Add({count, state.epoch, state.removed_count});
  }
  KERF_RETURN_IF_ERROR(Answer());
  return forgotten;
}

absl::StatusOr<ForgottenChunks> SimIndex::ForgetOlder(std::uint64_t epoch) {
  ForgottenChunks forgotten{0, state.epoch, state.removed_count};
  std::optional<Digest> after;
  if (world_.random.OneIn(2)) world_.KeepBackup();
  while (true) {
    if (world_.random.OneIn(4)) world_.Interleave();
    const auto next = after.has_value() ? state.entries.upper_bound(*after) : state.entries.begin();
    std::uint64_t count = 0;
    if (next != state.entries.end()) {
      after = next->first;
      if (next->second.epoch < epoch) count = Remove(*after, "") ? 1 : 0;
    }
    forgotten.Add({count, state.epoch, state.removed_count});
    if (next == state.entries.end()) break;
  }
  KERF_RETURN_IF_ERROR(Answer());
  return forgotten;
}

bool SimIndex::Remove(const Digest& digest, const std::string& locator) {
  const auto found = state.entries.find(digest);
  if (found == state.entries.end()) return false;
  if (!locator.empty() && found->second.locator != locator) return false;
  state.entries.erase(found);
  ++state.removed_count;
  return true;
}

absl::Status SimIndex::Commit(std::uint64_t epoch, std::span<const StoredChunk> chunks) {
  for (const StoredChunk& chunk : chunks) {
    world_.Interleave();
    if (!CommitOne(epoch, chunk.digest, chunk.locator, true)) {
      return absl::FailedPreconditionError("the epoch lies behind");
    }
  }
  return Answer();
}

absl::StatusOr<std::vector<StoredChunk>> SimIndex::ScanPage(const std::optional<Digest>& after) {
  world_.Interleave();
  std::vector<StoredChunk> page;
  for (auto at = after.has_value() ? state.entries.upper_bound(*after) : state.entries.begin();
       at != state.entries.end() && page.size() < kScannedEntries; ++at) {
    page.push_back({at->first, 0, at->second.locator});
  }
  return page;
}

SimVerdict SimIndex::Lookup(std::uint64_t session_epoch, const Digest& digest) const {
  const auto found = state.entries.find(digest);
  if (found == state.entries.end()) return SimVerdict::kNew;
  return std::max(found->second.epoch, state.epoch) >= session_epoch ? SimVerdict::kDuplicate
                                                                     : SimVerdict::kUnverified;
}

bool SimIndex::CommitOne(std::uint64_t session_epoch, const Digest& digest,
                         const std::string& locator, bool replace) {
  if (session_epoch < state.epoch) return false;
  const auto [entry, inserted] = state.entries.try_emplace(digest, Entry{locator, session_epoch});
  if (!inserted) {
    const bool current = std::max(entry->second.epoch, state.epoch) >= session_epoch;
    if (!current || replace) {
      entry->second.locator = locator;
      entry->second.has_wrong_length = false;
    }
    entry->second.epoch = std::max(entry->second.epoch, session_epoch);
  }
  return true;
}

SimWorld::SimWorld(std::uint64_t seed, Past past)
    : random(seed),
      test(past.folder.empty() ? own_folder.path() : past.folder),
      index(*this),
      network(std::move(past.network)),
      contents(std::move(past.contents)),
      files_of(std::move(past.files_of)),
      lives(kAgentCount),
      parity_percent(past.parity_percent),
      agents_go_by_place(past.agents_go_by_place),
      has_past_(!past.index.entries.empty()) {
  index.state = std::move(past.index);
  // Nobody waits for what is still on its way.
  for (Message& message : network) message.agent = kAgentCount;
  SeedRandomHexForTest(random.Next());
  SkipSyncForTest();
  if (parity_percent > 0) KERF_CHECK(WriteParityPercent(test.directory(), parity_percent).ok());
  packs_ = std::make_unique<ChunkIndex>(test.store().packs_directory(), SeenPacks::kAreDurable);
  for (std::size_t number = 0; number < kAgentCount; ++number) {
    agents_.push_back(std::make_unique<SimAgent>(*this, number));
  }
}

std::string SimWorld::RandomContent() {
  const std::string content = Cat("content ", random.Below(kContentCount));
  contents[RefOf(content).digest] = content;
  return content;
}

void SimWorld::Deliver() {
  if (network.empty()) return;
  const auto at = static_cast<std::ptrdiff_t>(random.Below(network.size()));
  const Message message = std::move(network[static_cast<std::size_t>(at)]);
  network.erase(network.begin() + at);
  if (!index.CommitOne(message.session_epoch, message.digest, message.locator, message.replace) &&
      message.agent < agents_.size() && message.life == lives[message.agent]) {
    agents_[message.agent]->OnRefused(message.digest);
  }
}

void SimWorld::ForgetSnapshot() {
  const SnapshotList list = *test.store().ListSnapshots();
  if (list.snapshots.size() <= kMaxSnapshots) return;
  const std::string id = list.snapshots[random.Below(list.snapshots.size())].id();
  const bool is_pinned = test.store().pins().Has(id);
  if (is_pinned) {
    ++kept_pin_count;
  } else {
    promises.push_back({Promise::Kind::kSnapshot, id, false});
  }
  KERF_CHECK(test.store().RemoveSnapshot(id).ok() != is_pinned);
}

void SimWorld::Step(bool collections) {
  switch (random.Below(collections ? 30 : 25)) {
    case 0:
      return agents_[random.Below(agents_.size())]->Crash();
    case 1:
    case 2:
    case 3:
      return ForgetSnapshot();
    case 11:
      // The index is set back: by a failover, which loses the last writes, or by much.
      if (!backups_.empty() && random.OneIn(3)) {
        ++set_back_count;
        index.state = random.OneIn(2) ? backups_.back() : backups_[random.Below(backups_.size())];
      }
      return;
    case 4:
      return KeepBackup();
    case 5:
    case 6:
    case 7:
    case 8:
      return Deliver();
    case 9:
      return BringBackSnapshot();
    case 10:
      return PinOrUnpin();
    case 25:
    case 26:
    case 27: {
      const absl::Status status = random.OneIn(3) ? Rebuild(true) : Collect(true);
      if (failure_.ok()) failure_ = status;
      return;
    }
    case 28: {
      const absl::Status status = CompareIndex();
      if (failure_.ok()) failure_ = status;
      return;
    }
    case 29: {
      const absl::Status status = Repair();
      if (failure_.ok()) failure_ = status;
      return;
    }
    default:
      return agents_[random.Below(agents_.size())]->Step();
  }
}

void SimWorld::Interleave() {
  if (is_calm_ || !random.OneIn(2)) return;
  // A whole backup may fit between two steps of a collection.
  if (random.OneIn(12)) BackUpSwiftly();
  for (std::uint64_t count = random.Between(1, 8); count > 0; --count) Step(false);
}

absl::Status SimWorld::InterleaveAll() {
  Interleave();
  return !is_calm_ && random.OneIn(kCallsPerCollection) ? Collect(true) : absl::OkStatus();
}

void SimWorld::InterleaveCheck() {
  if (is_calm_ || !random.OneIn(kChunksPerCollection)) return;
  // Unless somebody collects already.
  if (!LockCollector(test.directory()).ok()) return;
  ++collection_in_check_count;
  const absl::Status status = Collect(true);
  if (failure_.ok()) failure_ = status;
}

absl::Status SimWorld::CompareIndex() {
  ++check_count;
  ComparedIndex compared(*this);
  KERF_ASSIGN_OR_RETURN(const IndexCheckReport report,
                        agent::CheckIndex(test.store(), compared, {}));
  for (const IndexFinding& finding : report.findings) {
    // One that was set back may name the old place of a chunk that was moved.
    const bool was_set_back = set_back_count > 0 || has_past_;
    if (finding.kind == IndexFinding::Kind::kElsewhere && was_set_back) continue;
    return absl::DataLossError(Cat("index and store agree, and are said not to: kind ",
                                   static_cast<int>(finding.kind), ", chunk ",
                                   contents.at(finding.entry.digest).substr(0, 20)));
  }
  return absl::OkStatus();
}

absl::Status SimWorld::CheckDamageIsFoundAndMended() {
  is_calm_ = true;
  is_damaged_ = true;
  // Of an epoch that the store has lost, as it is when it was set back to an older copy.
  const std::uint64_t lost_epoch = *test.store().ReadEpoch() + 1000;
  const std::string gone = "gone";
  contents[RefOf(gone).digest] = gone;
  index.state.entries[RefOf(gone).digest] = {EncodeLocator(PackId(), 0), lost_epoch};
  KERF_RETURN_IF_ERROR(packs_->Refresh());
  std::uint64_t wrong_length_count = 0;
  for (const auto& pack : packs_->packs()) {
    const Digest& digest = pack->footer.chunks.front().digest;
    if (index.state.entries[digest].has_wrong_length) continue;
    index.state.entries[digest] = {EncodeLocator(pack->id, 0), lost_epoch, true};
    ++wrong_length_count;
  }
  ComparedIndex compared(*this);
  KERF_ASSIGN_OR_RETURN(const IndexCheckReport damaged,
                        agent::CheckIndex(test.store(), compared, {}));
  if (damaged.gone_count != 1 || damaged.wrong_length_count != wrong_length_count) {
    return absl::InternalError(Cat("1 entry is gone and ", wrong_length_count,
                                   " have a wrong length; found: ", damaged.gone_count, " and ",
                                   damaged.wrong_length_count));
  }
  KERF_RETURN_IF_ERROR(Rebuild(false));
  is_damaged_ = false;
  KERF_ASSIGN_OR_RETURN(const IndexCheckReport mended,
                        agent::CheckIndex(test.store(), compared, {}));
  return mended.damage_count() + mended.flaw_count() == 0
             ? absl::OkStatus()
             : absl::InternalError("a rebuilt index and its store do not agree");
}

void SimWorld::NoteIndex() {
  if (is_damaged_) return;
  if (failure_.ok()) failure_ = CheckIndex();
}

void SimWorld::KeepBackup() {
  if (is_damaged_) return;
  std::uint64_t last_epoch = index.state.epoch;
  for (const auto& [digest, entry] : index.state.entries) {
    last_epoch = std::max(last_epoch, entry.epoch);
  }
  backups_.push_back(index.state);
  last_epochs_.push_back(last_epoch);
}

void SimWorld::BackUpSwiftly() {
  SimAgent& swift = *agents_[random.Below(agents_.size())];
  for (int step = 0; step < kSwiftSteps; ++step) swift.Step();
}

absl::Status SimWorld::Collect(bool may_crash) {
  CollectionOptions options;
  options.max_waste_ratio = random.OneIn(2) ? 0 : 0.5;
  options.thread_count = 1;
  // All packs here are small.
  if (random.OneIn(2)) options.min_merged_packs = 2;
  if (random.OneIn(2)) options.target_pack_bytes = 500;
  if (random.OneIn(4)) options.max_forgotten_age_s = kLongForgottenAge_s;
  std::map<std::string, std::string> forgotten;
  if (options.max_forgotten_age_s == 0 && random.OneIn(4)) forgotten = ReadForgotten();
  bool crashed = false;
  options.on_step = StepsOf(may_crash, crashed);
  std::optional<FullDisk> full_disk;
  int pass_count = 0;
  if (may_fill_disk && !is_calm_) {
    if (random.OneIn(3)) {
      // Not for ever: a collection goes on as long as it makes room.
      options.available_bytes = [this, left_count = random.Between(1, 2)]() mutable {
        if (left_count == 0) return std::optional<std::uint64_t>();
        --left_count;
        return std::optional(kFreeBytesBesides + random.Below(kMaxFreeBytes));
      };
    }
    // Only for the collection itself: nobody else writes between these two steps.
    options.on_step = [&, steps = options.on_step](CollectionStep step) {
      full_disk.reset();
      if (step == CollectionStep::kPlanned) ++pass_count;
      const absl::Status status = steps(step);
      if (step == CollectionStep::kForgotten && random.OneIn(3)) {
        full_disk.emplace(random.Below(kMaxWritesOnFullDisk), refused_write_count,
                          refused_parity_count);
      }
      return status;
    };
  }
  ++collection_count;
  index.may_lose_answers = may_crash;
  index.lost_answer = false;
  const absl::StatusOr<CollectionReport> report = CollectGarbage(test.store(), index, options);
  const absl::Status& status = report.status();
  PutForgottenBack(forgotten);
  if (report.ok()) {
    merged_pack_count += report->merged_pack_count;
    if (pass_count > 1) ++short_collection_count;
    for (const std::string& finding : report->findings) {
      if (finding.find("not of the same time") != std::string::npos) ++distrusted_count;
    }
  }
  return CheckRun(status, crashed, "collection");
}

absl::Status SimWorld::Rebuild(bool may_crash) {
  RebuildOptions options;
  bool crashed = false;
  options.on_step = StepsOf(may_crash, crashed);
  ++rebuild_count;
  index.may_lose_answers = may_crash;
  index.lost_answer = false;
  const absl::Status status = RebuildIndex(test.store(), index, options).status();
  // The index was set back, or agents have reported stale answers whenever it was looked at.
  crashed |= absl::IsUnavailable(status);
  return CheckRun(status, crashed, "rebuild");
}

std::function<absl::Status(CollectionStep)> SimWorld::StepsOf(bool may_crash, bool& crashed) {
  return [this, may_crash, &crashed](CollectionStep step) {
    // Whoever checks its snapshot here sees no plan yet.
    NoteIndex();
    if (step == CollectionStep::kMarked && !is_calm_) BackUpSwiftly();
    Interleave();
    crashed = may_crash && random.OneIn(30);
    return crashed ? absl::CancelledError("crash") : absl::OkStatus();
  };
}

absl::Status SimWorld::CheckRun(const absl::Status& status, bool crashed, std::string_view what) {
  if (crashed || (index.lost_answer && absl::IsUnavailable(status))) {
    ++crashed_collection_count;
  } else if (!status.ok() && !absl::IsAborted(status)) {
    return Annotate(status, what);
  }
  KERF_RETURN_IF_ERROR(test.RestoreAll());
  return status.ok() ? CheckIndex() : absl::OkStatus();
}

absl::Status SimWorld::CheckIndex() {
  KERF_RETURN_IF_ERROR(packs_->Refresh());
  const std::uint64_t epoch = *test.store().ReadEpoch();
  const auto check = [&](const SimIndex::State& state) -> absl::Status {
    for (const auto& [digest, entry] : state.entries) {
      if (std::max(entry.epoch, state.epoch) >= epoch && !packs_->Contains(digest)) {
        return absl::DataLossError(
            Cat("an index of epoch ", state.epoch, " with an entry of epoch ", entry.epoch,
                " calls a chunk a duplicate in epoch ", epoch,
                ", and no pack holds it: ", contents.at(digest).substr(0, 20)));
      }
    }
    return absl::OkStatus();
  };
  for (std::size_t at = 0; at < backups_.size(); ++at) {
    if (last_epochs_[at] >= epoch) KERF_RETURN_IF_ERROR(check(backups_[at]));
  }
  return check(index.state);
}

absl::Status SimWorld::CheckCalmCollection() {
  is_calm_ = true;
  KERF_RETURN_IF_ERROR(Collect(false));
  const std::uint64_t epoch = *test.store().ReadEpoch();
  if (index.state.epoch != epoch) {
    return absl::InternalError(
        Cat("the index is at epoch ", index.state.epoch, " and the store at ", epoch));
  }
  return absl::OkStatus();
}

absl::Status SimWorld::CheckCalmRebuild() {
  is_calm_ = true;
  // As a new server's.
  index.state = SimIndex::State();
  KERF_RETURN_IF_ERROR(Rebuild(false));
  const std::uint64_t epoch = *test.store().ReadEpoch();
  KERF_RETURN_IF_ERROR(packs_->Refresh());
  for (const auto& pack : packs_->packs()) {
    for (const PackChunk& chunk : pack->footer.chunks) {
      if (index.Lookup(epoch, chunk.digest) != SimVerdict::kDuplicate) {
        return absl::InternalError(
            Cat("the rebuilt index does not know ", contents.at(chunk.digest)));
      }
    }
  }
  return index.state.epoch == epoch ? absl::OkStatus()
                                    : absl::InternalError("the rebuilt index is behind its store");
}

absl::Status SimWorld::BackUp() {
  const int confirmed_before = confirmed_count;
  for (int step = 0; step < kMaxBackUpSteps; ++step) {
    agents_.front()->Step();
    if (confirmed_count > confirmed_before) return absl::OkStatus();
  }
  return absl::DeadlineExceededError("a backup does not come to its end");
}

absl::Status SimWorld::Run(int step_count) {
  for (int step = 0; step < step_count && failure_.ok(); ++step) Step(true);
  KERF_RETURN_IF_ERROR(failure_);
  while (!network.empty()) Deliver();
  KERF_RETURN_IF_ERROR(Collect(false));
  KERF_RETURN_IF_ERROR(failure_);
  KERF_RETURN_IF_ERROR(CheckCalmCollection());
  KERF_RETURN_IF_ERROR(CheckCalmRebuild());
  KERF_RETURN_IF_ERROR(CheckParityAtEnd());
  return test.RestoreAll();
}

}  // namespace kerf::agent
