#include "client/agent/backup/link_marks.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "client/store/format/tree_codec.h"

namespace kerf::agent {
namespace {

// A fingerprint of all but the path. Nor of the ctime, which the scanner has compared: only one of
// them may have been read in this run, and have it left out.
Digest MarkOf(BackupEntry& entry) {
  constexpr std::size_t kWholeDigest = 32;
  std::vector<std::uint8_t> bytes;
  std::string path = std::exchange(entry.tree.node.path, "");
  EncodeTreeEntry(entry.tree, kWholeDigest, bytes);
  entry.tree.node.path = std::move(path);
  EncodeIdentity({entry.identity.device, entry.identity.inode, {}}, bytes);
  return Fingerprint(DigestAlgorithm::kBlake3, bytes);
}

}  // namespace

void LinkMarks::Add(BackupEntry& entry) { marks_[entry.tree.node.path] = MarkOf(entry); }

void LinkMarks::LinkIfTheSame(const std::string& path, BackupEntry& entry) const {
  const auto found = marks_.find(path);
  if (found == marks_.end() || found->second != MarkOf(entry)) return;
  entry.tree.node.hard_link_to = path;
  entry.tree.node.sparse = false;
  entry.tree.node.extents.clear();
  entry.tree.recipe.clear();
}

}  // namespace kerf::agent
