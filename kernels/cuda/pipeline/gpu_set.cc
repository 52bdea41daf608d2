#include "kernels/cuda/pipeline/gpu_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

std::vector<GpuSet::Member> InOrder(std::vector<GpuSet::Member> members) {
  KERF_CHECK(!members.empty() && members.size() <= GpuSet::kMaxGpus);
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return members;
}

}  // namespace

GpuSet::GpuSet(std::vector<Member> members)
    : members_(InOrder(std::move(members))),
      min_piece_bytes_(std::numeric_limits<std::size_t>::max()),
      max_piece_bytes_(std::numeric_limits<std::size_t>::max()) {
  for (const Member& member : members_) {
    min_piece_bytes_ = std::min(min_piece_bytes_, member.gpu->min_piece_bytes());
    max_piece_bytes_ = std::min(max_piece_bytes_, member.gpu->max_piece_bytes());
  }
}

void GpuSet::Close() {
  for (const Member& member : members_) member.gpu->Close();
}

std::size_t GpuSet::min_piece_bytes(const BatchPlan& plan) const {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const Member& member : members_) {
    if (member.gpu->left_out().Has(plan)) continue;
    least = std::min(least, member.gpu->min_piece_bytes(plan));
  }
  return least;
}

bool GpuSet::is_usable() const { return LeastBusy(nullptr, max_piece_bytes_, 0) != nullptr; }

std::shared_ptr<const BatchPlan> GpuSet::PlanOf(const Profile& profile,
                                                DigestAlgorithm digest_algorithm) {
  if (profile.max_bytes > max_piece_bytes_ || !is_usable()) return nullptr;
  auto plan = FindPlan(profile, digest_algorithm);
  if (plan == nullptr || LeastBusy(plan.get(), max_piece_bytes_, 0) == nullptr) return nullptr;
  return plan;
}

std::shared_ptr<const BatchPlan> GpuSet::FindPlan(const Profile& profile,
                                                  DigestAlgorithm digest_algorithm) {
  const std::string key = Cat(FormatProfile(profile), " ", DigestAlgorithmName(digest_algorithm));
  {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) {
      if (auto plan = found->second.lock()) return plan;
    }
  }
  // Without the lock: the CPU's fastest backend may be measured for it.
  std::shared_ptr<const BatchPlan> plan = MakeBatchPlan(profile, digest_algorithm);
  if (plan == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const BatchPlan>& kept = plans_[key];
  if (auto other = kept.lock()) return other;
  kept = plan;
  std::erase_if(plans_, [](const auto& entry) { return entry.second.expired(); });
  return plan;
}

const GpuSet::Member* GpuSet::LeastBusy(const BatchPlan* plan, std::size_t piece_bytes,
                                        std::uint64_t tried) const {
  const Member* best = nullptr;
  std::size_t least_bytes = 0;
  for (std::size_t index = 0; index < members_.size(); ++index) {
    const Member& member = members_[index];
    const GpuCutter& gpu = *member.gpu;
    if ((tried >> index & 1) != 0 || gpu.is_lost()) continue;
    if (plan != nullptr && gpu.left_out().Has(*plan)) continue;
    const std::size_t from_bytes =
        plan != nullptr ? gpu.min_piece_bytes(*plan) : gpu.min_piece_bytes();
    if (piece_bytes < from_bytes) continue;
    const std::size_t pending_bytes = gpu.pending_bytes();
    if (best != nullptr && pending_bytes >= least_bytes) continue;
    best = &member;
    least_bytes = pending_bytes;
  }
  return best;
}

bool GpuSet::TryCut(const std::shared_ptr<const BatchPlan>& plan,
                    std::span<const std::uint8_t> piece, bool is_end,
                    const std::shared_ptr<PieceTaker>& taker) {
  std::uint64_t tried = 0;
  while (const Member* const member = LeastBusy(plan.get(), piece.size(), tried)) {
    if (member->gpu->TryCut(plan, piece, is_end, taker)) return true;
    tried |= std::uint64_t{1} << (member - members_.data());
  }
  return false;
}

std::vector<GpuState> GpuSet::states() const {
  std::vector<GpuState> states;
  states.reserve(members_.size());
  for (const auto& [number, gpu] : members_) {
    states.push_back({number, gpu->device_info().name, gpu->device_info().memory_bytes,
                      gpu->health(), gpu->counters(), gpu->pending_bytes(),
                      gpu->left_out().Text()});
  }
  return states;
}

std::size_t GpuSet::lost_count() const {
  return static_cast<std::size_t>(
      std::count_if(members_.begin(), members_.end(),
                    [](const Member& member) { return member.gpu->is_lost(); }));
}

}  // namespace kerf::cuda
