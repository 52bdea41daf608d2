#include "kernels/fingerprint/xxh3.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

// By the library as it is installed, not by the code under test.
Xxh3Digest Expected(Bytes bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  Xxh3Digest digest;
  std::memcpy(digest.data(), canonical.digest, digest.size());
  return digest;
}

std::vector<std::uint8_t> RandomBytes(Random& random, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  random.Fill(bytes);
  return bytes;
}

TEST(Xxh3, EveryTargetGivesTheLibrarysHash) {
  Random random(TestSeed());
  const std::vector<std::uint8_t> bytes = RandomBytes(random, 20'000);
  for (const xxh3::Target* target : Xxh3Targets()) {
    for (std::size_t size = 0; size <= bytes.size(); size += size < 2'100 ? 1 : 997) {
      const std::size_t begin = random.Below(std::min<std::size_t>(64, bytes.size() - size + 1));
      const Bytes part = Bytes(bytes).subspan(begin, size);
      Xxh3Digest digest;
      target->hash_128(part.data(), part.size(), digest.data());
      ASSERT_EQ(digest, Expected(part)) << target->name << " " << size;
      ASSERT_EQ(target->hash_64(part.data(), part.size()), XXH3_64bits(part.data(), part.size()))
          << target->name << " " << size;
    }
  }
}

TEST(Xxh3, EveryTargetTakesPieces) {
  Random random(TestSeed());
  for (const xxh3::Target* target : Xxh3Targets()) {
    const auto state = std::make_unique<xxh3::State>();
    for (int round = 0; round < 50; ++round) {
      const std::vector<std::uint8_t> bytes = RandomBytes(random, random.Below(10'000));
      target->reset(state.get());
      for (Bytes rest(bytes); !rest.empty();) {
        const std::size_t count = std::min<std::size_t>(rest.size(), random.Below(3'000));
        target->update(state.get(), rest.data(), count);
        rest = rest.subspan(count);
      }
      Xxh3Digest digest;
      target->digest(state.get(), digest.data());
      ASSERT_EQ(digest, Expected(bytes)) << target->name;
    }
  }
}

TEST(Xxh3, AStreamBeginsAnew) {
  const std::vector<std::uint8_t> bytes(1000, 'x');
  Xxh3Stream stream;
  EXPECT_EQ(stream.Digest(), Expected({}));
  stream.Update(bytes);
  EXPECT_EQ(stream.Digest(), Expected(bytes));
  EXPECT_EQ(stream.Digest(), Xxh3Of128(bytes));
  stream.Reset();
  EXPECT_EQ(stream.Digest(), Expected({}));
  EXPECT_EQ(Xxh3Of64(bytes), XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace
}  // namespace kerf
