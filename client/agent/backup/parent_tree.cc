#include "client/agent/backup/parent_tree.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "client/fs/path.h"
#include "kernels/profile.h"

namespace kerf::agent {

ParentTree::ParentTree(ChunkReader& reader, SharedRecipe tree, StreamSource identity,
                       std::size_t digest_size_bytes, std::size_t max_kept_chunks, Expect expect,
                       IsEnded is_ended)
    : reader_(reader),
      tree_recipe_(std::move(tree)),
      digest_size_bytes_(digest_size_bytes),
      tree_(ReadRecipe(reader, tree_recipe_), digest_size_bytes, max_kept_chunks),
      identity_(std::move(identity)),
      expect_(std::move(expect)),
      is_ended_(std::move(is_ended)) {}

absl::StatusOr<std::unique_ptr<ParentTree>> ParentTree::Open(ChunkReader& reader,
                                                             const store::v1::Snapshot& snapshot,
                                                             std::size_t digest_size_bytes,
                                                             std::size_t max_kept_chunks,
                                                             Expect expect, IsEnded is_ended) {
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> tree,
                        RecipeFromProto(snapshot.tree(), digest_size_bytes));
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> identity,
                        RecipeFromProto(snapshot.identity(), digest_size_bytes));
  auto shared_tree = std::make_shared<const std::vector<ChunkRef>>(std::move(tree));
  return std::unique_ptr<ParentTree>(
      new ParentTree(reader, std::move(shared_tree), ReadRecipe(reader, std::move(identity)),
                     digest_size_bytes, max_kept_chunks, std::move(expect), std::move(is_ended)));
}

BackupEntry* ParentTree::FindUnchanged(const ScannedNode& scanned, bool ignore_device,
                                       const std::function<bool(ChunkSpan)>& are_held) {
  BackupEntry* const entry = Find(scanned.node.path);
  if (entry == nullptr) return nullptr;
  const Node& before = entry->tree.node;
  const bool is_unchanged = before.kind == NodeKind::kFile && before.hard_link_to.empty() &&
                            before.size_bytes == scanned.node.size_bytes &&
                            before.modified == scanned.node.modified &&
                            IsUnchanged(entry->identity, scanned.identity, ignore_device) &&
                            TakeRecipe(*entry) && are_held(entry->tree.recipe);
  return is_unchanged ? entry : nullptr;
}

// Makes the recipe of an entry whole. False if it cannot be, or if it has more chunks than a file
// of its size: then the file is read again.
bool ParentTree::TakeRecipe(BackupEntry& entry) const {
  if (!entry.tree.long_recipe.has_value()) return true;
  const std::uint64_t chunk_count = entry.tree.long_recipe->chunk_count;
  return chunk_count <= entry.tree.node.size_bytes / kMinAvgBytes && LoadRecipe(entry).ok();
}

absl::Status ParentTree::LoadRecipe(BackupEntry& entry) const {
  if (!entry.tree.long_recipe.has_value()) return absl::OkStatus();
  const RecipePlace place = *entry.tree.long_recipe;
  RecipeReader recipe(ReadRecipe(reader_, tree_recipe_, place.piece_index), place,
                      digest_size_bytes_);
  while (recipe.left_count() > 0) {
    if (IsOver()) return absl::CancelledError("the backup was interrupted");
    KERF_ASSIGN_OR_RETURN(const ChunkRef chunk, recipe.Next());
    entry.tree.recipe.push_back(chunk);
  }
  entry.tree.long_recipe.reset();
  return absl::OkStatus();
}

absl::StatusOr<bool> ParentTree::Advance() {
  if (!expect_) return ReadEntry(current_);
  if (ahead_.empty()) ReadAhead();
  if (ahead_.empty()) return behind_;
  current_ = std::move(ahead_.front());
  ahead_.pop_front();
  return true;
}

void ParentTree::ReadAhead() {
  std::vector<ChunkRef> chunks;
  std::uint64_t bytes = 0;
  while (behind_.ok() && *behind_ && ahead_.size() < kMaxAheadEntries &&
         chunks.size() < kMaxAheadChunks && bytes < kMaxAheadBytes) {
    BackupEntry entry;
    behind_ = ReadEntry(entry);
    if (!behind_.ok() || !*behind_) break;
    chunks.insert(chunks.end(), entry.tree.recipe.begin(), entry.tree.recipe.end());
    bytes += MemoryOf(entry);
    ahead_.push_back(std::move(entry));
  }
  expect_(chunks);
}

absl::StatusOr<bool> ParentTree::ReadEntry(BackupEntry& entry) {
  KERF_ASSIGN_OR_RETURN(const bool more, tree_.Next(entry.tree));
  if (!more) return false;
  KERF_ASSIGN_OR_RETURN(const bool known, identity_.Next(entry.identity));
  if (!known) return absl::DataLossError("the identity stream is shorter than the tree stream");
  return true;
}

BackupEntry* ParentTree::Find(const std::string& path) {
  // Between two files of the scan may lie millions of those that are gone.
  while (!at_end_ && !IsOver()) {
    if (has_current_) {
      const int order = ComparePaths(current_.tree.node.path, path);
      if (order == 0) return &current_;
      if (order > 0) return nullptr;
    }
    const absl::StatusOr<bool> more = Advance();
    if (!more.ok()) damage_ = more.status();
    has_current_ = more.ok() && *more;
    at_end_ = !has_current_;
  }
  return nullptr;
}

bool IsUnchanged(const NodeIdentity& before, const NodeIdentity& now, bool ignore_device) {
  return before.changed != Timestamp() && before.changed == now.changed &&
         before.inode == now.inode && (ignore_device || before.device == now.device);
}

std::vector<ChunkRef> MetadataOf(const store::v1::Snapshot& snapshot,
                                 std::size_t digest_size_bytes) {
  std::vector<ChunkRef> chunks;
  for (const auto* recipe : {&snapshot.tree(), &snapshot.identity()}) {
    const auto part = RecipeFromProto(*recipe, digest_size_bytes);
    if (!part.ok()) return {};
    chunks.insert(chunks.end(), part->begin(), part->end());
  }
  return chunks;
}

std::optional<store::v1::Snapshot> FindParent(const SnapshotList& list, const std::string& host,
                                              const std::vector<std::string>& paths) {
  for (auto snapshot = list.snapshots.rbegin(); snapshot != list.snapshots.rend(); ++snapshot) {
    if (snapshot->host() == host &&
        std::equal(paths.begin(), paths.end(), snapshot->paths().begin(),
                   snapshot->paths().end())) {
      return *snapshot;
    }
  }
  return std::nullopt;
}

}  // namespace kerf::agent
