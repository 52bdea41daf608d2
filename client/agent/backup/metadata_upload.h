// Sends a snapshot's metadata streams through a lane, piece by piece.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/backup/lane.h"
#include "client/store/format/tree_codec.h"
#include "kerf/store/v1/store.pb.h"

namespace kerf::agent {

// Each piece is a file of its own on the wire, so that none is open while a large file of the
// backup takes its time; the recipes of the pieces follow each other. Not thread-safe.
class MetadataUpload {
 public:
  MetadataUpload(Lane& lane, std::size_t digest_size_bytes)
      : lane_(lane), digest_size_bytes_(digest_size_bytes) {}

  absl::Status Append(const TreeEntry& entry, const NodeIdentity& identity);
  // Sends the rest and waits until all of it has been answered.
  absl::Status Finish();
  // After Finish: the recipes.
  void Describe(store::v1::Snapshot& snapshot) const;

 private:
  struct Stream {
    std::string_view key;
    std::vector<std::uint8_t> bytes;
    std::vector<ChunkRef> recipe;
  };

  absl::Status Send(Stream& stream);

  Lane& lane_;
  const std::size_t digest_size_bytes_;
  Stream tree_{"tree", {}, {}};
  Stream identity_{"identity", {}, {}};
};

}  // namespace kerf::agent
