#include "client/store/format/store_costs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "client/store/format/pack_format.h"
#include "client/store/format/tree_codec.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kMany = 1'000;
constexpr std::size_t kDigestBytes = 32;

// Footer and trailer of so many chunks in so many blocks.
double EndBytes(std::size_t block_count, std::size_t chunk_count) {
  PackFooter footer;
  footer.blocks.resize(block_count, {kPackHeaderBytes, 100, 100, true});
  footer.chunks.resize(chunk_count, {Digest(), 0, 0, 1});
  return static_cast<double>(EncodePackEnd(footer, 1'000'000).size());
}

TEST(StoreCostsTest, OfAFooter) {
  EXPECT_EQ((EndBytes(1, 1 + kMany) - EndBytes(1, 1)) / kMany, store_costs::kFooterBytesPerChunk);
  EXPECT_EQ((EndBytes(1 + kMany, 1) - EndBytes(1, 1)) / kMany, store_costs::kFooterBytesPerBlock);
}

double RecipeBytes(std::uint32_t length_bytes) {
  ChunkRef chunk;
  Random(1).Fill(chunk.digest.bytes);
  chunk.length_bytes = length_bytes;
  std::vector<std::uint8_t> bytes;
  EncodeChunkRef(chunk, kDigestBytes, bytes);
  return static_cast<double>(bytes.size());
}

TEST(StoreCostsTest, OfARecipe) {
  EXPECT_EQ(RecipeBytes(8'192), store_costs::kRecipeBytesPerChunk);
  EXPECT_EQ(RecipeBytes(16'383), store_costs::kRecipeBytesPerChunk);
  EXPECT_EQ(RecipeBytes(16'384), store_costs::kRecipeBytesPerChunk + 1);
}

}  // namespace
}  // namespace kerf::agent
