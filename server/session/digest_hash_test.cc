#include "server/session/digest_hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>

#include "kernels/fingerprint/digest.h"

namespace kerf {
namespace {

constexpr std::uint64_t kDigestCount = 1000;

// What a client makes who knows the constants of absl::Hash: one of them where the hash multiplies
// by what is there, and anything beside it.
std::size_t HashCountOf(std::uint64_t word, std::size_t place, std::size_t free_place) {
  std::set<std::size_t> hashes;
  for (std::uint64_t number = 0; number < kDigestCount; ++number) {
    Digest digest;
    std::memcpy(digest.bytes.data() + place, &word, sizeof word);
    std::memcpy(digest.bytes.data() + free_place, &number, sizeof number);
    hashes.insert(SeededDigestHash{}(digest));
  }
  return hashes.size();
}

TEST(DigestHashTest, DigestsThatAreChosenDoNotMeet) {
  for (const std::uint64_t word : {0x243F6A8885A308D3u, 0x13198A2E03707344u, 0xA4093822299F31D0u,
                                   0x082EFA98EC4E6C89u, 0x452821E638D01377u}) {
    for (const std::size_t place : {0u, 8u}) {
      EXPECT_EQ(HashCountOf(word, place, 8 - place), kDigestCount) << word << " at " << place;
    }
  }
}

}  // namespace
}  // namespace kerf
