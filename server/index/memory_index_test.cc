#include "server/index/memory_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/wait_for.h"
#include "server/index/testing/conformance.h"

namespace kerf {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, IndexConformance,
                         ::testing::Values(IndexBackend{[] { return CreateMemoryIndex(); }}));

// That a repository is closed is not an epoch that anybody was told.
TEST(MemoryIndexTest, OneThatIsClosedHasNoEpochForTheTotals) {
  const RepositoryId dropped{"dropped", DigestAlgorithm::kBlake3};
  const std::unique_ptr<Index> index = CreateMemoryIndex();
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch({"home", DigestAlgorithm::kBlake3}, 7, 0)).ok());
  std::vector<IndexEntry> entries(3);
  for (std::size_t number = 0; number < entries.size(); ++number) {
    entries[number] = {{{static_cast<std::uint8_t>(number)}}, 1, "a"};
  }
  ASSERT_TRUE(WaitFor(index->Commit(dropped, 9, entries, false)).ok());
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(dropped, 9, 0)).ok());
  EXPECT_EQ(index->size().totals->epoch, 9u);
  ASSERT_TRUE(WaitFor(index->Drop(dropped, std::nullopt, 1))->last.has_value());
  EXPECT_EQ(index->size().totals->epoch, 7u);
}

TEST(MemoryIndexTest, HoldsNoMoreThanItMay) {
  const RepositoryId repository{"photos", DigestAlgorithm::kBlake3};
  // One for the repository, two for entries.
  const std::unique_ptr<Index> index = CreateMemoryIndex({.max_entry_count = 3});
  std::vector<IndexEntry> entries(3);
  for (std::size_t number = 0; number < entries.size(); ++number) {
    entries[number] = {{{static_cast<std::uint8_t>(number)}}, 1, "a"};
  }
  EXPECT_EQ(WaitFor(index->Commit(repository, 1, entries, false)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(WaitFor(index->Stats(repository))->entry_count, 2u);
  EXPECT_EQ(WaitFor(index->AdvanceEpoch({"more", DigestAlgorithm::kBlake3}, 1, 0)).status().code(),
            absl::StatusCode::kResourceExhausted);
  // What is there may still change, and what is forgotten makes room.
  EXPECT_TRUE(WaitFor(index->Commit(repository, 2, std::span(entries).first(2), true)).ok());
  EXPECT_EQ(WaitFor(index->Forget(repository, std::span(entries).first(1)))->forgotten_count, 1u);
  EXPECT_TRUE(WaitFor(index->Commit(repository, 2, std::span(entries).last(1), false)).ok());
}

}  // namespace
}  // namespace kerf
