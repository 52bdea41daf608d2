// How often a worker asks the index about a file that it holds: at most one round trip for a
// thousand chunks, though the file repeats itself.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <iostream>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "server/hints/testing/late_segment_store.h"
#include "server/index/forwarding_index.h"
#include "server/worker/file_hints.h"
#include "server/worker/testing/hinted_world.h"

namespace kerf {
namespace {

// Questions that a file costs beside one for a thousand chunks: until the worker knows that it
// knows the file, and until it asks for as much as it may.
constexpr std::size_t kBeginQuestions = 5;
// The same of a worker that must fetch first what is known of the file: chunks that stand in the
// file more than once lead it to the wrong copy until it holds the segments of both.
constexpr std::size_t kColdBeginQuestions = 40;
// The latter holds over some trees: what a single one costs depends on where its repeats lie. One
// in forty costs more, one in a thousand three times as much.
constexpr std::size_t kKnownTrees = 4;
constexpr std::size_t kEdits = 100;
// That it costs the index to look up, over some trees: in a single one a worker may be on the way
// to the wrong one of two copies for long.
constexpr std::size_t kDigestsOfAnEdit = 32;
constexpr std::size_t kEditedTrees = 3;

// Between a worker and an index that hints come from as well: what was asked of the store is
// answered when the next question is, or the next batch of chunks, which takes as long.
class RoundTrips final : public ForwardingIndex {
 public:
  RoundTrips(Index* index, LateSegmentStore* store) : ForwardingIndex(index), store_(store) {}

  void Pass() { store_->Deliver(store_->waiting_count()); }

  // Digests that were looked up so far.
  std::size_t digest_count() const { return digest_count_; }

  // Those of them that were looked up many at once.
  std::size_t large_digest_count() const { return large_digest_count_; }

  std::function<void(std::span<const Digest> digests)> before_lookup;

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    Pass();
    digest_count_ += digests.size();
    if (digests.size() >= FileHints::kEnoughAhead) large_digest_count_ += digests.size();
    if (before_lookup) before_lookup(digests);
    return ForwardingIndex::Lookup(repository, session_epoch, digests, results);
  }

 private:
  LateSegmentStore* const store_;
  std::size_t digest_count_ = 0;
  std::size_t large_digest_count_ = 0;
};

struct Case {
  const char* name;
  // Chunks of 256 bytes, so that few bytes are many of them.
  const char* profile;

  friend std::ostream& operator<<(std::ostream& out, const Case& tested) {
    return out << tested.name;
  }
};

class QuestionsTest : public HintedWorld, public testing::WithParamInterface<Case> {
 protected:
  // 64 chunks, as with 512 KiB and chunks of 8 KiB.
  static constexpr std::size_t kSmallCutBufferBytes = 16 * 1024;

  void SetUp() override {
    Start(GetParam().profile, /*is_late=*/false, kSmallCutBufferBytes);
    context_.index = &round_trips_;
    context_.now = [this, now = std::chrono::steady_clock::now()] {
      round_trips_.Pass();
      return now;
    };
  }

  // An archive of a tree: small files and large ones, in front of each a header, a third of them
  // copies of an earlier one, and folders that are there twice.
  std::string Tree(std::size_t size_bytes) {
    std::vector<std::string> files;
    std::string tree;
    const auto append = [&](const std::string& file) { tree += RandomBytes(64) + file; };
    while (tree.size() < size_bytes) {
      if (files.size() > 20 && random_.OneIn(20)) {
        const std::size_t count = random_.Between(5, 20);
        const std::size_t first = random_.Below(files.size() - count);
        for (std::size_t index = first; index < first + count; ++index) append(files[index]);
      } else if (!files.empty() && random_.OneIn(3)) {
        append(files[random_.Below(files.size())]);
      } else {
        const std::size_t scale = std::size_t{1} << random_.Between(7, 16);
        files.push_back(random_.OneIn(30) ? std::string(scale, '\0')
                                          : RandomBytes(random_.Between(scale / 2, scale)));
        append(files.back());
      }
    }
    return tree;
  }

  // Of the upload.
  std::size_t CountQuestions(const std::vector<std::string>& contents) {
    const std::uint64_t asked_before = totals_.lookups_asked.load();
    Upload(contents);
    return totals_.lookups_asked.load() - asked_before;
  }

  std::size_t CountChunks(const std::string& content) const {
    const auto chunker = MakeChunker(*ParseProfile(profile_));
    std::size_t count = 0;
    for (Bytes rest = AsBytes(content); !rest.empty(); ++count) {
      rest = rest.subspan(chunker->NextCut(rest));
    }
    return count;
  }

  LateSegmentStore late_store_{store_.get()};
  RoundTrips round_trips_{index_.get(), &late_store_};
};

TEST_P(QuestionsTest, AThousandChunksThatAreKnownCostOne) {
  std::size_t cold_count = 0;
  std::size_t cold_limit = 0;
  for (std::size_t tree = 0; tree < kKnownTrees; ++tree) {
    const std::vector<std::string> contents = {Tree(8'000'000)};
    const std::size_t chunk_count = CountChunks(contents[0]);
    ASSERT_GT(chunk_count, 20'000u);
    Follow(&late_store_);
    Upload(contents);
    round_trips_.Pass();
    const std::size_t ahead_before = totals_.digests_asked_ahead.load();
    const std::size_t warm_count = CountQuestions(contents);
    Follow(&late_store_);
    const std::size_t tree_cold_count = CountQuestions(contents);
    const std::size_t ahead_count = totals_.digests_asked_ahead.load() - ahead_before;
    std::cout << chunk_count << " chunks: " << warm_count << " questions, " << tree_cold_count
              << " of a worker that knows nothing; looked up ahead in both: " << ahead_count
              << " digests\n";
    EXPECT_LE(warm_count, chunk_count / 1000 + kBeginQuestions);
    EXPECT_LE(tree_cold_count, chunk_count / 100);
    EXPECT_LT(ahead_count, 2 * (chunk_count + chunk_count / 4));
    cold_count += tree_cold_count;
    cold_limit += chunk_count / 1000 + kColdBeginQuestions;
  }
  EXPECT_LE(cold_count, cold_limit);
}

TEST_P(QuestionsTest, AnEditCostsWhatWasEdited) {
  Follow(&late_store_);
  std::size_t unchanged_count = 0;
  std::size_t edited_count = 0;
  std::size_t large_count = 0;
  for (std::size_t tree = 0; tree < kEditedTrees; ++tree) {
    std::vector<std::string> contents = {Tree(8'000'000)};
    const std::size_t chunk_count = CountChunks(contents[0]);
    Upload(contents);
    const std::size_t first_count = round_trips_.digest_count();
    Upload(contents);
    const std::size_t before_count = round_trips_.digest_count();
    unchanged_count += before_count - first_count;
    for (std::size_t edit = 0; edit < kEdits; ++edit) {
      contents[0].insert(random_.Below(contents[0].size()), RandomBytes(8));
    }
    const std::size_t large_before_count = round_trips_.large_digest_count();
    const std::size_t question_count = CountQuestions(contents);
    edited_count += round_trips_.digest_count() - before_count;
    large_count += round_trips_.large_digest_count() - large_before_count;
    EXPECT_LE(question_count, chunk_count / 1000 + kBeginQuestions + kEdits);
  }
  std::cout << unchanged_count << " digests looked up, " << edited_count << " with " << kEdits
            << " edits a tree, " << large_count << " of them many at once\n";
  EXPECT_LE(edited_count, unchanged_count + kDigestsOfAnEdit * kEdits * kEditedTrees);
  EXPECT_GE(large_count, edited_count * 2 / 3);
}

// What is known of a batch waits for what must be asked, and may be forgotten meanwhile.
TEST_P(QuestionsTest, WhatWasKnownIsAskedForOnceMoreWhereTheIndexTookItsTime) {
  std::vector<std::string> contents = {RandomBytes(2'000'000)};
  Follow(&late_store_);
  Upload(contents);
  const std::set<decltype(Digest::bytes)> known = committed_;
  auto now = std::chrono::steady_clock::now();
  context_.now = [this, &now] {
    round_trips_.Pass();
    return now;
  };
  std::set<decltype(Digest::bytes)> asked;
  std::size_t again_count = 0;
  round_trips_.before_lookup = [&](std::span<const Digest> digests) {
    std::size_t known_count = 0;
    bool is_again = false;
    for (const Digest& digest : digests) {
      if (known.contains(digest.bytes)) {
        ++known_count;
        continue;
      }
      // An edit: what was known of its batch waits, and is forgotten meanwhile.
      if (asked.insert(digest.bytes).second) {
        now += FileHints::kMaxVerdictAge + std::chrono::seconds(1);
      } else {
        is_again = true;
      }
    }
    if (is_again && known_count > 0) ++again_count;
  };
  for (int edit = 0; edit < 40; ++edit) {
    contents[0].insert(random_.Below(contents[0].size()), RandomBytes(8));
  }
  Upload(contents);
  EXPECT_GT(asked.size(), 30u);
  EXPECT_GT(again_count, 10u);
}

INSTANTIATE_TEST_SUITE_P(All, QuestionsTest,
                         testing::Values(Case{"fastcdc", "fastcdc:min=64,avg=256,max=1024,level=2"},
                                         Case{"mincdc", "mincdc:min=128,max=384"},
                                         Case{"rabin", "rabin:min=64,avg=256,max=1024"}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace kerf
