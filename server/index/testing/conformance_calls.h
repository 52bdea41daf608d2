// What the parts of the conformance suite share. Theirs only.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/wait_for.h"
#include "server/index/index.h"
#include "server/index/testing/conformance.h"

namespace kerf::conformance {

inline const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

// The digest of a small number, spread over all of a backend's shards.
inline Digest DigestOf(const RepositoryId& repository, std::uint64_t number) {
  Digest digest;
  Random random(number);
  random.Fill(std::span(digest.bytes).first(DigestSizeBytes(repository.digest_algorithm)));
  return digest;
}

inline IndexEntry EntryOf(std::uint64_t number, std::string locator,
                          std::uint32_t length_bytes = 7) {
  return {DigestOf(kRepository, number), length_bytes, std::move(locator)};
}

inline absl::Status CommitOne(Index& index, std::uint64_t epoch, const IndexEntry& entry,
                              bool replace = false, const RepositoryId& repository = kRepository) {
  return WaitFor(index.Commit(repository, epoch, std::span(&entry, 1), replace));
}

inline LookupResult LookupOne(Index& index, std::uint64_t epoch, const Digest& digest,
                              const RepositoryId& repository = kRepository) {
  // A lookup must leave none of this behind.
  LookupResult result{Verdict::kUnverified, 99, "left behind"};
  const absl::Status status =
      WaitFor(index.Lookup(repository, epoch, std::span(&digest, 1), std::span(&result, 1)));
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

// Of a call that had `count` entries to remove.
inline void ExpectForgotten(const IndexBackend& backend, const ForgetResult& result,
                            std::uint64_t count) {
  if (backend.MayHaveRepeated()) {
    EXPECT_LE(result.forgotten_count, count);
  } else {
    EXPECT_EQ(result.forgotten_count, count);
  }
  EXPECT_GE(result.removed_count, count);
}

// Of a call that raised the epoch from `before` to `told`.
inline void ExpectEpochBefore(const IndexBackend& backend,
                              const absl::StatusOr<std::uint64_t>& result, std::uint64_t before,
                              std::uint64_t told) {
  ASSERT_TRUE(result.ok()) << result.status();
  if (backend.MayHaveRepeated() && *result == told) return;
  EXPECT_EQ(*result, before);
}

inline void ExpectSame(const LookupResult& actual, const LookupResult& expected) {
  EXPECT_EQ(actual.verdict, expected.verdict);
  EXPECT_EQ(actual.length_bytes, expected.length_bytes);
  EXPECT_EQ(actual.locator, expected.locator);
}

inline std::vector<IndexEntry> ScanAll(Index& index, const RepositoryId& repository,
                                       std::size_t limit) {
  std::vector<IndexEntry> all;
  std::optional<Digest> after;
  while (true) {
    const auto page = WaitFor(index.Scan(repository, after, limit));
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok() || page->empty()) return all;
    EXPECT_LE(page->size(), limit);
    after = page->back().digest;
    all.insert(all.end(), page->begin(), page->end());
  }
}

}  // namespace kerf::conformance
