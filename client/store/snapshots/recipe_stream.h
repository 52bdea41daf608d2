// Reads what a recipe describes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/store/format/chunk_ref.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_reader.h"
#include "kerf/store/v1/store.pb.h"

namespace kerf::agent {

// DataLoss if a digest has not `digest_size_bytes`, or a chunk's length is one that no profile
// cuts.
absl::StatusOr<std::vector<ChunkRef>> RecipeFromProto(
    const google::protobuf::RepeatedPtrField<store::v1::StoredChunkRef>& chunks,
    std::size_t digest_size_bytes);
void RecipeToProto(const std::vector<ChunkRef>& recipe, std::size_t digest_size_bytes,
                   google::protobuf::RepeatedPtrField<store::v1::StoredChunkRef>& chunks);

using SharedRecipe = std::shared_ptr<const std::vector<ChunkRef>>;

// The chunks one after the other, each as one piece, from `first_chunk` on. `reader` outlives the
// source.
StreamSource ReadRecipe(ChunkReader& reader, SharedRecipe recipe, std::size_t first_chunk = 0);
StreamSource ReadRecipe(ChunkReader& reader, std::vector<ChunkRef> recipe);

}  // namespace kerf::agent
