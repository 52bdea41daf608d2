#include "kernels/fingerprint/blake3.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/fingerprint/blake3_constants.h"
#include "kernels/reference/blake3.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

Digest ReferenceOf(Bytes bytes) { return Digest{Blake3Reference(bytes)}; }

class Blake3 : public ::testing::TestWithParam<Blake3Backend> {
 protected:
  Digest HashOne(Bytes bytes) const {
    Digest digest;
    Blake3Many(GetParam(), {&bytes, 1}, {&digest, 1});
    return digest;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Blake3, ::testing::ValuesIn(Blake3Backends()),
                         [](const auto& test) { return std::string(test.param.name); });

// The official lengths; the digests come from outside (proto/kerf/v1/vectors/blake3.json).
TEST_P(Blake3, OfficialVectors) {
  std::ifstream file("proto/kerf/v1/vectors/blake3.json");
  const nlohmann::json vectors = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(vectors.is_object());
  std::size_t count = 0;
  for (const auto& vector : vectors["cases"]) {
    std::vector<std::uint8_t> input(vector["length"].get<std::size_t>());
    for (std::size_t index = 0; index < input.size(); ++index) {
      input[index] = static_cast<std::uint8_t>(index % 251);
    }
    const std::string expected = vector["digest"].get<std::string>();
    EXPECT_EQ(DigestToHex(ReferenceOf(input), 32), expected) << input.size();
    EXPECT_EQ(DigestToHex(HashOne(input), 32), expected) << input.size();
    ++count;
  }
  EXPECT_EQ(count, 35u);
}

TEST_P(Blake3, EveryShortLengthIsTheReferences) {
  constexpr std::size_t kLongest = 4096;
  Random random(TestSeed());
  std::vector<std::uint8_t> data(kLongest + 8);
  random.Fill(data);
  std::vector<Bytes> chunks;
  std::vector<Digest> expected;
  for (std::size_t size = 0; size <= kLongest; ++size) {
    // Every alignment.
    chunks.push_back(Bytes(data).subspan(size % 8, size));
    expected.push_back(ReferenceOf(chunks.back()));
    if (size % 16 < 2 || size % 1024 > 1000) {
      ASSERT_EQ(HashOne(chunks.back()), expected.back()) << size;
    }
  }
  std::vector<Digest> digests(chunks.size());
  Blake3Many(GetParam(), chunks, digests);
  for (std::size_t size = 0; size <= kLongest; ++size) ASSERT_EQ(digests[size], expected[size]);
}

TEST_P(Blake3, RandomBatchesAreTheReferences) {
  Random random(TestSeed());
  std::vector<std::uint8_t> data(1 << 20);
  random.Fill(data);
  for (int round = 0; round < 20; ++round) {
    std::vector<Bytes> chunks(random.Between(1, 40));
    for (Bytes& chunk : chunks) {
      const std::size_t size = random.Below(std::size_t{1} << random.Between(0, 17));
      chunk = Bytes(data).subspan(random.Below(data.size() - size + 1), size);
    }
    std::vector<Digest> digests(chunks.size());
    Blake3Many(GetParam(), chunks, digests);
    for (std::size_t index = 0; index < chunks.size(); ++index) {
      ASSERT_EQ(digests[index], ReferenceOf(chunks[index]))
          << chunks[index].size() << " bytes, " << index << " of " << chunks.size();
    }
  }
}

// Longer than a group of chunks, and a whole number of leaves more or less one byte.
TEST_P(Blake3, LargeChunks) {
  Random random(TestSeed());
  std::vector<std::uint8_t> data((3 << 20) + 1);
  random.Fill(data);
  for (const std::size_t size : {(3 << 20) + 1, 3 << 20, (2 << 20) - 1, 1 << 20}) {
    const Bytes chunk = Bytes(data).first(size);
    EXPECT_EQ(HashOne(chunk), ReferenceOf(chunk)) << size;
  }
  // A group ends in the middle of the list.
  const std::vector<Bytes> chunks = {Bytes(data).first(1 << 20), Bytes(data).first(100),
                                     Bytes(data).first((1 << 20) + 1), Bytes(data).first(0)};
  std::vector<Digest> digests(chunks.size());
  Blake3Many(GetParam(), chunks, digests);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    EXPECT_EQ(digests[index], ReferenceOf(chunks[index]));
  }
}

// Lanes in one or more groups, some without a job from the beginning or towards the end, nodes of
// all sizes beside each other.
TEST_P(Blake3, EveryCountOfNodesIsTheScalars) {
  using Values = std::vector<std::array<std::uint32_t, 8>>;
  constexpr std::size_t kMostNodes = 100;
  Random random(TestSeed());
  std::vector<std::uint8_t> data(8 * blake3::kLeafBytes);
  random.Fill(data);
  std::vector<blake3::NodeJob> jobs(kMostNodes);
  for (blake3::NodeJob& job : jobs) {
    const std::size_t most = random.Below(2) == 0 ? blake3::kLeafBytes : 3 * blake3::kBlockBytes;
    const std::size_t size = random.Below(3) == 0 ? most : random.Below(most + 1);
    job = {data.data() + random.Below(data.size() - size + 1),
           static_cast<std::uint32_t>(size),
           blake3::kLeafStart,
           blake3::kLeafEnd,
           0,
           random.Next(),
           nullptr};
  }
  const auto hash = [&](std::size_t count, const Blake3Backend& backend) {
    Values values(count);
    for (std::size_t index = 0; index < count; ++index) {
      jobs[index].chaining_value = values[index].data();
    }
    backend.hash_nodes(jobs.data(), count);
    return values;
  };
  const Values wanted = hash(kMostNodes, Blake3Backends().back());
  for (std::size_t count = 1; count <= kMostNodes; ++count) {
    const Values values = hash(count, GetParam());
    for (std::size_t index = 0; index < count; ++index) {
      ASSERT_EQ(values[index], wanted[index]) << index << " of " << count;
    }
  }
}

// A tree of 2^32 leaves takes 4 TiB: the upper half of the counter is tried on a leaf alone.
TEST_P(Blake3, CounterHas64Bits) {
  const std::vector<std::uint8_t> leaf(blake3::kLeafBytes, 7);
  const auto hash = [&](std::uint64_t counter, const Blake3Backend& backend) {
    // More than one, so that the lanes are used.
    std::vector<std::array<std::uint32_t, 8>> values(20);
    std::vector<blake3::NodeJob> jobs;
    jobs.reserve(values.size());
    for (auto& value : values) {
      jobs.push_back({leaf.data(), blake3::kLeafBytes, blake3::kLeafStart, blake3::kLeafEnd, 0,
                      counter, value.data()});
    }
    backend.hash_nodes(jobs.data(), jobs.size());
    for (const auto& value : values) EXPECT_EQ(value, values[0]);
    return values[0];
  };
  const std::uint64_t high = (std::uint64_t{5} << 32) + 9;
  EXPECT_EQ(hash(high, GetParam()), hash(high, Blake3Backends().back()));
  EXPECT_NE(hash(high, GetParam()), hash(9, GetParam()));
}

}  // namespace
}  // namespace kerf
