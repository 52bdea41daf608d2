// What an agent of a simulated world does.
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "client/store/sim/sim_world.h"
#include "client/store/snapshots/pending.h"

namespace kerf::agent {
namespace {

// Of the first agent: so little that footers are read again, and packs of its own forgotten.
constexpr PlacedChunks::Memory kLittleMemory{400, 400};
// Of the others: all of it. Whoever kept any of that for a later epoch (COL-21) would count on what
// collections have deleted since.
constexpr PlacedChunks::Memory kMuchMemory{std::uint64_t{1} << 20, std::uint64_t{1} << 20};
// Few, so that a check has several looks.
constexpr CollectionGuard::Limits kCheckLimits{3, 1000};

}  // namespace

bool SimAgent::goes_by_place() const {
  return world_.agents_go_by_place && number_ + 1 < world_.lives.size();
}

void SimAgent::Crash() {
  if (is_checking_) return;
  phase_ = Phase::kIdle;
  ++world_.lives[number_];
}

void SimAgent::Step() {
  if (is_checking_) return;
  switch (phase_) {
    case Phase::kIdle:
      return Begin();
    case Phase::kUpload:
      return UploadOne();
    case Phase::kPublish:
      return Publish();
    case Phase::kCheck:
      return Check();
    case Phase::kConfirm:
      return Confirm();
  }
}

void SimAgent::Begin() {
  guard_ = *CollectionGuard::Begin(world_.test.store());
  index_ =
      std::make_unique<ChunkIndex>(world_.test.store().packs_directory(), SeenPacks::kAreDurable);
  distrusted_.clear();
  LookAtStore(guard_);
  trusting_ = world_.random.OneIn(2) && !goes_by_place();
  files_.clear();
  to_upload_.clear();
  // Unchanged files are taken from a snapshot that is there, without a question to anybody.
  const SnapshotList list = *world_.test.store().ListSnapshots();
  if (!list.snapshots.empty() && world_.random.OneIn(2)) {
    const auto& parent = list.snapshots[world_.random.Below(list.snapshots.size())];
    for (const auto& [path, chunks] : world_.files_of.at(parent.id())) {
      if (!world_.random.OneIn(3)) files_[path] = chunks;
    }
  }
  for (std::uint64_t count = world_.random.Between(1, 4); count > 0; --count) {
    const std::string content = world_.RandomContent();
    files_[Cat("f", world_.random.Below(4))] = {content};
    to_upload_.push_back(content);
  }
  phase_ = Phase::kUpload;
}

// For sessions of the epoch that was seen.
void SimAgent::LookAtStore(const CollectionGuard& seen) {
  session_epoch_ = seen.epoch();
  if (goes_by_place()) {
    placed_ = std::make_unique<PlacedChunks>(world_.test.store().packs_directory(),
                                             number_ == 0 ? kLittleMemory : kMuchMemory);
    KERF_CHECK(placed_->Open().ok());
    seen_ = seen;
    return;
  }
  KERF_CHECK(index_->Refresh().ok());
  for (const Digest& digest : seen.Distrusted(*index_)) distrusted_.insert(digest);
}

// Where it counts on a chunk to stay.
std::optional<ChunkPlace> SimAgent::FindPlace(const ChunkRef& chunk) const {
  if (!goes_by_place()) {
    return distrusted_.contains(chunk.digest) ? std::nullopt : index_->Locate(chunk.digest);
  }
  if (auto own = placed_->FindOwn(chunk.digest); own.has_value()) return own;
  const auto entry = world_.index.state.entries.find(chunk.digest);
  if (entry == world_.index.state.entries.end()) return std::nullopt;
  std::optional<ChunkPlace> place = placed_->At(chunk, entry->second.locator);
  if (!place.has_value()) ++world_.misplaced_count;
  if (place.has_value() && seen_.Condemns(*place)) {
    ++world_.condemned_place_count;
    return std::nullopt;
  }
  return place;
}

void SimAgent::UploadOne() {
  if (to_upload_.empty()) {
    phase_ = Phase::kPublish;
    return;
  }
  const std::string content = to_upload_.back();
  to_upload_.pop_back();
  Keep(content);
}

void SimAgent::Keep(const std::string& content) {
  const Digest digest = RefOf(content).digest;
  const SimVerdict verdict = world_.index.Lookup(session_epoch_, digest);
  if (trusting_ && verdict == SimVerdict::kDuplicate && !distrusted_.contains(digest)) return;
  SimWorld::Message message{number_, world_.lives[number_], session_epoch_, digest, {}, false};
  const std::optional<ChunkPlace> place = FindPlace(RefOf(content));
  if (place.has_value()) {
    if (verdict == SimVerdict::kDuplicate) return;
    message.locator = place->locator();
  } else {
    if (verdict == SimVerdict::kDuplicate && world_.random.OneIn(2)) {
      // What the index holds is stale: it is told so, and then asked again.
      ++world_.reported_count;
      world_.index.Remove(digest, "");
      to_upload_.push_back(content);
      return;
    }
    SealedPack pack = world_.test.WritePack({content});
    message.locator = EncodeLocator(pack.id, 0);
    message.replace = verdict == SimVerdict::kDuplicate;
    if (goes_by_place()) {
      placed_->AddPack(std::move(pack));
    } else {
      index_->AddPack(std::move(pack));
    }
    distrusted_.erase(digest);
  }
  world_.network.push_back(std::move(message));
}

void SimAgent::OnRefused(const Digest& digest) {
  // What the index does not hear costs room, and nothing else.
  if (is_checking_) return;
  ++world_.refused_count;
  LookAtStore(*CollectionGuard::Begin(world_.test.store()));
  Keep(world_.contents.at(digest));
}

void SimAgent::Publish() {
  std::vector<std::string> metadata;
  snapshot_ = world_.test.Describe(files_, metadata);
  for (const std::string& chunk : metadata) world_.contents[RefOf(chunk).digest] = chunk;
  world_.test.WritePack(metadata);
  KERF_CHECK(PublishPending(world_.test.store(), snapshot_).ok());
  phase_ = Phase::kCheck;
}

void SimAgent::Check() {
  // Whoever has no list reads all packs meanwhile, again and again.
  const auto visit = [this](const ChunkVisitor& visit_chunk) -> absl::Status {
    std::vector<std::string> chunks;
    world_.test.Describe(files_, chunks);
    for (const auto& [path, contents] : files_) {
      chunks.insert(chunks.end(), contents.begin(), contents.end());
    }
    for (const std::string& chunk : chunks) {
      visit_chunk(RefOf(chunk));
      world_.InterleaveCheck();
    }
    return absl::OkStatus();
  };
  is_checking_ = true;
  const auto check = goes_by_place()
                         ? guard_.CheckByFooters(world_.test.store(), kCheckLimits, visit)
                         : guard_.Check(world_.test.store(), *index_, visit);
  is_checking_ = false;
  KERF_CHECK(check.ok());
  if (check->lost.empty()) {
    phase_ = Phase::kConfirm;
    return;
  }
  ++world_.repaired_count;
  KERF_CHECK(WithdrawPending(world_.test.store(), snapshot_.id()).ok());
  guard_ = check->next;
  session_epoch_ = guard_.epoch();
  if (goes_by_place()) LookAtStore(guard_);
  for (const ChunkRef& lost : check->lost) {
    if (!goes_by_place()) distrusted_.insert(lost.digest);
    to_upload_.push_back(world_.contents.at(lost.digest));
  }
  phase_ = Phase::kUpload;
}

void SimAgent::Confirm() {
  world_.files_of[snapshot_.id()] = files_;
  KERF_CHECK(ConfirmPending(world_.test.store(), snapshot_).ok());
  world_.promises.push_back({SimWorld::Promise::Kind::kSnapshot, snapshot_.id(), true});
  ++world_.confirmed_count;
  phase_ = Phase::kIdle;
}

}  // namespace kerf::agent
