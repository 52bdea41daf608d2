#include "client/lab/bench/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/test_seed.h"

namespace kerf::bench {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kSegments = 20;
constexpr std::size_t kSizeBytes = kSegments * Corpus::kSegmentBytes - 5;

Bytes Filled(std::uint64_t seed, std::uint64_t filling, std::uint32_t duplicate_percent) {
  Corpus corpus(seed, kSizeBytes);
  corpus.Fill(filling, duplicate_percent);
  const auto all = corpus.Part(0, 1);
  return {all.begin(), all.end()};
}

std::size_t EqualSegments(const Bytes& a, const Bytes& b) {
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < a.size(); begin += Corpus::kSegmentBytes) {
    const std::size_t end = std::min(a.size(), begin + Corpus::kSegmentBytes);
    const auto at = [](const Bytes& bytes, std::size_t position) {
      return bytes.begin() + static_cast<std::ptrdiff_t>(position);
    };
    count += std::equal(at(a, begin), at(a, end), at(b, begin)) ? 1 : 0;
  }
  return count;
}

TEST(Corpus, TheGivenShareOccursInEveryFilling) {
  const std::uint64_t seed = TestSeed();
  const Bytes shared = Filled(seed, 1, 100);
  for (const std::uint32_t percent : {0u, 10u, 50u, 95u, 100u}) {
    const std::size_t expected = kSegments * percent / 100;
    EXPECT_EQ(EqualSegments(shared, Filled(seed, 2, percent)), expected);
    EXPECT_EQ(EqualSegments(Filled(seed, 3, percent), Filled(seed, 2, percent)), expected);
  }
}

TEST(Corpus, TheSeedDecides) {
  const std::uint64_t seed = TestSeed();
  EXPECT_EQ(Filled(seed, 7, 30), Filled(seed, 7, 30));
  EXPECT_EQ(EqualSegments(Filled(seed, 7, 30), Filled(seed + 1, 7, 30)), 0u);
}

TEST(Corpus, PartsCoverEverything) {
  Corpus corpus(1, 1003);
  corpus.Fill(1, 0);
  const auto all = corpus.Part(0, 1);
  Bytes joined;
  for (std::size_t index = 0; index < 8; ++index) {
    const auto part = corpus.Part(index, 8);
    EXPECT_TRUE(part.size() == 125 || part.size() == 126);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(std::equal(joined.begin(), joined.end(), all.begin(), all.end()));
}

}  // namespace
}  // namespace kerf::bench
