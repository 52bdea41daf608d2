#include "client/agent/backup/known_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/store/collect/collection_plan.h"
#include "client/store/testing/hollow_packs.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

// More than an index is asked for at once.
constexpr std::uint32_t kChunkCount = kMaxIndexBatch + 100;
constexpr std::size_t kLast = kChunkCount - 1;

// A store of one pack, of which no list is made, and an index that knows where its chunks lie.
class KnownChunksTest : public testing::Test {
 protected:
  KnownChunksTest() {
    id_.bytes[0] = 7;
    WriteHollowPack(packs(), id_, 0, kChunkCount);
    for (std::uint32_t number = 0; number < kChunkCount; ++number) {
      chunks_.push_back(HollowChunk(number));
      index_[chunks_.back().digest] = EncodeLocator(id_, number);
    }
  }

  std::string packs() { return store_.store().packs_directory(); }

  // As a backup begins.
  KnownChunks& Open() {
    guard_ = *CollectionGuard::Begin(store_.store());
    KnownChunks::Options options{.memory_bytes = 0};
    options.look_up = [this](std::uint64_t epoch, std::span<const Digest> digests,
                             std::uint64_t& index_epoch, client::CallCancellation&) {
      EXPECT_EQ(epoch, guard_.epoch());
      return LookUp(digests, index_epoch);
    };
    options.on_look_up_failed = [this](const absl::Status&) { ++failure_count_; };
    known_ = std::make_unique<KnownChunks>(packs(), std::move(options));
    EXPECT_TRUE(known_->Open(guard_).ok());
    EXPECT_TRUE(known_->is_by_place());
    return *known_;
  }

  absl::StatusOr<std::vector<IndexAnswer>> LookUp(std::span<const Digest> digests,
                                                  std::uint64_t& index_epoch) {
    asked_.push_back(digests.size());
    index_epoch = 5;
    if (!status_.ok()) return status_;
    std::vector<IndexAnswer> answers;
    for (const Digest& digest : digests) {
      const auto entry = index_.find(digest);
      if (entry == index_.end()) {
        answers.emplace_back();
      } else {
        answers.push_back({IndexVerdict::kDuplicate, 0, entry->second});
      }
    }
    answers.resize(answers.size() + surplus_count_);
    return answers;
  }

  TestStore store_;
  PackId id_;
  std::vector<ChunkRef> chunks_;
  std::map<Digest, std::string> index_;
  CollectionGuard guard_;
  std::unique_ptr<KnownChunks> known_;
  absl::Status status_;
  std::size_t surplus_count_ = 0;
  std::vector<std::size_t> asked_;
  int failure_count_ = 0;
};

TEST_F(KnownChunksTest, ChunksAreAskedForAsManyAtOnceAsAnIndexTakes) {
  KnownChunks& known = Open();
  EXPECT_TRUE(known.HoldAll(chunks_));
  EXPECT_EQ(asked_, (std::vector<std::size_t>{kMaxIndexBatch, 100}));
  EXPECT_EQ(known.index_epoch(), 5u);
  // And once, if they were expected.
  known.Expect(chunks_);
  asked_.clear();
  EXPECT_TRUE(known.HoldAll(chunks_));
  EXPECT_TRUE(asked_.empty());
}

TEST_F(KnownChunksTest, OneThatTheIndexDoesNotKnowIsEnoughToReadTheFile) {
  index_.erase(chunks_[kLast].digest);
  KnownChunks& known = Open();
  EXPECT_FALSE(known.HoldAll(chunks_));
  known.Expect(chunks_);
  EXPECT_FALSE(known.HoldAll(chunks_));
  EXPECT_TRUE(known.HoldAll(std::span(chunks_).first(kLast)));
}

// Expected or not.
TEST_F(KnownChunksTest, NoWordOfTheIndexCountsWithoutALook) {
  std::swap(index_[chunks_[0].digest], index_[chunks_[kLast].digest]);
  const auto wrong = std::span(chunks_).last(1);
  EXPECT_FALSE(Open().HoldAll(wrong));
  known_->Expect(wrong);
  EXPECT_FALSE(known_->HoldAll(wrong));
  const auto right = std::span(chunks_).subspan(1, 1);
  EXPECT_TRUE(Open().HoldAll(right));
  ChunkRef longer = right.front();
  ++longer.length_bytes;
  EXPECT_FALSE(Open().HoldAll(std::span(&longer, 1)));
  std::filesystem::remove(PackPathIn(packs(), id_));
  EXPECT_FALSE(Open().HoldAll(right));
  known_->Expect(right);
  EXPECT_FALSE(known_->HoldAll(right));
}

TEST_F(KnownChunksTest, WhatACollectionWillDeleteIsNotHeld) {
  CollectionPlan plan;
  plan.target_epoch = 3;
  plan.packs = {{id_, std::vector<bool>(kChunkCount, false)}};
  plan.packs[0].condemned[kLast] = true;
  ASSERT_TRUE(
      WriteCollectionPlan(store_.store().plan_path(), store_.store().temporary_directory(), plan)
          .ok());
  KnownChunks& known = Open();
  EXPECT_TRUE(known.HoldAll(std::span(chunks_).first(kLast)));
  EXPECT_FALSE(known.HoldAll(std::span(chunks_).last(1)));
  EXPECT_FALSE(known.FindNamed(chunks_[kLast], index_[chunks_[kLast].digest]).has_value());
  EXPECT_TRUE(known.FindNamed(chunks_[0], index_[chunks_[0].digest]).has_value());
}

TEST_F(KnownChunksTest, AnIndexThatFailsOnceIsNotAskedAgain) {
  KnownChunks& known = Open();
  status_ = absl::UnavailableError("away");
  EXPECT_FALSE(known.HoldAll(chunks_));
  status_ = absl::OkStatus();
  EXPECT_FALSE(known.HoldAll(chunks_));
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_EQ(failure_count_, 1);
}

// Between one question and the next, and none of those that wait for an answer is held.
TEST_F(KnownChunksTest, NothingIsHeldOfWhichAnIndexThatFailedWasAsked) {
  KnownChunks& known = Open();
  EXPECT_TRUE(known.HoldAll(std::span(chunks_).first(1)));
  status_ = absl::UnavailableError("away");
  known.Expect(chunks_);
  EXPECT_FALSE(known.HoldAll(std::span(chunks_).first(1)));
  EXPECT_FALSE(known.HoldAll(std::span(chunks_).last(1)));
  EXPECT_EQ(failure_count_, 1);
}

TEST_F(KnownChunksTest, AnswersToSomethingElseAreAFailure) {
  surplus_count_ = 1;
  EXPECT_FALSE(Open().HoldAll(chunks_));
  EXPECT_EQ(failure_count_, 1);
}

// A list knows more than an index may.
TEST_F(KnownChunksTest, WithoutABoundAStoreIsListed) {
  const CollectionGuard guard = *CollectionGuard::Begin(store_.store());
  KnownChunks known(packs(), {});
  ASSERT_TRUE(known.Open(guard).ok());
  EXPECT_FALSE(known.is_by_place());
  EXPECT_TRUE(known.HoldAll(chunks_));
  KnownChunks bounded(packs(), {.memory_bytes = kChunkCount * 2 * kIndexBytesPerChunk - 1});
  ASSERT_TRUE(bounded.Open(guard).ok());
  EXPECT_TRUE(bounded.is_by_place());
}

TEST_F(KnownChunksTest, NoFootersAreReadForARunThatHasEnded) {
  const CollectionGuard guard = *CollectionGuard::Begin(store_.store());
  const std::atomic<bool> cancelled = true;
  KnownChunks listed(packs(), {.cancelled = &cancelled});
  EXPECT_TRUE(absl::IsCancelled(listed.Open(guard)));
  // Nor at the end, when a collection has come near.
  KnownChunks& known = Open();
  ASSERT_TRUE(store_.store().WriteEpoch(3).ok());
  const auto check = [&] {
    return known
        .Check(store_.store(),
               [this](ChunkReader&, const ChunkVisitor& visit) {
                 visit(chunks_[0]);
                 return absl::OkStatus();
               })
        .status();
  };
  EXPECT_TRUE(check().ok());
  EXPECT_FALSE(known.is_stopped());
  known.Stop();
  EXPECT_TRUE(known.is_stopped());
  EXPECT_TRUE(absl::IsCancelled(check()));
}

TEST_F(KnownChunksTest, NobodyIsToldOfAFailureThatHeWanted) {
  KnownChunks& known = Open();
  known.Stop();
  status_ = absl::CancelledError("");
  EXPECT_FALSE(known.HoldAll(chunks_));
  EXPECT_EQ(failure_count_, 0);
}

}  // namespace
}  // namespace kerf::agent
