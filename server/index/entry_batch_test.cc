#include "server/index/entry_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

// Of few values in each half, so that many begin alike, and many are equal.
std::vector<Digest> Digests(std::size_t count) {
  Random random(TestSeed());
  std::vector<Digest> digests(count);
  for (Digest& digest : digests) {
    for (std::size_t index = 0; index < 8; ++index) {
      digest.bytes[index] = static_cast<std::uint8_t>(index % 4 == 0 ? random.Below(3) * 120 : 7);
    }
    digest.bytes[8] = static_cast<std::uint8_t>(random.Below(3));
    digest.bytes[31] = static_cast<std::uint8_t>(random.Below(3) * 100);
  }
  return digests;
}

TEST(EntryBatchTest, DigestOrderIsThatOfTheirBytes) {
  for (const std::size_t count : {0u, 1u, 2u, 3000u}) {
    const std::vector<Digest> digests = Digests(count);
    const std::vector<std::size_t> order = InDigestOrder(digests);
    ASSERT_EQ(order.size(), count);
    for (std::size_t index = 1; index < count; ++index) {
      const Digest& before = digests[order[index - 1]];
      const Digest& after = digests[order[index]];
      ASSERT_LE(before, after);
      if (before == after) {
        ASSERT_LT(order[index - 1], order[index]);
      }
    }
  }
}

TEST(EntryBatchTest, EntriesOfOneDigestKeepTheirOrder) {
  const std::vector<Digest> digests = Digests(3000);
  std::vector<IndexEntry> entries(digests.size());
  for (std::size_t index = 0; index < digests.size(); ++index) {
    entries[index] = {digests[index], 1, Cat(index)};
  }
  std::vector<IndexEntry> expected = entries;
  std::stable_sort(expected.begin(), expected.end(),
                   [](const IndexEntry& a, const IndexEntry& b) { return a.digest < b.digest; });
  std::vector<IndexEntry> sorted;
  for (const IndexEntry* entry : InDigestOrder(entries)) sorted.push_back(*entry);
  EXPECT_EQ(sorted, expected);
}

}  // namespace
}  // namespace kerf
