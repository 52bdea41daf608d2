#include "client/store/collect/targets.h"

#include <algorithm>
#include <utility>

#include "client/store/collect/collection_plan.h"
#include "client/store/parity/parity_layout.h"

namespace kerf::agent {
namespace {

// Beside the chunks themselves: footers, blocks that compress less well in other company, the plan,
// and what backups write meanwhile.
constexpr std::uint64_t kMovedShareBesides = 16;
constexpr std::uint64_t kFreeBytesBesides = std::uint64_t{1} << 20;
// It is there twice when it is replaced, and what is moved needs room, too.
constexpr std::uint64_t kPlanShare = 4;

std::uint64_t LiveBytes(const Marks& marks, const Target& target) {
  const double dead_bytes = marks.DeadBytes(target.pack_index);
  const auto file_bytes = static_cast<double>(marks.pack(target.pack_index).file_bytes);
  return static_cast<std::uint64_t>(std::max(file_bytes - dead_bytes, 0.0));
}

// Of the disk, for what is moved.
class MoveRoom {
 public:
  MoveRoom(std::uint64_t available_bytes, std::uint64_t target_pack_bytes, unsigned parity_percent)
      : available_bytes_(available_bytes),
        target_pack_bytes_(std::clamp<std::uint64_t>(target_pack_bytes, 1, kMaxParityPackBytes)),
        parity_percent_(parity_percent) {}

  bool Fits(std::uint64_t moved_bytes) const {
    const std::uint64_t pack_bytes = moved_bytes + moved_bytes / kMovedShareBesides;
    return pack_bytes + ParityBytes(pack_bytes) + kFreeBytesBesides <= available_bytes_;
  }

 private:
  std::uint64_t ParityBytes(std::uint64_t pack_bytes) const {
    const auto of_one = [this](std::uint64_t bytes) {
      return bytes == 0 ? 0 : ShapeFor(bytes, parity_percent_).file_bytes();
    };
    if (parity_percent_ == 0) return 0;
    return pack_bytes / target_pack_bytes_ * of_one(target_pack_bytes_) +
           of_one(pack_bytes % target_pack_bytes_);
  }

  const std::uint64_t available_bytes_;
  const std::uint64_t target_pack_bytes_;
  const unsigned parity_percent_;
};

// Of the plan.
class PlanRoom {
 public:
  PlanRoom(const Marks& marks, std::uint64_t max_bytes) : marks_(marks), left_bytes_(max_bytes) {}

  // False if the plan has no room for the pack.
  bool Take(const Target& target) {
    const std::uint64_t bytes = PlannedBytes(marks_.pack(target.pack_index).footer.chunks.size());
    if (bytes > left_bytes_) return false;
    left_bytes_ -= bytes;
    return true;
  }

 private:
  const Marks& marks_;
  std::uint64_t left_bytes_;
};

// All that should go, whatever room there is.
std::vector<Target> AllTargets(const Marks& marks, const CollectionOptions& options) {
  std::vector<Target> targets;
  std::vector<std::size_t> small;
  for (std::size_t pack_index = 0; pack_index < marks.pack_count(); ++pack_index) {
    const KnownPack& pack = marks.pack(pack_index);
    const std::uint64_t live_count = marks.live_count(pack_index);
    const bool all_live = live_count == pack.footer.chunks.size();
    const double waste_ratio = marks.DeadBytes(pack_index) / static_cast<double>(pack.file_bytes);
    if (live_count == 0 || (!all_live && waste_ratio > options.max_waste_ratio)) {
      targets.push_back({pack_index, live_count > 0});
    } else if (pack.file_bytes < options.small_pack_bytes &&
               pack.footer.chunks.size() < options.small_pack_chunks) {
      small.push_back(pack_index);
    }
  }
  if (small.size() >= options.min_merged_packs) {
    for (const std::size_t pack_index : small) targets.push_back({pack_index, true, true});
  }
  return targets;
}

// What frees the most for what is written comes first.
void LeaveWhatDoesNotFit(const Marks& marks, const MoveRoom& move_room, PlanRoom plan_room,
                         ChosenTargets& chosen) {
  std::vector<Target> all = std::move(chosen.targets);
  chosen.targets.clear();
  std::sort(all.begin(), all.end(), [&](const Target& a, const Target& b) {
    const auto live_share = [&](const Target& target) {
      return static_cast<double>(LiveBytes(marks, target)) /
             static_cast<double>(marks.pack(target.pack_index).file_bytes);
    };
    return live_share(a) < live_share(b);
  });
  std::uint64_t moved_bytes = 0;
  for (const Target& target : all) {
    const std::uint64_t live_bytes = target.has_live ? LiveBytes(marks, target) : 0;
    const bool has_room =
        !target.has_live || (!target.is_merge && move_room.Fits(moved_bytes + live_bytes));
    if (has_room && plan_room.Take(target)) {
      moved_bytes += live_bytes;
      chosen.targets.push_back(target);
    } else if (!target.is_merge) {
      ++chosen.left_count;
      chosen.left_bytes += static_cast<std::uint64_t>(marks.DeadBytes(target.pack_index));
    }
  }
}

}  // namespace

ChosenTargets ChooseTargets(const Marks& marks, const CollectionOptions& options,
                            std::optional<std::uint64_t> available_bytes, unsigned parity_percent) {
  ChosenTargets chosen;
  chosen.targets = AllTargets(marks, options);
  std::uint64_t moved_bytes = 0;
  for (const Target& target : chosen.targets) {
    if (target.has_live) moved_bytes += LiveBytes(marks, target);
  }
  if (available_bytes.has_value()) {
    const PlanRoom plan_room(marks,
                             std::max(*available_bytes / kPlanShare, options.full_disk_plan_bytes));
    const MoveRoom move_room(*available_bytes, options.target_pack_bytes, parity_percent);
    PlanRoom rest = plan_room;
    const bool plan_fits = std::all_of(chosen.targets.begin(), chosen.targets.end(),
                                       [&](const Target& target) { return rest.Take(target); });
    if (!plan_fits || (moved_bytes > 0 && !move_room.Fits(moved_bytes))) {
      chosen.is_short = true;
      LeaveWhatDoesNotFit(marks, move_room, plan_room, chosen);
    }
  }
  std::sort(chosen.targets.begin(), chosen.targets.end(), [&](const Target& a, const Target& b) {
    return marks.pack(a.pack_index).id < marks.pack(b.pack_index).id;
  });
  return chosen;
}

}  // namespace kerf::agent
