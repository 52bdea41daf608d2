#include "client/store/snapshots/recipe_stream.h"

#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "kernels/profile.h"

namespace kerf::agent {

absl::StatusOr<std::vector<ChunkRef>> RecipeFromProto(
    const google::protobuf::RepeatedPtrField<store::v1::StoredChunkRef>& chunks,
    std::size_t digest_size_bytes) {
  std::vector<ChunkRef> recipe;
  recipe.reserve(static_cast<std::size_t>(chunks.size()));
  for (const store::v1::StoredChunkRef& chunk : chunks) {
    if (chunk.digest().size() != digest_size_bytes) {
      return absl::DataLossError("a recipe of the snapshot has a digest of a wrong size");
    }
    // No profile cuts longer ones; a longer one that repeats would cost a hostile store nothing.
    if (chunk.length_bytes() == 0 || chunk.length_bytes() > kMaxMaxBytes) {
      return absl::DataLossError(Cat("a recipe of the snapshot has a chunk of ",
                                     chunk.length_bytes(), " bytes; 1 to ", kMaxMaxBytes,
                                     " are possible"));
    }
    ChunkRef& ref = recipe.emplace_back();
    std::memcpy(ref.digest.bytes.data(), chunk.digest().data(), digest_size_bytes);
    ref.length_bytes = chunk.length_bytes();
  }
  return recipe;
}

void RecipeToProto(const std::vector<ChunkRef>& recipe, std::size_t digest_size_bytes,
                   google::protobuf::RepeatedPtrField<store::v1::StoredChunkRef>& chunks) {
  for (const ChunkRef& ref : recipe) {
    store::v1::StoredChunkRef& chunk = *chunks.Add();
    chunk.set_digest(ref.digest.bytes.data(), digest_size_bytes);
    chunk.set_length_bytes(ref.length_bytes);
  }
}

StreamSource ReadRecipe(ChunkReader& reader, SharedRecipe recipe, std::size_t first_chunk) {
  struct State {
    SharedRecipe recipe;
    std::size_t next = 0;
    ChunkBytes current;
  };
  auto state = std::make_shared<State>();
  state->recipe = std::move(recipe);
  state->next = first_chunk;
  return [&reader, state]() -> absl::StatusOr<std::span<const std::uint8_t>> {
    if (state->next >= state->recipe->size()) return std::span<const std::uint8_t>();
    KERF_ASSIGN_OR_RETURN(state->current, reader.Read((*state->recipe)[state->next++]));
    return state->current.bytes();
  };
}

StreamSource ReadRecipe(ChunkReader& reader, std::vector<ChunkRef> recipe) {
  return ReadRecipe(reader, std::make_shared<const std::vector<ChunkRef>>(std::move(recipe)));
}

}  // namespace kerf::agent
