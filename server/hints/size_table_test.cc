#include "server/hints/size_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace kerf {
namespace {

std::vector<std::uint32_t> LengthsOf(const SizeList& list) {
  std::vector<std::uint32_t> lengths;
  for (const NextSize& size : list.sizes()) lengths.push_back(size.length_bytes);
  return lengths;
}

using Lengths = std::vector<std::uint32_t>;

TEST(SizeTableTest, TheMostRecentHitComesFirst) {
  SizeTable table(10'000, 2);
  EXPECT_EQ(table.memory_bytes(), 0u);
  EXPECT_TRUE(table.Find(7).empty());
  for (const std::uint32_t length : {100u, 200u, 300u, 200u}) table.Hit(7, {length, 1});
  EXPECT_EQ(LengthsOf(table.Find(7)), (Lengths{200, 300}));
  EXPECT_TRUE(table.Find(8).empty());
  EXPECT_GT(table.memory_bytes(), 9'000u);
  EXPECT_LE(table.memory_bytes(), 10'000u);
}

TEST(SizeTableTest, AListIsAsLongAsItIsTold) {
  SizeTable one(10'000, 1);
  SizeTable none(10'000, 0);
  for (const std::uint32_t length : {100u, 200u}) {
    one.Hit(7, {length, 1});
    none.Hit(7, {length, 1});
  }
  EXPECT_EQ(LengthsOf(one.Find(7)), Lengths{200});
  EXPECT_TRUE(none.Find(7).empty());
  EXPECT_EQ(none.memory_bytes(), 0u);
}

TEST(SizeTableTest, WhatComesLaterTakesThePlace) {
  SizeTable table(60, 2);
  for (std::uint64_t key = 1; key <= 100; ++key) table.Hit(key, {100, 1});
  EXPECT_TRUE(table.Find(99).empty());
  EXPECT_EQ(LengthsOf(table.Find(100)), Lengths{100});
  EXPECT_LE(table.memory_bytes(), 60u);
}

}  // namespace
}  // namespace kerf
