#include "server/redis/topology.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "server/redis/reply.h"
#include "server/redis/slot.h"

namespace kerf::redis {
namespace {

constexpr std::uint16_t kNoMaster = 0xFFFF;

}  // namespace

std::optional<RedisAddress> Topology::MasterOf(std::uint16_t slot) const {
  if (masters_.empty()) return std::nullopt;
  const std::size_t master = is_single_ ? 0 : master_of_slot_[slot];
  if (master >= masters_.size()) return std::nullopt;
  return masters_[master];
}

std::vector<MasterSlot> Topology::SlotOfEach(std::minstd_rand& random) const {
  if (is_single_) return {{masters_.front(), 0}};
  std::vector<std::vector<std::uint16_t>> slots_of(masters_.size());
  for (std::size_t slot = 0; slot < master_of_slot_.size(); ++slot) {
    const std::size_t master = master_of_slot_[slot];
    if (master < masters_.size()) slots_of[master].push_back(static_cast<std::uint16_t>(slot));
  }
  std::vector<MasterSlot> slots;
  for (std::size_t master = 0; master < masters_.size(); ++master) {
    const std::vector<std::uint16_t>& own = slots_of[master];
    if (!own.empty()) slots.push_back({masters_[master], own[random() % own.size()]});
  }
  return slots;
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
  has_turn_failed_ = true;
  const std::string forbidden = std::exchange(forbidden_, "");
  if (forbidden.empty()) return absl::OkStatus();
  return absl::PermissionDeniedError(ToAbsl(forbidden));
}

std::string Topology::StrangerIn(const RedisReply& answer) const {
  if (node_ids_.empty()) return "";
  if (IsOfSingle(answer)) return "a single Redis, and the index is in a cluster";
  const std::vector<std::string> ids = NodeIdsOf(answer);
  const bool is_known = ids.empty() || std::any_of(ids.begin(), ids.end(), [this](const auto& id) {
                          return node_ids_.contains(id);
                        });
  return is_known ? "" : "a node of another cluster than that with the index";
}

bool Topology::Answered(const RedisReply& answer, const RedisAddress& asked, bool may_be_others) {
  const bool is_single = IsOfSingle(answer);
  if (!StrangerIn(answer).empty() && (is_single || !may_be_others)) return false;
  std::vector<RedisSlotRange> ranges;
  if (!is_single) {
    auto parsed = ParseClusterSlots(answer, asked);
    if (!parsed.ok() || parsed->empty()) return false;
    ranges = *std::move(parsed);
  }
  is_asking_ = false;
  failed_count_ = 0;
  has_turn_failed_ = false;
  forbidden_.clear();
  error_.clear();
  const std::vector<std::string> ids = NodeIdsOf(answer);
  node_ids_ = {ids.begin(), ids.end()};
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
