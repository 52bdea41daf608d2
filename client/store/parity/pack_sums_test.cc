#include "client/store/parity/pack_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "client/store/parity/parity_layout.h"

namespace kerf::agent {
namespace {

class PackSumsTest : public testing::Test {
 protected:
  PackSumsTest() : bytes_(2 * kDigestPieceBytes + 5000) { random_.Fill(bytes_); }

  // In any order.
  void AddInParts(std::uint64_t part_bytes) {
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t at = 0; at < bytes_.size(); at += part_bytes) offsets.push_back(at);
    while (!offsets.empty()) {
      std::swap(offsets[random_.Below(offsets.size())], offsets.back());
      Add(offsets.back(), part_bytes);
      offsets.pop_back();
    }
  }
  void Add(std::uint64_t offset, std::uint64_t size_bytes) {
    sums_.Add(offset, std::span<const std::uint8_t>(bytes_).subspan(
                          offset, std::min<std::uint64_t>(size_bytes, bytes_.size() - offset)));
  }
  bool Match() const {
    bool match = sums_.end() == bytes_.size();
    for (std::uint64_t at = 0; at < bytes_.size(); at += kDigestPieceBytes) {
      match &= sums_.Match(
          at, std::span(bytes_).subspan(at, std::min(kDigestPieceBytes, bytes_.size() - at)));
    }
    return match;
  }

  Random random_{TestSeed()};
  std::vector<std::uint8_t> bytes_;
  PackSums sums_;
};

TEST_F(PackSumsTest, EachByteCounts) {
  AddInParts(300'001);
  EXPECT_TRUE(Match());
  const std::vector<std::uint64_t> edges = {0,
                                            300'000,
                                            300'001,
                                            kDigestPieceBytes - 1,
                                            kDigestPieceBytes,
                                            bytes_.size() - 1,
                                            1 << 20,
                                            random_.Below(bytes_.size())};
  for (const std::uint64_t position : edges) {
    bytes_[position] ^= 1;
    EXPECT_FALSE(Match()) << position;
    bytes_[position] ^= 1;
  }
  EXPECT_TRUE(Match());
}

TEST_F(PackSumsTest, FewerAndMoreBytesAreOthers) {
  AddInParts(70'000);
  bytes_.push_back(0);
  EXPECT_FALSE(Match());
  bytes_.resize(bytes_.size() - 2);
  EXPECT_FALSE(Match());
  const std::span<const std::uint8_t> first = std::span(bytes_).first(kDigestPieceBytes);
  EXPECT_TRUE(sums_.Match(0, first));
  EXPECT_FALSE(sums_.Match(0, first.first(kDigestPieceBytes - 1)));
  EXPECT_FALSE(sums_.Match(4 * kDigestPieceBytes, first));
}

TEST_F(PackSumsTest, WhatNobodyAddedMatchesNothing) {
  EXPECT_FALSE(Match());
  Add(0, 100);
  Add(101, kDigestPieceBytes);
  Add(kDigestPieceBytes + 201, bytes_.size());
  EXPECT_FALSE(Match());
  const std::vector<PackSums::Range> gaps = sums_.Gaps();
  ASSERT_EQ(gaps.size(), 2u);
  EXPECT_EQ(gaps[0].offset, 100u);
  EXPECT_EQ(gaps[0].size_bytes, 1u);
  EXPECT_EQ(gaps[1].offset, kDigestPieceBytes + 101);
  EXPECT_EQ(gaps[1].size_bytes, 100u);
  for (const PackSums::Range& gap : gaps) Add(gap.offset, gap.size_bytes);
  EXPECT_TRUE(Match());
  EXPECT_TRUE(sums_.Gaps().empty());
}

TEST_F(PackSumsTest, WhatWasReadTwiceAndDiffersMatchesNothing) {
  AddInParts(50'000);
  Add(1000, 20'000);
  AddInParts(50'000);
  EXPECT_TRUE(Match());
  bytes_[70'000] ^= 1;
  Add(50'000, 50'000);
  EXPECT_FALSE(Match());
  bytes_[70'000] ^= 1;
  EXPECT_FALSE(Match());
}

}  // namespace
}  // namespace kerf::agent
