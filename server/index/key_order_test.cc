#include "server/index/key_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

std::vector<std::string> Sorted(const std::vector<std::string>& texts) {
  std::vector<OwnedKey<std::string>> keys;
  keys.reserve(texts.size());
  for (const std::string& text : texts) keys.push_back({&text});
  SortByKey(keys, [](const std::string& text) { return std::string_view(text); });
  std::vector<std::string> sorted;
  sorted.reserve(keys.size());
  for (const auto& key : keys) sorted.push_back(*key.owner);
  return sorted;
}

void ExpectSorted(const std::vector<std::string>& texts) {
  std::vector<std::string> expected = texts;
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(Sorted(texts), expected);
}

std::string RandomText(Random& random, std::size_t size_bytes, std::uint64_t byte_count) {
  std::string text(size_bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(255 - random.Below(byte_count));
  return text;
}

TEST(KeyOrderTest, SmallSets) {
  ExpectSorted({});
  ExpectSorted({""});
  ExpectSorted({"b", "a"});
  ExpectSorted({"", "a", ""});
}

// A byte beyond 127 is behind one below.
TEST(KeyOrderTest, BytesAreUnsigned) {
  ExpectSorted({"\xFF", "a", "\x80", "\x7F"});
  ExpectSorted({"aaaaaaa\xFF", "aaaaaaa\x01", "aaaaaaa\x80"});
}

TEST(KeyOrderTest, AShorterKeyIsBeforeItsZeros) {
  std::vector<std::string> texts;
  for (const std::size_t begin : {0u, 7u, 8u, 9u, 16u}) {
    for (std::size_t zeros = 20; zeros > 0; --zeros) {
      texts.push_back(std::string(begin, 'x') + std::string(zeros - 1, '\0'));
      texts.push_back(std::string(begin, 'x') + std::string(zeros - 1, '\0') + "\x01");
    }
  }
  ExpectSorted(texts);
}

TEST(KeyOrderTest, DigestsOfSomeRepositories) {
  Random random(TestSeed());
  std::vector<std::string> texts;
  texts.reserve(20'050);
  for (int index = 0; index < 20'000; ++index) {
    texts.push_back(Cat("E", random.OneIn(10) ? "videos" : "photos", RandomText(random, 32, 256)));
  }
  for (int index = 0; index < 50; ++index) texts.push_back(Cat("C", index));
  ExpectSorted(texts);
}

// So that they differ late, often, and at any place; with keys that are equal.
TEST(KeyOrderTest, KeysOfFewBytes) {
  Random random(TestSeed());
  for (int round = 0; round < 30; ++round) {
    const std::uint64_t byte_count = random.Between(1, 4);
    const std::size_t max_bytes = random.Between(1, 40);
    std::vector<std::string> texts;
    texts.reserve(5000);
    for (int index = 0; index < 5000; ++index) {
      texts.push_back(RandomText(random, random.Below(max_bytes + 1), byte_count));
    }
    ExpectSorted(texts);
  }
}

// All in one portion but for one, in any byte of a part.
TEST(KeyOrderTest, PortionsOfAnyByte) {
  Random random(TestSeed());
  for (std::size_t differing = 0; differing < 24; ++differing) {
    std::vector<std::string> texts;
    for (int index = 0; index < 10'000; ++index) {
      std::string text(24, 'k');
      text[differing] = static_cast<char>(random.Below(256));
      text[23] = static_cast<char>(random.Below(256));
      texts.push_back(text);
    }
    ExpectSorted(texts);
  }
}

// Whoever chooses digests chooses how far they are alike: no key is looked at more often than twice
// for each eight bytes that it has.
TEST(KeyOrderTest, KeysThatBeginAlikeTakeNoLonger) {
  constexpr std::size_t kCount = 20'000;
  constexpr std::size_t kSizeBytes = 48;
  constexpr std::size_t kPartCount = kSizeBytes / 8;
  Random random(TestSeed());
  for (const bool is_in_steps : {false, true}) {
    std::vector<std::string> texts;
    for (std::size_t index = 0; index < kCount; ++index) {
      std::string text = RandomText(random, kSizeBytes, 256);
      // All alike but in the last part; or half of them in the first one, a quarter in two, ...
      std::size_t alike_count = is_in_steps ? 0 : kPartCount - 1;
      while (is_in_steps && alike_count + 1 < kPartCount && random.OneIn(2)) ++alike_count;
      text.replace(0, 8 * alike_count, 8 * alike_count, 'k');
      texts.push_back(text);
    }
    std::vector<OwnedKey<std::string>> keys;
    keys.reserve(texts.size());
    for (const std::string& text : texts) keys.push_back({&text});
    std::size_t look_count = 0;
    SortByKey(keys, [&look_count](const std::string& text) {
      ++look_count;
      return std::string_view(text);
    });
    EXPECT_LE(look_count, 2 * kPartCount * kCount);
    ExpectSorted(texts);
  }
}

}  // namespace
}  // namespace kerf
