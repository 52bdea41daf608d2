#include "client/store/collect/collection_guard.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "client/store/packs/known_pack.h"

namespace kerf::agent {
namespace {

// Takes out of `suspects` what has a place that `plan` does not condemn.
void RemoveSafe(const ChunkIndex& index, const CollectionPlan& plan, DigestSet& suspects) {
  if (suspects.empty()) return;
  for (const auto& pack : index.packs()) {
    const PlannedPack* planned = plan.Find(pack->id);
    const std::vector<PackChunk>& chunks = pack->footer.chunks;
    for (std::uint32_t chunk_index = 0; chunk_index < chunks.size(); ++chunk_index) {
      if (planned != nullptr && plan.Condemns(pack->id, chunk_index)) continue;
      suspects.erase(chunks[chunk_index].digest);
    }
  }
}

}  // namespace

absl::StatusOr<CollectionGuard> CollectionGuard::Begin(const Store& store) {
  CollectionGuard guard;
  KERF_ASSIGN_OR_RETURN(guard.epoch_, store.ReadEpoch());
  KERF_ASSIGN_OR_RETURN(guard.plan_, ReadCollectionPlan(store.plan_path()));
  return guard;
}

DigestSet CollectionGuard::Condemned(const ChunkIndex& index) const {
  DigestSet condemned;
  if (!plan_.has_value()) return condemned;
  for (const auto& pack : index.packs()) {
    if (plan_->Find(pack->id) == nullptr) continue;
    const std::vector<PackChunk>& chunks = pack->footer.chunks;
    for (std::uint32_t chunk_index = 0; chunk_index < chunks.size(); ++chunk_index) {
      if (plan_->Condemns(pack->id, chunk_index)) condemned.insert(chunks[chunk_index].digest);
    }
  }
  RemoveSafe(index, *plan_, condemned);
  return condemned;
}

DigestSet CollectionGuard::Distrusted(const ChunkIndex& index) const {
  DigestSet distrusted;
  if (!plan_.has_value()) return distrusted;
  for (const auto& pack : index.packs()) {
    if (plan_->Find(pack->id) == nullptr) continue;
    for (const PackChunk& chunk : pack->footer.chunks) {
      const std::optional<ChunkPlace> place = index.Locate(chunk.digest);
      if (place.has_value() && plan_->Condemns(*place)) distrusted.insert(chunk.digest);
    }
  }
  return distrusted;
}

bool CollectionGuard::MustLook(const CollectionGuard& now) const {
  const bool has_index_moved_on = index_epoch_ > epoch_;
  return now.epoch_ != epoch_ || plan_present() || now.plan_present() || has_index_moved_on;
}

absl::StatusOr<FinishCheck> CollectionGuard::Check(
    const Store& store, ChunkIndex& index,
    const std::function<absl::Status(const ChunkVisitor&)>& visit) const {
  FinishCheck check;
  KERF_ASSIGN_OR_RETURN(check.next, Begin(store));
  const CollectionGuard& now = check.next;
  if (!MustLook(now)) return check;

  // Only what is there after the plan was read counts.
  KERF_RETURN_IF_ERROR(index.Refresh());
  DigestSet seen;
  DigestSet condemned;
  std::vector<ChunkRef> suspects;
  KERF_RETURN_IF_ERROR(visit([&](const ChunkRef& chunk) {
    if (!seen.insert(chunk.digest).second) return;
    const std::optional<ChunkPlace> place = index.Locate(chunk.digest);
    if (!place.has_value()) {
      check.lost.push_back(chunk);
    } else if (now.plan_present() && now.plan_->Condemns(*place)) {
      condemned.insert(chunk.digest);
      suspects.push_back(chunk);
    }
  }));
  // A list takes its time: a pack that came into a folder which it had passed is not in it, nor the
  // one that went for it.
  if (!check.lost.empty()) {
    KERF_RETURN_IF_ERROR(index.Refresh());
    std::erase_if(check.lost, [&](const ChunkRef& chunk) {
      const std::optional<ChunkPlace> place = index.Locate(chunk.digest);
      if (place.has_value() && now.plan_present() && now.plan_->Condemns(*place)) {
        condemned.insert(chunk.digest);
        suspects.push_back(chunk);
      }
      return place.has_value();
    });
  }
  if (now.plan_present()) RemoveSafe(index, *now.plan_, condemned);
  for (const ChunkRef& chunk : suspects) {
    if (condemned.contains(chunk.digest)) check.lost.push_back(chunk);
  }
  check.lost_count = check.lost.size();
  return check;
}

absl::StatusOr<FinishCheck> CollectionGuard::CheckByFooters(
    const Store& store, const Limits& limits,
    const std::function<absl::Status(const ChunkVisitor&)>& visit,
    const std::function<bool()>& is_ended) const {
  FinishCheck check;
  KERF_ASSIGN_OR_RETURN(check.next, Begin(store));
  const CollectionGuard& now = check.next;
  if (!MustLook(now)) return check;

  absl::flat_hash_map<Digest, std::uint32_t, DigestHash> sought;
  absl::Status status;
  // Only what is there after the plan was read counts: each look lists the packs again.
  const auto look = [&] {
    if (!status.ok() || sought.empty()) return;
    const auto look_into = [&](const KnownPack& pack) {
      const std::vector<PackChunk>& chunks = pack.footer.chunks;
      const bool is_planned = now.plan_present() && now.plan_->Find(pack.id) != nullptr;
      for (std::uint32_t index = 0; index < chunks.size() && !sought.empty(); ++index) {
        if (is_planned && now.plan_->Condemns(pack.id, index)) continue;
        sought.erase(chunks[index].digest);
      }
    };
    status = VisitDurablePacks(store.packs_directory(), look_into, is_ended);
    if (!status.ok()) return;
    check.lost_count += sought.size();
    // One at least: whoever finds none confirms.
    const std::size_t max_lost_count = std::max<std::size_t>(limits.max_lost_count, 1);
    for (const auto& [digest, length_bytes] : sought) {
      if (check.lost.size() < max_lost_count) check.lost.push_back({digest, length_bytes});
    }
    sought.clear();
  };
  KERF_RETURN_IF_ERROR(visit([&](const ChunkRef& chunk) {
    if (!status.ok()) return;
    sought.try_emplace(chunk.digest, chunk.length_bytes);
    if (sought.size() >= limits.max_chunk_count) look();
  }));
  look();
  KERF_RETURN_IF_ERROR(status);
  return check;
}

}  // namespace kerf::agent
