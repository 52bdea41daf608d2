#include "client/store/check/index_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/store/collect/collection_plan.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

// Answers as an index of its epoch does; what happens before its calls is the test's to say.
class FakeIndex final : public ReadableIndex {
 public:
  struct Entry {
    std::uint32_t length_bytes = 0;
    std::string locator;
    std::uint64_t epoch = 0;
  };

  absl::StatusOr<std::uint64_t> ReadEpoch() override { return epoch; }

  absl::StatusOr<std::vector<IndexAnswer>> Lookup(std::uint64_t session_epoch,
                                                  std::span<const Digest> digests) override {
    ++lookup_count;
    if (before_lookup) before_lookup();
    std::vector<IndexAnswer> answers(digests.size());
    for (std::size_t at = 0; at < digests.size(); ++at) {
      const auto found = entries.find(digests[at]);
      if (found == entries.end()) continue;
      const bool believed = std::max(found->second.epoch, epoch) >= session_epoch;
      answers[at] = {believed ? IndexVerdict::kDuplicate : IndexVerdict::kUnverified,
                     found->second.length_bytes, found->second.locator};
    }
    if (after_lookup) after_lookup();
    return answers;
  }

  absl::StatusOr<std::vector<StoredChunk>> ScanPage(const std::optional<Digest>& after) override {
    if (before_scan) before_scan();
    std::vector<StoredChunk> page;
    for (auto at = after.has_value() ? entries.upper_bound(*after) : entries.begin();
         at != entries.end() && page.size() < 2; ++at) {
      page.push_back({at->first, at->second.length_bytes, at->second.locator});
    }
    if (after_scan) after_scan();
    return page;
  }

  std::uint64_t epoch = 1;
  std::map<Digest, Entry> entries;
  int lookup_count = 0;
  std::function<void()> before_lookup;
  std::function<void()> after_lookup;
  std::function<void()> before_scan;
  std::function<void()> after_scan;
};

class IndexCheckTest : public testing::Test {
 protected:
  // Puts the chunks into a pack, and commits them.
  SealedPack Add(const std::vector<std::string>& chunks) {
    SealedPack pack = test_.WritePack(chunks);
    Commit(pack);
    return pack;
  }
  void Commit(const SealedPack& pack) {
    const std::vector<PackChunk>& chunks = pack.footer.chunks;
    for (std::uint32_t at = 0; at < chunks.size(); ++at) {
      index_.entries[chunks[at].digest] = {chunks[at].length_bytes, EncodeLocator(pack.id, at),
                                           *test_.store().ReadEpoch()};
    }
  }
  void CommitGone(const std::string& chunk, std::uint64_t epoch) {
    index_.entries[RefOf(chunk).digest] = {static_cast<std::uint32_t>(chunk.size()),
                                           EncodeLocator(PackId(), 0), epoch};
  }
  void Delete(const SealedPack& pack) {
    std::filesystem::remove(ChunkIndex(test_.store().packs_directory()).PackPath(pack.id));
  }
  // As a collection does with a pack of which nothing is needed: it raises the epoch before it
  // deletes.
  void Collect(const SealedPack& pack) {
    const std::uint64_t epoch = *test_.store().ReadEpoch() + 2;
    ASSERT_TRUE(test_.store().WriteEpoch(epoch).ok());
    for (const PackChunk& chunk : pack.footer.chunks) index_.entries.erase(chunk.digest);
    index_.epoch = epoch;
    Delete(pack);
  }

  IndexCheckReport Check() {
    auto report = CheckIndex(test_.store(), index_, options_);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }

  TestStore test_;
  FakeIndex index_;
  IndexCheckOptions options_;
};

TEST_F(IndexCheckTest, WhatAgreesIsClean) {
  IndexCheckReport report = Check();
  EXPECT_EQ(report.chunk_count + report.entry_count, 0u);
  Add({"a", "b", "c", "d", "e"});
  // A copy, which the index is not told of; and one that it is told of, instead of the first.
  test_.WritePack({"a"});
  Add({"b"});
  report = Check();
  EXPECT_EQ(report.chunk_count, 5u);
  EXPECT_EQ(report.known_count, 5u);
  EXPECT_EQ(report.entry_count, 5u);
  EXPECT_EQ(report.damage_count() + report.flaw_count(), 0u);
  EXPECT_EQ(report.condemned_count + report.damaged_pack_count, 0u);
}

TEST_F(IndexCheckTest, TheListOfChunksIsNotReadToItsEndForNobody) {
  options_.is_cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(CheckIndex(test_.store(), index_, options_).status()));
}

TEST_F(IndexCheckTest, EachDifferenceIsCountedAsWhatItIs) {
  Add({"known", "missing", "elsewhere", "longer"});
  index_.entries.erase(RefOf("missing").digest);
  index_.entries[RefOf("elsewhere").digest].locator = EncodeLocator(PackId(), 3);
  index_.entries[RefOf("longer").digest].length_bytes = 7;
  CommitGone("gone", 1);
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.chunk_count, 4u);
  EXPECT_EQ(report.known_count, 1u);
  EXPECT_EQ(report.missing_count, 1u);
  EXPECT_EQ(report.elsewhere_count, 1u);
  EXPECT_EQ(report.wrong_length_count, 1u);
  EXPECT_EQ(report.gone_count, 1u);
  EXPECT_EQ(report.entry_count, 4u);
  EXPECT_EQ(report.damage_count(), 2u);
  EXPECT_EQ(report.flaw_count(), 2u);
  ASSERT_EQ(report.findings.size(), 3u);
  const IndexFinding& last = report.findings.back();
  EXPECT_EQ(last.kind, IndexFinding::Kind::kGone);
  EXPECT_EQ(last.entry.digest, RefOf("gone").digest);
  EXPECT_EQ(last.entry.length_bytes, 4u);
  EXPECT_EQ(last.entry.locator, EncodeLocator(PackId(), 0));
}

TEST_F(IndexCheckTest, AnIndexBehindItsStoreIsNotBelievedAndSoNotDangerous) {
  Add({"a", "b"});
  CommitGone("gone", 1);
  ASSERT_TRUE(test_.store().WriteEpoch(3).ok());
  Add({"c"});
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.store_epoch, 3u);
  EXPECT_EQ(report.index_epoch, 1u);
  EXPECT_EQ(report.unverified_count, 2u);
  EXPECT_EQ(report.known_count, 1u);
  EXPECT_EQ(report.outdated_count, 1u);
  EXPECT_EQ(report.damage_count(), 0u);
}

// Whatever its entries: it takes no commits.
TEST_F(IndexCheckTest, AnIndexPastItsStoreIsFlawed) {
  Add({"a"});
  index_.epoch = 9;
  const IndexCheckReport report = Check();
  EXPECT_TRUE(report.index_is_ahead());
  EXPECT_EQ(report.known_count, 1u);
  EXPECT_EQ(report.damage_count(), 0u);
  EXPECT_EQ(report.flaw_count(), 1u);
}

TEST_F(IndexCheckTest, AnUploadBesideItIsNoDamage) {
  Add({"a"});
  index_.before_scan = [&] {
    // Its packs come when the store has been read already; the second one while it is asked.
    Add({"b"});
    index_.before_scan = nullptr;
    index_.before_lookup = [&] { Add({"c"}); };
  };
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.damage_count() + report.flaw_count(), 0u);
  EXPECT_EQ(report.known_count, 1u);
}

// Its commit is on its way.
TEST_F(IndexCheckTest, WhatIsCommittedMeanwhileIsNotMissing) {
  const SealedPack pack = test_.WritePack({"a", "b"});
  index_.after_lookup = [&] { Commit(pack); };
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.missing_count, 0u);
  EXPECT_EQ(report.known_count, 2u);
}

TEST_F(IndexCheckTest, ACollectionBesideItIsNoDamage) {
  Add({"a"});
  for (const bool from_lookup : {false, true}) {
    SCOPED_TRACE(from_lookup);
    // Behind an answer that still has the chunk: the pack goes before the store is looked at.
    const SealedPack pack = Add({"b"});
    std::function<void()>& hook = from_lookup ? index_.after_lookup : index_.after_scan;
    hook = [&] {
      Collect(pack);
      hook = nullptr;
    };
    const IndexCheckReport report = Check();
    EXPECT_EQ(report.damage_count() + report.flaw_count(), 0u);
  }
}

// A pack comes, is committed and is collected, between two looks at the store.
TEST_F(IndexCheckTest, ACollectionOfWhatHasJustComeIsNoDamage) {
  CommitGone("b", 1);
  bool has_come = false;
  SealedPack pack;
  index_.before_lookup = [&] {
    if (has_come) return;
    pack = Add({"b"});
  };
  index_.after_lookup = [&] {
    if (has_come) return;
    has_come = true;
    Collect(pack);
  };
  // Only the scan meets it.
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.damage_count() + report.flaw_count(), 0u);
}

TEST_F(IndexCheckTest, WhatIsMovedAllTheTimeIsLeftUndecided) {
  Add({"a"});
  CommitGone("gone", 1);
  index_.after_lookup = [&] {
    ASSERT_TRUE(test_.store().WriteEpoch(*test_.store().ReadEpoch() + 1).ok());
    index_.epoch = *test_.store().ReadEpoch();
  };
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.damage_count(), 0u);
  EXPECT_EQ(report.undecided_count, 1u);
}

TEST_F(IndexCheckTest, WhatACollectionIsAboutToDeleteIsNotMissing) {
  Add({"a"});
  const SealedPack pack = test_.WritePack({"condemned", "missing"});
  CollectionPlan plan;
  plan.target_epoch = 3;
  plan.packs = {{pack.id, {true, false}}};
  ASSERT_TRUE(
      WriteCollectionPlan(test_.store().plan_path(), test_.store().temporary_directory(), plan)
          .ok());
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.condemned_count, 1u);
  EXPECT_EQ(report.missing_count, 1u);
}

TEST_F(IndexCheckTest, APackThatCannotBeReadIsCountedAndItsChunksAreGone) {
  const SealedPack pack = Add({"a"});
  Add({"b"});
  std::filesystem::resize_file(ChunkIndex(test_.store().packs_directory()).PackPath(pack.id), 50);
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.damaged_pack_count, 1u);
  EXPECT_EQ(report.gone_count, 1u);
  EXPECT_EQ(report.known_count, 1u);
}

TEST_F(IndexCheckTest, AllDamageIsCountedAndTheFirstOfItReported) {
  for (std::size_t number = 0; number < kMaxIndexFindings + 5; ++number) {
    CommitGone("gone " + std::to_string(number), 1);
  }
  const IndexCheckReport report = Check();
  EXPECT_EQ(report.gone_count, kMaxIndexFindings + 5);
  EXPECT_EQ(report.findings.size(), kMaxIndexFindings);
}

TEST_F(IndexCheckTest, ItCanBeInterruptedAtEachStep) {
  Add({"a"});
  CommitGone("gone", 1);
  int step_count = 0;
  options_.on_progress = [&](const IndexCheckProgress&) {
    ++step_count;
    return absl::OkStatus();
  };
  Check();
  EXPECT_GT(step_count, 2);
  for (int last = 1; last <= step_count; ++last) {
    int count = 0;
    options_.on_progress = [&](const IndexCheckProgress&) {
      return ++count == last ? absl::CancelledError("") : absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsCancelled(CheckIndex(test_.store(), index_, options_).status())) << last;
  }
}

}  // namespace
}  // namespace kerf::agent
