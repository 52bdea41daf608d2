// Where chunks lie, for who reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/store/format/pack_files.h"
#include "client/store/packs/known_pack.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// Thread-safe.
class ChunkPlaces {
 public:
  virtual ~ChunkPlaces() = default;

  // One of the places, if any is known.
  virtual std::optional<ChunkPlace> Locate(const Digest& digest) const = 0;
  // All that are known, the one that Locate gives first.
  virtual std::vector<ChunkPlace> LocateAll(const Digest& digest) const = 0;
  // Looks at the store again, for chunks that are not where they were. True if more is known, or
  // something else.
  virtual absl::StatusOr<bool> LookAgain() = 0;
  // Folders of packs of which nothing is known.
  virtual std::vector<UnlistedFolder> unlisted() const { return {}; }

  virtual const std::string& packs_directory() const = 0;
  std::string PackPath(const PackId& id) const { return PackPathIn(packs_directory(), id); }
};

}  // namespace kerf::agent
