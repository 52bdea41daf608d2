// The kernels of BLAKE3 and SHA-256, in the emulator, against outside vectors and the digests of
// the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/chunker.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/fingerprint_emulation.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes RandomBytes(Random& random, std::size_t size_bytes) {
  Bytes bytes(size_bytes);
  random.Fill(bytes);
  return bytes;
}

// Anywhere in the buffer, overlapping; a size below a random power of two up to `max_size_log2`.
std::vector<Chunk> RandomChunks(Random& random, const Bytes& bytes, std::size_t count,
                                unsigned max_size_log2) {
  std::vector<Chunk> chunks(count);
  for (Chunk& chunk : chunks) {
    const std::uint64_t bound = std::uint64_t{1} << random.Between(0, max_size_log2);
    const std::uint64_t size = std::min<std::uint64_t>(random.Below(bound + 1), bytes.size());
    // Those at both ends of the buffer have guards beside them.
    std::uint64_t offset = random.Below(bytes.size() - size + 1);
    if (random.OneIn(8)) offset = bytes.size() - size;
    if (random.OneIn(8)) offset = 0;
    chunk = {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)};
  }
  return chunks;
}

class Fingerprints : public ::testing::TestWithParam<DigestAlgorithm> {
 protected:
  void Check(const Bytes& bytes, const std::vector<Chunk>& chunks,
             const EmulatorOptions& options) const {
    std::vector<std::span<const std::uint8_t>> spans;
    spans.reserve(chunks.size());
    for (const Chunk& chunk : chunks) {
      spans.push_back(std::span(bytes).subspan(chunk.offset, chunk.size_bytes));
    }
    std::vector<Digest> expected(chunks.size());
    FingerprintMany(GetParam(), spans, expected);
    const auto garbage = static_cast<std::uint8_t>(TestSeed());
    const std::vector<Digest> digests =
        EmulateFingerprints(GetParam(), bytes, chunks, garbage, options);
    for (std::size_t index = 0; index < chunks.size(); ++index) {
      ASSERT_EQ(digests[index], expected[index])
          << "chunk " << index << " of " << chunks.size() << ": " << chunks[index].size_bytes
          << " bytes at " << chunks[index].offset << " of " << bytes.size();
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Algorithms, Fingerprints,
                         ::testing::Values(DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256),
                         [](const auto& test) {
                           return std::string(DigestAlgorithmName(test.param));
                         });

TEST_P(Fingerprints, NoChunks) { Check(Bytes(64), {}, {}); }

TEST_P(Fingerprints, EmptyChunksReadNothing) {
  Check({}, {{0, 0}}, {});
  Check(Bytes(64), {{64, 0}, {0, 0}, {63, 0}}, {});
}

// Around the ends of blocks, paddings and leaves, at each place within a vector of 16 bytes; the
// last one ends with the buffer.
TEST_P(Fingerprints, EdgesOfSizesAtEveryAlignment) {
  Random random(TestSeed());
  const Bytes bytes = RandomBytes(random, 5 << 10);
  std::vector<Chunk> chunks;
  for (const std::uint32_t size :
       {0,   1,   2,   3,   4,    5,    15,   16,   17,   31,   32,   33,   47,   48,   49,  54,
        55,  56,  57,  59,  60,   61,   62,   63,   64,   65,   66,   111,  118,  119,  120, 121,
        127, 128, 129, 191, 1023, 1024, 1025, 1087, 1088, 2047, 2048, 2049, 3072, 3073, 4097}) {
    for (std::uint32_t alignment = 0; alignment < 16; ++alignment) {
      chunks.push_back({alignment, size});
      chunks.push_back({static_cast<std::uint32_t>(bytes.size()) - size - alignment, size});
    }
  }
  Check(bytes, chunks, {.block_count = 7, .order_seed = TestSeed()});
}

TEST_P(Fingerprints, RandomBatchesInEveryOrder) {
  Random random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    const Bytes bytes = RandomBytes(random, 16 * random.Between(1, 4 << random.Between(0, 12)));
    const std::vector<Chunk> chunks =
        RandomChunks(random, bytes, random.Below(60), random.Between(4, 18));
    EmulatorOptions options = {.block_count = static_cast<unsigned>(random.Between(1, 9))};
    if (random.OneIn(2)) options.order_seed = random.Next();
    ASSERT_NO_FATAL_FAILURE(Check(bytes, chunks, options)) << "round " << round;
  }
}

// More than fit the tiles of the kernels that count, and just as many.
TEST_P(Fingerprints, ThousandsOfChunks) {
  Random random(TestSeed());
  const Bytes bytes = RandomBytes(random, 1 << 17);
  for (const std::size_t count : {2047, 2048, 2049, 4096, 5000}) {
    ASSERT_NO_FATAL_FAILURE(Check(bytes, RandomChunks(random, bytes, count, 12),
                                  {.block_count = 3, .order_seed = random.Next()}));
  }
}

// Trees of up to four passes of parents beside chunks of one leaf.
TEST_P(Fingerprints, LargeChunksBesideSmallOnes) {
  Random random(TestSeed());
  const Bytes bytes = RandomBytes(random, (1 << 20) + 4096);
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::vector<Chunk> chunks = RandomChunks(random, bytes, 50, 10);
  for (const std::uint32_t large :
       {8u << 10, (8u << 10) + 1, 64u << 10, (64u << 10) + 1, 512u << 10, (512u << 10) + 1,
        (1u << 20) - 1, 1u << 20, (1u << 20) + 1025}) {
    chunks.insert(chunks.begin() + static_cast<std::ptrdiff_t>(random.Below(chunks.size())),
                  {static_cast<std::uint32_t>(random.Below(size - large + 1)), large});
  }
  Check(bytes, chunks, {.block_count = 4, .order_seed = random.Next()});
}

// Chunks of the repository's golden vectors (proto/kerf/v1/vectors/chunking.json), of every
// eleventh case: of all profiles and inputs some. A case has one digest over all of its chunks'
// digests.
TEST_P(Fingerprints, GoldenVectors) {
  std::ifstream file("proto/kerf/v1/vectors/chunking.json");
  const nlohmann::json vectors = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(vectors.is_object());
  const auto& cases = vectors["cases"];
  ASSERT_GT(cases.size(), 100u);
  for (std::size_t index = 0; index < cases.size(); index += 11) {
    const auto& golden = cases[index];
    const auto& input = golden["input"];
    Bytes bytes = MakeInput(input["kind"].get<std::string>(), input["seed"].get<std::uint64_t>(),
                            input["length"].get<std::size_t>());
    const auto profile = ParseProfile(golden["profile"].get<std::string>());
    ASSERT_TRUE(profile.ok());
    const std::unique_ptr<Chunker> chunker = MakeChunker(*profile);
    std::vector<Chunk> chunks;
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t size = chunker->NextCut(std::span(bytes).subspan(begin));
      chunks.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size)});
      begin += size;
    }
    ASSERT_EQ(chunks.size(), golden["chunk_count"].get<std::size_t>());
    bytes.resize((bytes.size() + 63) / 64 * 64);
    Bytes all;
    for (const Digest& digest : EmulateFingerprints(GetParam(), bytes, chunks, 0xAA, {})) {
      all.insert(all.end(), digest.bytes.begin(), digest.bytes.end());
    }
    EXPECT_EQ(DigestToHex(Fingerprint(DigestAlgorithm::kSha256, all), 16),
              golden["digests"][std::string(DigestAlgorithmName(GetParam()))].get<std::string>())
        << golden.dump();
  }
}

// The official lengths; the digests come from outside (proto/kerf/v1/vectors/blake3.json). Their
// bytes count from 0 to 250 again and again, so that each begins at many places of one buffer.
TEST(Blake3Kernels, OfficialVectors) {
  std::ifstream file("proto/kerf/v1/vectors/blake3.json");
  const nlohmann::json vectors = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(vectors.is_object());
  Bytes bytes(128 << 10);
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    bytes[index] = static_cast<std::uint8_t>(index % 251);
  }
  std::vector<Chunk> chunks;
  std::vector<std::string> expected;
  for (const auto& vector : vectors["cases"]) {
    const auto index = static_cast<std::uint32_t>(chunks.size());
    chunks.push_back({251 * index, vector["length"].get<std::uint32_t>()});
    expected.push_back(vector["digest"].get<std::string>());
  }
  ASSERT_EQ(chunks.size(), 35u);
  const std::vector<Digest> digests =
      EmulateFingerprints(DigestAlgorithm::kBlake3, bytes, chunks, 0xAA, {});
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    EXPECT_EQ(DigestToHex(digests[index], 32), expected[index]) << chunks[index].size_bytes;
  }
}

// FIPS 180-2's examples.
TEST(Sha256Kernels, StandardsExamples) {
  const std::string text =
      "....abc.........abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  Bytes bytes(text.begin(), text.end());
  bytes.resize(128);
  const std::vector<Digest> digests =
      EmulateFingerprints(DigestAlgorithm::kSha256, bytes, {{4, 3}, {16, 56}, {128, 0}}, 0xAA, {});
  EXPECT_EQ(DigestToHex(digests[0], 32),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(DigestToHex(digests[1], 32),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(DigestToHex(digests[2], 32),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace kerf::cuda
