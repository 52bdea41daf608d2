#include "kernels/fingerprint/blake3.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/fingerprint/blake3_constants.h"

namespace kerf {
namespace {

using blake3::kLeafBytes;
using blake3::NodeJob;

// Chaining values are handed from children to parents as they lie in memory; the hash is made of
// little-endian words.
static_assert(std::endian::native == std::endian::little);

// Enough leaves to fill the widest vector many times over, few enough that the chunks of a group
// are still in the second-level cache when their parents' turn comes.
constexpr std::size_t kGroupBytes = 1u << 20;

using ChainingValue = std::array<std::uint32_t, 8>;
static_assert(sizeof(ChainingValue) == blake3::kDigestBytes);

// Where a tree has the nodes of the level that is being hashed.
struct Level {
  std::size_t first_node;
  std::size_t node_count;
};

std::size_t LeafCount(std::size_t size_bytes) {
  return size_bytes == 0 ? 1 : (size_bytes + kLeafBytes - 1) / kLeafBytes;
}

// Several trees, hashed level by level.
class Group {
 public:
  Group(const Blake3Backend& backend, std::span<const std::span<const std::uint8_t>> chunks)
      : backend_(backend) {
    std::size_t leaf_count = 0;
    for (const auto& chunk : chunks) leaf_count += LeafCount(chunk.size());
    nodes_.resize(leaf_count);
    jobs_.reserve(leaf_count);
    levels_.reserve(chunks.size());
    HashLeaves(chunks);
    while (HashParents()) {
    }
  }

  // Of the chunk with this index.
  const ChainingValue& Root(std::size_t index) const { return nodes_[levels_[index].first_node]; }

 private:
  // Whole leaves first: lanes that began together stay together. Then the short ones.
  void HashLeaves(std::span<const std::span<const std::uint8_t>> chunks) {
    std::size_t node = 0;
    for (const auto& chunk : chunks) {
      const std::size_t leaf_count = LeafCount(chunk.size());
      levels_.push_back({node, leaf_count});
      for (std::size_t leaf = 0; leaf < chunk.size() / kLeafBytes; ++leaf) {
        AddLeaf(chunk, leaf, leaf_count, node);
      }
      node += leaf_count;
    }
    for (std::size_t index = 0; index < chunks.size(); ++index) {
      const auto& chunk = chunks[index];
      if (chunk.size() % kLeafBytes == 0 && !chunk.empty()) continue;
      const Level& level = levels_[index];
      AddLeaf(chunk, level.node_count - 1, level.node_count, level.first_node);
    }
    Run();
  }

  void AddLeaf(std::span<const std::uint8_t> chunk, std::size_t leaf, std::size_t leaf_count,
               std::size_t first_node) {
    const std::size_t start = leaf * kLeafBytes;
    jobs_.push_back(
        {.bytes = chunk.data() + start,
         .size_bytes = static_cast<std::uint32_t>(std::min(kLeafBytes, chunk.size() - start)),
         .first_flags = blake3::kLeafStart,
         .last_flags = blake3::kLeafEnd | (leaf_count == 1 ? blake3::kRoot : 0),
         .flags = 0,
         .counter = leaf,
         .chaining_value = nodes_[first_node + leaf].data()});
  }

  // One level of every tree that has more than one node; false when there is none. Neighbours
  // become one node and an odd last one rises as it is, which gives the tree of the paper: the left
  // side of every parent is a whole power of two.
  bool HashParents() {
    parents_.clear();
    parents_.resize(nodes_.size() / 2 + levels_.size());
    std::size_t next = 0;
    for (Level& level : levels_) {
      const std::size_t pairs = level.node_count / 2;
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        jobs_.push_back({.bytes = reinterpret_cast<const std::uint8_t*>(
                             nodes_[level.first_node + 2 * pair].data()),
                         .size_bytes = blake3::kBlockBytes,
                         .first_flags = 0,
                         .last_flags = level.node_count == 2 ? blake3::kRoot : 0,
                         .flags = blake3::kParent,
                         .counter = 0,
                         .chaining_value = parents_[next + pair].data()});
      }
      if (level.node_count % 2 != 0) {
        parents_[next + pairs] = nodes_[level.first_node + level.node_count - 1];
      }
      level = {next, pairs + level.node_count % 2};
      next += level.node_count;
    }
    if (jobs_.empty()) return false;
    Run();
    parents_.resize(next);
    nodes_.swap(parents_);
    return true;
  }

  void Run() {
    backend_.hash_nodes(jobs_.data(), jobs_.size());
    jobs_.clear();
  }

  const Blake3Backend& backend_;
  std::vector<ChainingValue> nodes_;
  std::vector<ChainingValue> parents_;
  std::vector<NodeJob> jobs_;
  std::vector<Level> levels_;
};

std::vector<Blake3Backend> FindBackends() {
  std::vector<Blake3Backend> backends;
#if defined(__x86_64__)
  // These also ask whether the system saves the registers.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    backends.push_back({"avx512", blake3::HashNodesAvx512});
  }
  if (__builtin_cpu_supports("avx2")) backends.push_back({"avx2", blake3::HashNodesAvx2});
#endif
  backends.push_back({"vector128", blake3::HashNodesVector128});
  backends.push_back({"scalar", blake3::HashNodesScalar});
  return backends;
}

}  // namespace

std::span<const Blake3Backend> Blake3Backends() {
  static const std::vector<Blake3Backend> backends = FindBackends();
  return backends;
}

void Blake3Many(const Blake3Backend& backend, std::span<const std::span<const std::uint8_t>> chunks,
                std::span<Digest> digests) {
  KERF_CHECK(chunks.size() == digests.size());
  std::size_t first = 0;
  while (first < chunks.size()) {
    std::size_t end = first;
    std::size_t group_bytes = 0;
    // An empty chunk is a leaf too.
    while (end < chunks.size() && group_bytes < kGroupBytes) {
      group_bytes += std::max(chunks[end++].size(), kLeafBytes);
    }
    const Group group(backend, chunks.subspan(first, end - first));
    for (std::size_t index = first; index < end; ++index) {
      std::memcpy(digests[index].bytes.data(), group.Root(index - first).data(),
                  blake3::kDigestBytes);
    }
    first = end;
  }
}

}  // namespace kerf
