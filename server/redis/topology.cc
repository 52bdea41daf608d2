#include "server/redis/topology.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "server/redis/reply.h"
#include "server/redis/slot.h"

namespace kerf::redis {
namespace {

constexpr std::uint16_t kNoMaster = 0xFFFF;
// Of the answer to CLUSTER SLOTS.
constexpr std::string_view kNoCluster = "cluster support disabled";

}  // namespace

std::optional<RedisAddress> Topology::MasterOf(std::uint16_t slot) const {
  if (masters_.empty()) return std::nullopt;
  const std::size_t master = is_single_ ? 0 : master_of_slot_[slot];
  if (master >= masters_.size()) return std::nullopt;
  return masters_[master];
}

void Topology::Learn(std::uint16_t slot, const RedisAddress& master) {
  auto found = std::find(masters_.begin(), masters_.end(), master);
  if (found == masters_.end()) found = masters_.insert(masters_.end(), master);
  is_single_ = false;
  master_of_slot_.resize(kRedisSlotCount, kNoMaster);
  master_of_slot_[slot] = static_cast<std::uint16_t>(found - masters_.begin());
}

RedisAddress Topology::Ask() {
  is_asking_ = true;
  std::vector<RedisAddress> candidates = masters_;
  candidates.insert(candidates.end(), seeds_.begin(), seeds_.end());
  return candidates[question_++ % candidates.size()];
}

absl::Status Topology::Failed(const std::string& error, bool is_forbidden) {
  is_asking_ = false;
  error_ = error;
  if (is_forbidden) forbidden_ = error;
  if (++failed_count_ < masters_.size() + seeds_.size()) return absl::OkStatus();
  failed_count_ = 0;
  const std::string forbidden = std::exchange(forbidden_, "");
  if (forbidden.empty()) return absl::OkStatus();
  return absl::PermissionDeniedError(ToAbsl(forbidden));
}

bool Topology::Answered(const RedisReply& answer, const RedisAddress& asked) {
  const bool is_single =
      answer.kind == RedisReply::Kind::kError && answer.text.find(kNoCluster) != std::string::npos;
  std::vector<RedisSlotRange> ranges;
  if (!is_single) {
    auto parsed = ParseClusterSlots(answer, asked);
    if (!parsed.ok() || parsed->empty()) return false;
    ranges = *std::move(parsed);
  }
  is_asking_ = false;
  failed_count_ = 0;
  forbidden_.clear();
  error_.clear();
  masters_.clear();
  master_of_slot_.assign(kRedisSlotCount, kNoMaster);
  for (const RedisSlotRange& range : ranges) {
    for (int slot = range.first; slot <= range.last; ++slot) {
      Learn(static_cast<std::uint16_t>(slot), range.master);
    }
  }
  if (is_single) masters_ = {asked};
  is_single_ = is_single;
  return true;
}

}  // namespace kerf::redis
