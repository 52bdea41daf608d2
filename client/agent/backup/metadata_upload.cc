#include "client/agent/backup/metadata_upload.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "client/store/snapshots/recipe_stream.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

}  // namespace

absl::Status MetadataUpload::Append(const TreeEntry& entry, const NodeIdentity& identity) {
  EncodeTreeEntry(entry, digest_size_bytes_, tree_.bytes);
  EncodeIdentity(identity, identity_.bytes);
  if (tree_.bytes.size() >= kPieceBytes) KERF_RETURN_IF_ERROR(Send(tree_));
  if (identity_.bytes.size() >= kPieceBytes) KERF_RETURN_IF_ERROR(Send(identity_));
  return absl::OkStatus();
}

absl::Status MetadataUpload::Finish() {
  KERF_RETURN_IF_ERROR(Send(tree_));
  KERF_RETURN_IF_ERROR(Send(identity_));
  return lane_.WaitAnswered();
}

absl::Status MetadataUpload::Send(Stream& stream) {
  std::size_t position = 0;
  const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
    const std::size_t count = std::min(span.size(), stream.bytes.size() - position);
    if (count > 0) std::memcpy(span.data(), stream.bytes.data() + position, count);
    position += count;
    return count;
  };
  // Pieces of a lane complete in order.
  const auto on_complete = [&stream](FileOutcome outcome) noexcept {
    stream.recipe.insert(stream.recipe.end(), outcome.recipe.begin(), outcome.recipe.end());
  };
  absl::Status read_status;
  KERF_RETURN_IF_ERROR(
      lane_.SendFile(stream.key, stream.bytes.size(), read, on_complete, read_status));
  stream.bytes.clear();
  lane_.Flush();
  return read_status;
}

void MetadataUpload::Describe(store::v1::Snapshot& snapshot) const {
  RecipeToProto(tree_.recipe, digest_size_bytes_, *snapshot.mutable_tree());
  RecipeToProto(identity_.recipe, digest_size_bytes_, *snapshot.mutable_identity());
}

}  // namespace kerf::agent
