// The numbering of leaves and nodes, and trees deeper than a test could have bytes for.
#include "kernels/cuda/kernel/blake3_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/launch/emulator.h"
#include "kernels/fingerprint/blake3_constants.h"
#include "kernels/fingerprint/blake3_lanes.h"

namespace kerf::cuda {
namespace {

std::vector<Chunk> RandomSizes(Random& random, std::size_t count) {
  std::vector<Chunk> chunks(count);
  for (Chunk& chunk : chunks) {
    chunk.size_bytes = static_cast<std::uint32_t>(random.Below(1 << random.Between(0, 18)));
  }
  return chunks;
}

std::vector<std::uint32_t> FirstLeaves(const std::vector<Chunk>& chunks) {
  std::vector<std::uint32_t> first_leaves = {0};
  for (const Chunk& chunk : chunks) {
    first_leaves.push_back(first_leaves.back() + std::max(1u, (chunk.size_bytes + 1023) / 1024));
  }
  return first_leaves;
}

// The same by the kernels.
class LeafSums {
 public:
  explicit LeafSums(const std::vector<Chunk>& chunks, const EmulatorOptions& options = {})
      : items_(chunks.size(), 0xAAAAAAAA), totals_(ScanTotalCount(chunks.size()), 0xAAAAAAAA) {
    const auto count = static_cast<std::uint32_t>(chunks.size());
    const ChunkLeaves::Args args{chunks.data(), &count, sums()};
    Emulate<ScanTiles<ChunkLeaves>>(args, options);
    Emulate<ScanTotals<ChunkLeaves>>(args, options);
  }

  // Lives as long as this does.
  PrefixSums sums() { return {items_.data(), totals_.data()}; }

 private:
  std::vector<std::uint32_t> items_;
  std::vector<std::uint32_t> totals_;
};

TEST(Blake3Tree, LeafCounts) {
  EXPECT_EQ(LeafCount(0), 1u);
  EXPECT_EQ(LeafCount(1), 1u);
  EXPECT_EQ(LeafCount(1024), 1u);
  EXPECT_EQ(LeafCount(1025), 2u);
  EXPECT_EQ(LeafCount(0x80000000), 0x200000u);
  EXPECT_EQ(NodeCount(9, 0), 9u);
  EXPECT_EQ(NodeCount(9, 1), 2u);
  EXPECT_EQ(NodeCount(9, 2), 1u);
  EXPECT_EQ(NodeCount(0x200000, 7), 1u);
}

// The place of every node of every level is its own, is found again, and is within the memory that
// is asked for.
TEST(Blake3Tree, NodesHavePlacesOfTheirOwn) {
  Random random(TestSeed());
  for (int round = 0; round < 50; ++round) {
    const std::vector<Chunk> chunks = RandomSizes(random, random.Between(1, 100));
    const auto count = static_cast<std::uint32_t>(chunks.size());
    const std::vector<std::uint32_t> first_leaves = FirstLeaves(chunks);
    LeafSums sums(chunks);
    std::size_t total_bytes = 0;
    for (const Chunk& chunk : chunks) total_bytes += chunk.size_bytes;
    const Blake3WorkspaceSize size(total_bytes, count);
    for (unsigned level = 0; level < 7; ++level) {
      std::uint32_t next_place = 0;
      for (std::uint32_t chunk = 0; chunk < count; ++chunk) {
        const std::uint32_t place = FirstNode(first_leaves[chunk], chunk, level);
        ASSERT_GE(place, next_place) << "chunk " << chunk << ", level " << level;
        next_place = place + NodeCount(first_leaves[chunk + 1] - first_leaves[chunk], level);
        ASSERT_EQ(ChunkOfNode(sums.sums(), count, place, level), chunk);
        ASSERT_EQ(ChunkOfNode(sums.sums(), count, next_place - 1, level), chunk);
      }
      ASSERT_LE(next_place, FirstNode(first_leaves[count], count, level));
      ASSERT_LE(FirstNode(first_leaves[count], count, level),
                level % 2 == 0 ? size.even_node_count : size.odd_node_count);
    }
  }
}

TEST(ChunkLeaves, AreTheSums) {
  Random random(TestSeed());
  for (const std::uint32_t count : {0u, 1u, 255u, 256u, 257u, 2049u, 9000u}) {
    const std::vector<Chunk> chunks = RandomSizes(random, count);
    const std::vector<std::uint32_t> wanted = FirstLeaves(chunks);
    LeafSums sums(chunks, {.block_count = 2, .order_seed = random.Next()});
    for (std::uint32_t chunk = 0; chunk <= count; ++chunk) {
      ASSERT_EQ(sums.sums().Before(chunk, count), wanted[chunk]) << count << ", " << chunk;
    }
  }
}

// As the paper has it: the left child is the largest power of two of leaves, less than all.
DigestWords Root(const DigestWords* leaves, std::size_t count, bool is_root) {
  if (count == 1) return leaves[0];
  std::size_t left_count = 1;
  while (2 * left_count < count) left_count *= 2;
  const DigestWords children[2] = {Root(leaves, left_count, false),
                                   Root(leaves + left_count, count - left_count, false)};
  std::uint8_t bytes[sizeof children];
  std::memcpy(bytes, children, sizeof children);
  DigestWords value;
  const blake3::NodeJob job = {
      bytes, sizeof bytes, 0, 0, blake3::kParent | (is_root ? blake3::kRoot : 0), 0, value.words};
  blake3::HashNodesScalar(&job, 1);
  return value;
}

// Up to seven passes, made from leaves that are no hashes of anything.
TEST(Blake3Parents, DeepTrees) {
  Random random(TestSeed());
  const std::vector<Chunk> chunks = {
      {0, 7 << 10}, {0, 1000}, {0, (1 << 28) + 1}, {0, (1 << 24) - 5}, {0, (1 << 15) + 1}};
  const auto count = static_cast<std::uint32_t>(chunks.size());
  const std::vector<std::uint32_t> first_leaves = FirstLeaves(chunks);
  std::size_t total_bytes = 0;
  for (const Chunk& chunk : chunks) total_bytes += chunk.size_bytes;
  const Blake3WorkspaceSize size(total_bytes, count);
  std::vector<DigestWords> leaves(size.even_node_count);
  for (DigestWords& leaf : leaves) {
    for (std::uint32_t& word : leaf.words) word = static_cast<std::uint32_t>(random.Next());
  }
  LeafSums sums(chunks);
  std::vector<DigestWords> even_nodes = leaves;
  std::vector<DigestWords> odd_nodes(size.odd_node_count);
  std::vector<DigestWords> digests(count);
  ASSERT_EQ(Blake3ParentPasses(chunks[2].size_bytes), 7u);
  for (unsigned level = 1; level <= 7; ++level) {
    const bool is_odd = level % 2 == 1;
    Emulate<Blake3Parents>(
        {&count, sums.sums(), level, is_odd ? even_nodes.data() : odd_nodes.data(),
         is_odd ? odd_nodes.data() : even_nodes.data(), digests.data()},
        {.block_count = 5});
  }
  for (std::uint32_t chunk = 0; chunk < count; ++chunk) {
    const std::uint32_t leaf_count = first_leaves[chunk + 1] - first_leaves[chunk];
    // The kernel of the leaves has that digest.
    if (leaf_count == 1) continue;
    const DigestWords expected = Root(&leaves[first_leaves[chunk]], leaf_count, true);
    EXPECT_EQ(std::memcmp(&digests[chunk], &expected, sizeof expected), 0) << leaf_count;
  }
}

}  // namespace
}  // namespace kerf::cuda
