// What snapshots reference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

using EntryVisitor = std::function<void(const TreeEntry&)>;

// Calls `visit_chunk` for every chunk that the snapshot references (those of its metadata streams
// first), and `visit_entry`, unless it is empty, for every entry of its tree, without its recipe. A
// chunk that is referenced often is visited often. The errors are those of ChunkReader and
// TreeReader; what was visited before them stays visited.
absl::Status VisitSnapshot(const store::v1::Snapshot& snapshot, std::size_t digest_size_bytes,
                           ChunkReader& reader, const ChunkVisitor& visit_chunk,
                           const EntryVisitor& visit_entry);

}  // namespace kerf::agent
