// Which packs a verification reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "client/store/packs/chunk_index.h"

namespace kerf::agent {

// Everything, or one of three kinds of a part. A plain value.
struct ReadSubset {
  // The `part`-th of `part_count` parts, from 1; a pack is in the same part for ever. 0: no parts.
  std::uint64_t part = 0;
  std::uint64_t part_count = 0;
  // Packs that have together at least so many bytes in the store, or as many as are read in a time;
  // at least one. 0: no such bound.
  std::uint64_t max_bytes = 0;
  std::chrono::milliseconds max_time{0};
  // With max_bytes or max_time: the first one is the next behind this, in the order of their ids,
  // and behind the last one comes the first.
  std::optional<PackId> after = {};

  bool is_everything() const { return part_count == 0 && max_bytes == 0 && max_time.count() == 0; }
};

// In the order in which they are to be read; with max_time all of them.
std::vector<std::shared_ptr<const KnownPack>> ChoosePacks(
    std::vector<std::shared_ptr<const KnownPack>> packs, const ReadSubset& subset);

}  // namespace kerf::agent
