#include "kernels/fingerprint/digest.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <unordered_set>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/reference/blake3.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

Bytes AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string HexOf(DigestAlgorithm algorithm, std::string_view text) {
  return DigestToHex(Fingerprint(algorithm, AsBytes(text)), DigestSizeBytes(algorithm));
}

TEST(Digest, NamesAndSizes) {
  for (const DigestAlgorithm algorithm :
       {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
    EXPECT_EQ(ParseDigestAlgorithm(DigestAlgorithmName(algorithm)), algorithm);
  }
  EXPECT_EQ(DigestAlgorithmName(DigestAlgorithm::kXxh3_128), "xxh3-128");
  EXPECT_EQ(DigestSizeBytes(DigestAlgorithm::kXxh3_128), 16u);
  EXPECT_EQ(DigestSizeBytes(DigestAlgorithm::kBlake3), 32u);
  EXPECT_FALSE(ParseDigestAlgorithm("BLAKE3").has_value());
  EXPECT_FALSE(ParseDigestAlgorithm("").has_value());
}

TEST(Digest, HexIsOfTheFirstBytes) {
  Digest digest;
  digest.bytes[0] = 0x0a;
  digest.bytes[1] = 0xf0;
  EXPECT_EQ(DigestToHex(digest, 3), "0af000");
  EXPECT_EQ(DigestToHex(digest, 0), "");
}

// FIPS 180-2's examples.
TEST(Digest, Sha256IsTheStandards) {
  EXPECT_EQ(HexOf(DigestAlgorithm::kSha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf(DigestAlgorithm::kSha256, ""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// xxHash's own value of the empty input, seed 0.
TEST(Digest, Xxh3IsCanonical) {
  EXPECT_EQ(HexOf(DigestAlgorithm::kXxh3_128, ""), "99aa06d3014798d86001c324468d497f");
  const Digest digest = Fingerprint(DigestAlgorithm::kXxh3_128, AsBytes("abc"));
  for (std::size_t index = 16; index < 32; ++index) EXPECT_EQ(digest.bytes[index], 0);
}

Digest Expected(DigestAlgorithm algorithm, Bytes bytes) {
  Digest digest;
  if (algorithm == DigestAlgorithm::kBlake3) {
    digest.bytes = Blake3Reference(bytes);
  } else {
    EXPECT_EQ(
        EVP_Digest(bytes.data(), bytes.size(), digest.bytes.data(), nullptr, EVP_sha256(), nullptr),
        1);
  }
  return digest;
}

TEST(Digest, ManyIsEachOne) {
  Random random(TestSeed());
  std::vector<std::uint8_t> data(1 << 20);
  random.Fill(data);
  std::vector<Bytes> chunks;
  for (int count = 0; count < 200; ++count) {
    const std::size_t size = random.OneIn(4) ? random.Below(4) : random.Below(20000);
    chunks.push_back(Bytes(data).subspan(random.Below(data.size() - size), size));
  }
  for (const DigestAlgorithm algorithm :
       {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
    std::vector<Digest> digests(chunks.size());
    // What lies in the output before must not show through.
    for (Digest& digest : digests) digest.bytes.fill(0xEE);
    FingerprintMany(algorithm, chunks, digests);
    for (std::size_t index = 0; index < chunks.size(); ++index) {
      ASSERT_EQ(digests[index], Fingerprint(algorithm, chunks[index]));
      if (algorithm != DigestAlgorithm::kXxh3_128) {
        ASSERT_EQ(digests[index], Expected(algorithm, chunks[index])) << chunks[index].size();
      }
    }
    FingerprintMany(algorithm, {}, {});
  }
}

TEST(Digest, ValuesCompareAndHash) {
  std::unordered_set<Digest, DigestHash> seen;
  for (int value = 0; value < 100; ++value) {
    const std::uint8_t byte = static_cast<std::uint8_t>(value);
    EXPECT_TRUE(seen.insert(Fingerprint(DigestAlgorithm::kBlake3, {&byte, 1})).second);
  }
  EXPECT_LT(Digest{}, Digest{{1}});
}

}  // namespace
}  // namespace kerf
