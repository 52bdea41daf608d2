#include "server/worker/metered_index.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/index/memory_index.h"
#include "server/index/testing/conformance.h"
#include "server/index/testing/late_index.h"

namespace kerf {
namespace {

// Metered, whether it answers at once or late.
class OwningMeteredIndex final : public ForwardingIndex {
 public:
  struct Parts {
    explicit Parts(bool is_late) {
      if (is_late) late.emplace(leaf.get(), Random(TestSeed()).Next());
    }
    std::unique_ptr<Index> leaf = CreateMemoryIndex();
    std::optional<LateIndex> late;
    StreamMetrics metrics;
  };
  explicit OwningMeteredIndex(bool is_late)
      : OwningMeteredIndex(std::make_unique<Parts>(is_late)) {}

  // Calls of a stage, and those of them that failed.
  std::uint64_t CountOf(Stage stage) const {
    const auto counts = parts_->metrics.stage_ns[static_cast<std::size_t>(stage)].counts();
    return std::accumulate(counts.buckets.begin(), counts.buckets.end(), std::uint64_t{0});
  }
  std::uint64_t FailuresOf(Stage stage) const {
    return parts_->metrics.failures[static_cast<std::size_t>(stage)].value();
  }

 private:
  explicit OwningMeteredIndex(std::unique_ptr<Parts> parts)
      : ForwardingIndex(std::make_unique<MeteredIndex>(
            parts->late.has_value() ? &*parts->late : parts->leaf.get(), &parts->metrics)),
        parts_(std::move(parts)) {}

  const std::unique_ptr<Parts> parts_;
};

INSTANTIATE_TEST_SUITE_P(
    Metered, IndexConformance,
    ::testing::Values(IndexBackend{[] { return std::make_unique<OwningMeteredIndex>(false); }},
                      IndexBackend{[] { return std::make_unique<OwningMeteredIndex>(true); }}));

TEST(MeteredIndexTest, EachCallIsCountedOnceItIsAnswered) {
  const RepositoryId repository{"home", DigestAlgorithm::kXxh3_128};
  const RepositoryId odd{"no such/name", DigestAlgorithm::kXxh3_128};
  for (const bool is_late : {false, true}) {
    OwningMeteredIndex index(is_late);
    std::vector<Digest> digests(3);
    std::vector<LookupResult> results(digests.size());
    const std::vector<IndexEntry> entries = {{digests[0], 1, "a"}};
    for (int round = 0; round < 20; ++round) {
      EXPECT_TRUE(WaitFor(index.Lookup(repository, 1, digests, results)).ok());
      EXPECT_TRUE(WaitFor(index.Commit(repository, 1, entries, false)).ok());
      EXPECT_EQ(WaitFor(index.Forget(repository, entries))->forgotten_count, 1u);
      EXPECT_FALSE(WaitFor(index.Lookup(odd, 1, digests, results)).ok());
    }
    EXPECT_TRUE(WaitFor(index.Stats(repository)).ok());
    EXPECT_EQ(index.CountOf(Stage::kLookup), 40u);
    EXPECT_EQ(index.CountOf(Stage::kCommit), 20u);
    EXPECT_EQ(index.CountOf(Stage::kForget), 20u);
    EXPECT_EQ(index.FailuresOf(Stage::kLookup), 20u);
    EXPECT_EQ(index.FailuresOf(Stage::kCommit), 0u);
    EXPECT_EQ(index.FailuresOf(Stage::kForget), 0u);
  }
}

}  // namespace
}  // namespace kerf
