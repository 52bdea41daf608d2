// How much a store holds, and what it saves.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

struct StoreStats {
  std::uint64_t snapshot_count = 0;
  std::uint64_t damaged_snapshot_count = 0;
  std::uint64_t pending_count = 0;
  // Summed over the snapshots.
  std::uint64_t file_count = 0;
  std::uint64_t logical_bytes = 0;
  std::uint64_t pack_count = 0;
  std::uint64_t damaged_pack_count = 0;
  // Different chunks, and their raw bytes.
  std::uint64_t chunk_count = 0;
  std::uint64_t unique_bytes = 0;
  // Chunks that several packs hold, beyond the first copy.
  std::uint64_t redundant_bytes = 0;
  // Pack files.
  std::uint64_t stored_bytes = 0;

  // logical_bytes to unique_bytes; 0 where there is nothing.
  double deduplication_ratio() const;
  // Raw bytes in packs to stored_bytes.
  double compression_ratio() const;
};

// Reads the footers of all packs and the snapshot files.
absl::StatusOr<StoreStats> ReadStoreStats(const Store& store);

}  // namespace kerf::agent
