#include "client/store/snapshots/roots.h"

#include <utility>

#include "base/status.h"
#include "client/store/snapshots/recipe_stream.h"

namespace kerf::agent {

absl::Status VisitSnapshot(const store::v1::Snapshot& snapshot, std::size_t digest_size_bytes,
                           ChunkReader& reader, const ChunkVisitor& visit_chunk,
                           const EntryVisitor& visit_entry) {
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> tree,
                        RecipeFromProto(snapshot.tree(), digest_size_bytes));
  KERF_ASSIGN_OR_RETURN(const std::vector<ChunkRef> identity,
                        RecipeFromProto(snapshot.identity(), digest_size_bytes));
  for (const ChunkRef& chunk : tree) visit_chunk(chunk);
  for (const ChunkRef& chunk : identity) visit_chunk(chunk);
  TreeReader entries(ReadRecipe(reader, std::move(tree)), digest_size_bytes);
  TreeEntry entry;
  while (true) {
    KERF_ASSIGN_OR_RETURN(const bool more, entries.Next(entry, visit_chunk));
    if (!more) return absl::OkStatus();
    if (visit_entry) visit_entry(entry);
  }
}

}  // namespace kerf::agent
