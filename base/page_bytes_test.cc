#include "base/page_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerf {
namespace {

bool BeginsAtAPage(const std::uint8_t* bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes) % kPageBytes == 0;
}

TEST(PageBytesTest, BeginAtAPageWhateverTheirSize) {
  std::vector<PageBytes> kept;
  for (const std::size_t size_bytes : {1u, 100u, 4096u, 4097u, 1u << 20}) {
    const PageBytes& bytes = kept.emplace_back(NewPageBytes(size_bytes));
    EXPECT_TRUE(BeginsAtAPage(bytes.get())) << size_bytes;
    std::fill_n(bytes.get(), size_bytes, std::uint8_t{1});
  }
}

TEST(PageBytesTest, AVectorBeginsAtOneAlsoWhenItHasGrown) {
  PageVector bytes(100);
  EXPECT_TRUE(BeginsAtAPage(bytes.data()));
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), 100);
  bytes[99] = 7;
  for (int turn = 0; turn < 12; ++turn) {
    bytes.resize(2 * bytes.size());
    EXPECT_TRUE(BeginsAtAPage(bytes.data())) << bytes.size();
  }
  EXPECT_EQ(bytes[99], 7);
  const PageVector copy = bytes;
  EXPECT_EQ(copy, bytes);
  EXPECT_TRUE(BeginsAtAPage(copy.data()));
}

TEST(PageBytesTest, WholePages) {
  EXPECT_EQ(RoundUpToPages(0), 0u);
  EXPECT_EQ(RoundUpToPages(1), 4096u);
  EXPECT_EQ(RoundUpToPages(4096), 4096u);
  EXPECT_EQ(RoundUpToPages(4097), 8192u);
}

}  // namespace
}  // namespace kerf
