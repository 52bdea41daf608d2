// Which packs a collection deletes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/store/collect/collection.h"
#include "client/store/collect/marks.h"

namespace kerf::agent {

// A pack that is to go, by its index in the marks. A plain value.
struct Target {
  std::size_t pack_index = 0;
  // It had live chunks when all roots had been read.
  bool has_live = false;
  // It goes because it is small.
  bool is_merge = false;
  // A chunk of it could not be moved: it stays.
  bool keep = false;
};

struct ChosenTargets {
  // In ascending order of their packs' ids.
  std::vector<Target> targets;
  // There is no room for the live chunks of all that should go, or for a plan that names it.
  bool is_short = false;
  // Of what is left for that reason, the packs that have more waste than they should.
  std::uint64_t left_count = 0;
  // What they have of waste.
  std::uint64_t left_bytes = 0;
};

// Packs without a live chunk go, as many as a plan has room for that may take a quarter of
// `available_bytes`, and options.full_disk_plan_bytes in any case. Those that are to be rewritten
// go if what is live in all of them, with parity of `parity_percent` (0: none), fits into
// `available_bytes`; else as many of them as do, those
// with the most waste first, and none is merged. Without a value there is room for everything.
ChosenTargets ChooseTargets(const Marks& marks, const CollectionOptions& options,
                            std::optional<std::uint64_t> available_bytes,
                            unsigned parity_percent = 0);

}  // namespace kerf::agent
