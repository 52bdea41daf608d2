#include "client/store/snapshots/store_stats.h"

#include "base/status.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/snapshots/pending.h"

namespace kerf::agent {
namespace {

double Ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double StoreStats::deduplication_ratio() const { return Ratio(logical_bytes, unique_bytes); }

double StoreStats::compression_ratio() const {
  return Ratio(unique_bytes + redundant_bytes, stored_bytes);
}

absl::StatusOr<StoreStats> ReadStoreStats(const Store& store) {
  StoreStats stats;
  KERF_ASSIGN_OR_RETURN(const Roots roots, ListRoots(store));
  stats.pending_count = roots.pending.snapshots.size();
  stats.snapshot_count = roots.checked.snapshots.size();
  stats.damaged_snapshot_count = roots.checked.damaged.size();
  for (const store::v1::Snapshot& snapshot : roots.checked.snapshots) {
    stats.file_count += snapshot.stats().file_count();
    stats.logical_bytes += snapshot.stats().total_bytes();
  }
  ChunkIndex index(store.packs_directory());
  KERF_RETURN_IF_ERROR(index.Refresh());
  stats.damaged_pack_count = index.damaged().size();
  for (const auto& pack : index.packs()) {
    ++stats.pack_count;
    stats.stored_bytes += pack->file_bytes;
    const std::vector<PackChunk>& chunks = pack->footer.chunks;
    for (std::uint32_t chunk_index = 0; chunk_index < chunks.size(); ++chunk_index) {
      const auto place = index.Locate(chunks[chunk_index].digest);
      // Of several copies the index gives one.
      if (place.has_value() && place->pack == pack && place->chunk_index == chunk_index) {
        ++stats.chunk_count;
        stats.unique_bytes += chunks[chunk_index].length_bytes;
      } else {
        stats.redundant_bytes += chunks[chunk_index].length_bytes;
      }
    }
  }
  return stats;
}

}  // namespace kerf::agent
