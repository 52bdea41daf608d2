#include "server/redis/known_paths.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/random.h"
#include "base/test_seed.h"
#include "server/redis/buckets.h"

namespace kerf {
namespace {

constexpr int kBaseBits = 10;

Digest WithPath(std::string_view path) {
  Digest digest{};
  for (std::size_t at = 0; at < path.size(); ++at) {
    const std::size_t bit = kBaseBits + at;
    if (path[at] == '1') digest.bytes[bit / 8] |= static_cast<std::uint8_t>(0x80 >> bit % 8);
  }
  return digest;
}

TEST(KnownPathsTest, KnowsNothingAtFirst) {
  KnownPaths known(kBaseBits);
  EXPECT_EQ(known.PathOf(WithPath("1111")), std::nullopt);
  // Nor by what it learns of another base bucket.
  known.Learn(1, "1");
  EXPECT_EQ(known.PathOf(WithPath("1111")), std::nullopt);
}

TEST(KnownPathsTest, ABucketSaysNothingOfThoseBesideIt) {
  KnownPaths known(kBaseBits);
  known.Learn(0, "0");
  known.Learn(0, "10");
  known.Learn(0, "1101");
  EXPECT_EQ(known.PathOf(WithPath("0111")), "0");
  EXPECT_EQ(known.PathOf(WithPath("1011")), "10");
  EXPECT_EQ(known.PathOf(WithPath("1101")), "1101");
  // Nothing was learned of it.
  EXPECT_EQ(known.PathOf(WithPath("1100")), "");
  known.Learn(0, "");
  EXPECT_EQ(known.PathOf(WithPath("1101")), "");
}

TEST(KnownPathsTest, PathsThatAreTooLongShareWhatIsKnown) {
  KnownPaths known(kBaseBits);
  const std::string deep(kMaxPathBits, '1');
  known.Learn(0, deep);
  EXPECT_EQ(known.PathOf(WithPath(deep)), deep);
  std::string beside = deep;
  beside.back() = '0';
  EXPECT_EQ(known.PathOf(WithPath(beside)), beside);
  EXPECT_EQ(known.PathOf(WithPath(std::string(KnownPaths::kMaxBits - 1, '1') + "0")), "");
}

// Beside a tree that is split, and now and then begun anew.
TEST(KnownPathsTest, IsRightOfATreeThatItHasSeen) {
  Random random(TestSeed());
  KnownPaths known(kBaseBits);
  std::map<std::uint32_t, std::vector<std::string>> buckets;
  for (int round = 0; round < 2'000; ++round) {
    const auto base = static_cast<std::uint32_t>(random.Below(4));
    std::vector<std::string>& paths = buckets[base];
    if (paths.empty() || random.Below(100) == 0) {
      paths = {""};
      known.Learn(base, "");
    }
    const std::size_t split = random.Below(paths.size());
    if (paths[split].size() < KnownPaths::kMaxBits) {
      const std::string path = paths[split];
      paths[split] = path + '0';
      paths.push_back(path + '1');
      known.Learn(base, path + '1');
      known.Learn(base, path + '0');
    }
    Digest digest;
    random.Fill(digest.bytes);
    digest.bytes[0] = 0;
    digest.bytes[1] &= 0x3F;
    digest.bytes[1] |= static_cast<std::uint8_t>(base << 6);
    const std::string found = known.PathOf(digest).value_or("");
    EXPECT_EQ(std::count(paths.begin(), paths.end(), found), 1) << found;
  }
}

}  // namespace
}  // namespace kerf
