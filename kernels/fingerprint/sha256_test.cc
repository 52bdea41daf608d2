#include "kernels/fingerprint/sha256.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <vector>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

Digest Expected(Bytes bytes) {
  Digest digest;
  SHA256(bytes.data(), bytes.size(), digest.bytes.data());
  return digest;
}

void CheckAll(const std::vector<Bytes>& chunks) {
  for (const Sha256Backend& backend : Sha256Backends()) {
    std::vector<Digest> digests(chunks.size());
    backend.hash_many(chunks, digests);
    for (std::size_t index = 0; index < chunks.size(); ++index) {
      ASSERT_EQ(digests[index], Expected(chunks[index]))
          << backend.name << ", chunk " << index << " of " << chunks.size() << ", "
          << chunks[index].size() << " bytes";
    }
  }
}

TEST(Sha256, EveryLengthAndNumberOfChunks) {
  std::vector<std::uint8_t> bytes(1000);
  Random(TestSeed()).Fill(bytes);
  for (std::size_t size = 0; size <= 300; ++size) {
    for (std::size_t count = 0; count <= 9; ++count) {
      std::vector<Bytes> chunks;
      chunks.reserve(count);
      for (std::size_t index = 0; index < count; ++index) {
        chunks.push_back(Bytes(bytes).subspan(index * 7, size));
      }
      ASSERT_NO_FATAL_FAILURE(CheckAll(chunks));
    }
  }
}

TEST(Sha256, ChunksOfManySizesTogether) {
  Random random(TestSeed());
  std::vector<std::uint8_t> bytes(100'000);
  random.Fill(bytes);
  for (int round = 0; round < 300; ++round) {
    std::vector<Bytes> chunks(random.Below(20));
    for (Bytes& chunk : chunks) {
      const std::size_t size = random.Below(random.OneIn(3) ? 20'000 : 200);
      chunk = Bytes(bytes).subspan(random.Below(bytes.size() - size), size);
    }
    ASSERT_NO_FATAL_FAILURE(CheckAll(chunks));
  }
}

}  // namespace
}  // namespace kerf
