// The kernels of BLAKE3 and SHA-256 with a thread of the system for each of a block: under the
// thread sanitizer a barrier that is missing is a race.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/kernel/fingerprint_emulation.h"
#include "kernels/cuda/kernel/sha256_batch.h"
#include "kernels/cuda/launch/emulator.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::cuda {
namespace {

constexpr EmulatorOptions kRealThreads = {.block_count = 1, .has_real_threads = true};

void CheckFewChunks(DigestAlgorithm algorithm, int count, std::uint32_t max_size_bytes) {
  Random random(TestSeed());
  std::vector<std::uint8_t> bytes(20 << 10);
  random.Fill(bytes);
  std::vector<Chunk> chunks = {{5, max_size_bytes - 5}, {0, 0}};
  for (; count > 0; --count) {
    const auto size = static_cast<std::uint32_t>(random.Below(max_size_bytes / 7));
    chunks.push_back({static_cast<std::uint32_t>(random.Below(bytes.size() - size)), size});
  }
  const std::vector<Digest> digests =
      EmulateFingerprints(algorithm, bytes, chunks, 0xAA, kRealThreads);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    const auto chunk = std::span(bytes).subspan(chunks[index].offset, chunks[index].size_bytes);
    EXPECT_EQ(digests[index], Fingerprint(algorithm, chunk));
  }
}

TEST(FingerprintThreads, Blake3) { CheckFewChunks(DigestAlgorithm::kBlake3, 8, 20 << 10); }

TEST(FingerprintThreads, Sha256) { CheckFewChunks(DigestAlgorithm::kSha256, 8, 20 << 10); }

// One block goes through all groups.
TEST(FingerprintThreads, Sha256OfSeveralGroups) {
  CheckFewChunks(DigestAlgorithm::kSha256, 2 * kSha256Lanes + 5, 2000);
}

// The kernels that count, with more chunks than a tile has.
TEST(FingerprintThreads, SeveralTilesOfChunks) {
  Random random(TestSeed());
  std::vector<Chunk> chunks(2 * kOrderTileChunks + 100);
  for (Chunk& chunk : chunks) chunk.size_bytes = static_cast<std::uint32_t>(random.Below(9000));
  const auto chunk_count = static_cast<std::uint32_t>(chunks.size());

  std::vector<std::uint32_t> items(chunks.size());
  std::vector<std::uint32_t> totals(ScanTotalCount(chunks.size()));
  const PrefixSums first_leaves{items.data(), totals.data()};
  const ChunkLeaves::Args args{chunks.data(), &chunk_count, first_leaves};
  Emulate<ScanTiles<ChunkLeaves>>(args, kRealThreads);
  Emulate<ScanTotals<ChunkLeaves>>(args, kRealThreads);
  for (std::uint32_t index = 0; index < chunk_count; ++index) {
    ASSERT_EQ(first_leaves.Before(index + 1, chunk_count),
              first_leaves.Before(index, chunk_count) + LeafCount(chunks[index].size_bytes));
  }

  std::vector<std::uint32_t> counts(OrderCountCount(chunks.size()));
  std::vector<std::uint32_t> order(chunks.size());
  Emulate<OrderCounts>({chunks.data(), &chunk_count, counts.data()}, kRealThreads);
  std::uint32_t next_group = 0xAAAAAAAA;
  Emulate<OrderPlaces>({chunks.data(), &chunk_count, counts.data(), order.data(), &next_group},
                       kRealThreads);
  for (std::size_t place = 1; place < order.size(); ++place) {
    ASSERT_LE(OrderClass(Sha256BlockCount(chunks[order[place - 1]].size_bytes)),
              OrderClass(Sha256BlockCount(chunks[order[place]].size_bytes)));
  }
}

}  // namespace
}  // namespace kerf::cuda
