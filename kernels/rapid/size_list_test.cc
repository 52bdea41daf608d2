#include "kernels/rapid/size_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/profile.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;

SizeList ListOf(const std::vector<NextSize>& most_recent_first) {
  SizeList list;
  for (std::size_t index = most_recent_first.size(); index-- > 0;) {
    list.Hit(most_recent_first[index], SizeList::kMaxSizes);
  }
  return list;
}

// Figure 7 of the paper: File A, File B, File C.
TEST(SizeListTest, KeepsTheMostRecentHitFirst) {
  SizeList list;
  EXPECT_TRUE(list.empty());
  list.Hit({200, 1});
  list.Hit({250, 2});
  EXPECT_EQ(list, ListOf({{250, 2}, {200, 1}}));
  list.Hit({200, 1});
  EXPECT_EQ(list, ListOf({{200, 1}, {250, 2}}));
  list.Hit({300, 3});
  EXPECT_EQ(list, ListOf({{300, 3}, {200, 1}}));
}

TEST(SizeListTest, AHitRenewsTheMarker) {
  SizeList list = ListOf({{250, 2}, {200, 1}});
  list.Hit({200, 9});
  EXPECT_EQ(list, ListOf({{200, 9}, {250, 2}}));
}

TEST(SizeListTest, AListThatIsTooLongIsCutShort) {
  SizeList list = ListOf({{1, 1}, {2, 2}, {3, 3}, {4, 4}});
  list.Hit({3, 3}, 2);
  EXPECT_EQ(list, ListOf({{3, 3}, {1, 1}}));
  list.Hit({5, 5}, 1);
  EXPECT_EQ(list, ListOf({{5, 5}}));
}

TEST(SizeListTest, BehavesAsTheModel) {
  Random random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    SizeList list;
    std::vector<NextSize> model;
    for (int step = 0; step < 30; ++step) {
      const NextSize next{static_cast<std::uint32_t>(random.Between(1, 6)),
                          static_cast<std::uint8_t>(random.Next())};
      const std::size_t max_sizes = random.Between(1, SizeList::kMaxSizes);
      std::erase_if(model, [&](NextSize old) { return old.length_bytes == next.length_bytes; });
      model.insert(model.begin(), next);
      model.resize(std::min(model.size(), max_sizes));
      list.Hit(next, max_sizes);
      ASSERT_TRUE(std::ranges::equal(list.sizes(), model));
      const absl::StatusOr<SizeList> again = SizeList::Unpack(list.Pack());
      ASSERT_TRUE(again.ok()) << again.status();
      ASSERT_EQ(*again, list);
    }
  }
}

TEST(SizeListTest, PacksIntoAFewBytes) {
  EXPECT_EQ(SizeList().Pack(), Bytes({0x10}));
  EXPECT_EQ(ListOf({{8192, 0xAB}, {300, 0x00}}).Pack(),
            Bytes({0x12, 0x80, 0x40, 0xAB, 0xAC, 0x02, 0x00}));
  EXPECT_EQ(ListOf({{kMaxMaxBytes, 0xFF}}).Pack(), Bytes({0x11, 0x80, 0x80, 0x80, 0x02, 0xFF}));
}

TEST(SizeListTest, RefusesWhatPackDoesNotWrite) {
  const auto message = [](const Bytes& bytes) {
    const absl::StatusOr<SizeList> list = SizeList::Unpack(bytes);
    EXPECT_EQ(list.status().code(), absl::StatusCode::kDataLoss);
    return std::string(MessageOf(list.status()));
  };
  EXPECT_NE(message({}).find("no bytes"), std::string::npos);
  EXPECT_NE(message({0x20}).find("version 2"), std::string::npos);
  EXPECT_NE(message({0x15, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}).find("5 sizes"), std::string::npos);
  EXPECT_NE(message({0x11}).find("cut off"), std::string::npos);
  EXPECT_NE(message({0x11, 0x07}).find("cut off"), std::string::npos);
  EXPECT_NE(message({0x11, 0x80, 0x00, 0x00}).find("cut off"), std::string::npos);  // not shortest
  EXPECT_NE(message({0x11, 0x00, 0x00}).find("size 0 is 0"), std::string::npos);
  EXPECT_NE(message({0x11, 0x81, 0x80, 0x80, 0x02, 0xFF}).find("4194305"), std::string::npos);
  EXPECT_NE(message({0x12, 0x07, 1, 0x07, 2}).find("two sizes of 7"), std::string::npos);
  EXPECT_NE(message({0x11, 0x07, 1, 0}).find("behind its end"), std::string::npos);
}

TEST(SizeListTest, HostileBytesAreReadAsWrittenOrRefused) {
  Random random(TestSeed());
  int accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    Bytes bytes(random.Below(12));
    random.Fill(bytes);
    if (!bytes.empty()) bytes[0] = static_cast<std::uint8_t>(0x10 | bytes[0] % 8);
    const absl::StatusOr<SizeList> list = SizeList::Unpack(bytes);
    if (!list.ok()) continue;
    ++accepted;
    ASSERT_EQ(list->Pack(), bytes);
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace kerf
