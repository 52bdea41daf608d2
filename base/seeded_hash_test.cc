#include "base/seeded_hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "xxhash.h"

namespace kerf {
namespace {

constexpr std::uint64_t kKeyCount = 100;

std::string BytesOf(std::uint64_t number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// Keys of one length: the word at `place`, a number that differs in front of it or behind it, and
// zeros.
std::set<std::string> KeysAround(std::uint64_t word, std::size_t place, std::size_t size_bytes) {
  std::set<std::string> keys;
  for (std::uint64_t number = 1; number <= kKeyCount; ++number) {
    std::string key(size_bytes, '\0');
    key.replace(place, sizeof word, BytesOf(word));
    const bool is_behind = place + 2 * sizeof word <= size_bytes;
    key.replace(is_behind ? place + sizeof word : place - sizeof word, sizeof number,
                BytesOf(number));
    keys.insert(key);
  }
  return keys;
}

template <typename Hash>
std::size_t HashCount(const std::set<std::string>& keys, const Hash& hash) {
  std::set<std::uint64_t> hashes;
  for (const std::string& key : keys) hashes.insert(hash(key));
  return hashes.size();
}

TEST(SeededHashTest, IsOfTheBytes) {
  const std::string key = "a key of some bytes";
  EXPECT_EQ(SeededHash(key), SeededHash("a key of some bytes"));
  EXPECT_NE(SeededHash(key), SeededHash(key + '\0'));
  EXPECT_EQ(SeededHash(""), SeededHash(std::string()));
  // It would be if the secret were that which everybody knows.
  EXPECT_NE(SeededHash(key), XXH3_64bits(key.data(), key.size()));
}

// Constants of hashes in public libraries: of XXH3's own secret, which keys are combined with by an
// exclusive or, and of absl's.
TEST(SeededHashTest, KeysThatMeetElsewhereDoNotMeet) {
  constexpr std::uint64_t kWords[] = {0xBE4BA423396CFEB8u, 0x1CAD21F72C81017Cu, 0xDB979083E96DD4DEu,
                                      0x243F6A8885A308D3u, 0x13198A2E03707344u, 0xA4093822299F31D0u,
                                      0x082EFA98EC4E6C89u, 0x452821E638D01377u, 0u};
  for (const std::uint64_t word : kWords) {
    for (const std::size_t size_bytes : {16u, 32u, 41u, 99u, 140u}) {
      for (std::size_t place = 0; place + 8 <= size_bytes; ++place) {
        if (place < 8 && place + 16 > size_bytes) continue;
        ASSERT_EQ(HashCount(KeysAround(word, place, size_bytes), SeededHash), kKeyCount)
            << word << " at " << place << " of " << size_bytes;
      }
    }
  }
}

// What the test above looks for is there to be found.
TEST(SeededHashTest, KeysThatMeetAreThere) {
  const auto known = [](const std::string& key) { return XXH3_64bits(key.data(), key.size()); };
  EXPECT_EQ(HashCount(KeysAround(0xBE4BA423396CFEB8u, 0, 32), known), 1u);
}

}  // namespace
}  // namespace kerf
