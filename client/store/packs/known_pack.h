// Packs by their footers, and places in them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"
#include "client/store/parity/pack_sums.h"

namespace kerf::agent {

// A pack whose footer is known. Immutable.
struct KnownPack {
  PackId id;
  PackFooter footer;
  std::uint64_t file_bytes = 0;
  // Not empty: what is wrong with the file though all of it can be read (CheckReservedBytes), or
  // what of it could only be read with its parity.
  std::string flaw = {};
  // The latter.
  bool needs_parity = false;

  // What it takes of memory.
  std::uint64_t memory_bytes() const;
};

// Where a chunk lies.
struct ChunkPlace {
  std::shared_ptr<const KnownPack> pack;
  std::uint32_t chunk_index = 0;

  const PackChunk& chunk() const { return pack->footer.chunks[chunk_index]; }
  const PackBlock& block() const { return pack->footer.blocks[chunk().block_index]; }
  std::string locator() const { return EncodeLocator(pack->id, chunk_index); }
};

// Where the file of a pack is.
std::string PackPathIn(const std::string& packs_directory, const PackId& id);

// The packs whose files are there. An error for a folder that cannot be listed.
absl::StatusOr<std::vector<PackId>> ListPacks(const std::string& packs_directory);

// That these packs are there survives the machine: each of them was seen before.
absl::Status MakePackNamesDurable(const std::string& packs_directory,
                                  const std::vector<PackId>& ids);

// Reads and checks the footer of one pack file, as it is. `sums` gets what is read, of header,
// footer and trailer.
absl::StatusOr<KnownPack> ReadPackFooter(const std::string& path, const PackId& id,
                                         PackSums* sums = nullptr);

// The same, with the pack's parity where that is needed.
absl::StatusOr<KnownPack> ReadPackFooterAnyhow(const std::string& path, const PackId& id);

// Calls `visit` with each pack that is there now, durably, one after the other. Holds the footer of
// one in memory, and all names. Passes over those whose footers cannot be read, and those that go
// meanwhile: packs that have come meanwhile are visited, too, so that no chunk is missed that a
// collection has moved. So it lists all of them twice, and twice again behind one that has gone. An
// error for a folder that cannot be listed; Cancelled once `is_ended`, which is asked before each
// footer is read, unless it is empty.
absl::Status VisitDurablePacks(const std::string& packs_directory,
                               const std::function<void(const KnownPack&)>& visit,
                               const std::function<bool()>& is_ended = {});

}  // namespace kerf::agent
