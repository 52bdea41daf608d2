#include "client/agent/restore/restrictions.h"

#include <sys/stat.h>

#include <limits>

#include "client/store/snapshots/tree_salvage.h"

namespace kerf::agent {
namespace {

constexpr std::uint32_t kSetIdBits = S_ISUID | S_ISGID;

// What is too much for a number stays the largest one.
void Add(std::uint64_t bytes, std::uint64_t& sum) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  sum = bytes > kMost - sum ? kMost : sum + bytes;
}

}  // namespace

bool RemoveSetId(Node& node) {
  const bool has_set_id = (node.mode & kSetIdBits) != 0;
  node.mode &= ~kSetIdBits;
  const bool has_privilege = std::erase_if(node.xattrs, IsPrivilege) > 0;
  return has_set_id || has_privilege;
}

bool IsDevice(const Node& node) {
  return node.kind == NodeKind::kCharDevice || node.kind == NodeKind::kBlockDevice;
}

std::uint64_t WrittenBytes(const Node& node) {
  // Its attributes and content are the first name's.
  if (!node.hard_link_to.empty()) return 0;
  std::uint64_t sum = node.link_target.size();
  for (const Xattr& xattr : node.xattrs) Add(xattr.name.size() + xattr.value.size(), sum);
  if (node.kind != NodeKind::kFile) return sum;
  if (!node.sparse) Add(node.size_bytes, sum);
  for (const Extent& extent : node.extents) Add(node.sparse ? extent.length_bytes : 0, sum);
  return sum;
}

bool TakeBytes(std::uint64_t bytes, std::uint64_t& left_bytes) {
  if (bytes > left_bytes) {
    left_bytes = 0;
    return false;
  }
  left_bytes -= bytes;
  return true;
}

}  // namespace kerf::agent
