#include "server/edge/epoch_raises.h"

#include <gtest/gtest.h>

#include <coroutine>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/task.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

const RepositoryId kHome{"home", DigestAlgorithm::kBlake3};
const RepositoryId kHomeXxh3{"home", DigestAlgorithm::kXxh3_128};
const RepositoryId kOther{"other", DigestAlgorithm::kBlake3};

// Raises when it is told to.
class HeldIndex final : public ForwardingIndex {
 public:
  HeldIndex() : ForwardingIndex(CreateMemoryIndex()) {}

  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    ++asked_count;
    struct Held {
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> waiter) const { waiters->push_back(waiter); }
      void await_resume() const {}
      std::vector<std::coroutine_handle<>>* waiters;
    };
    const Held held{&waiters};
    co_await held;
    if (!failure.ok()) co_return failure;
    co_return co_await ForwardingIndex::AdvanceEpoch(repository, epoch, min_before);
  }
  // Answers the call that was asked first.
  void Answer() {
    const std::coroutine_handle<> waiter = waiters.front();
    waiters.erase(waiters.begin());
    waiter.resume();
  }

  int asked_count = 0;
  absl::Status failure;
  std::vector<std::coroutine_handle<>> waiters;
};

class EpochRaisesTest : public testing::Test {
 protected:
  using Answers = std::vector<std::optional<EpochRaises::Answer>>;

  void Ask(std::optional<EpochRaises::Answer>& answer, const RepositoryId& repository,
           std::uint64_t epoch, std::uint64_t min_before) {
    Drive(raises_.Advance(repository, epoch, min_before), answer);
  }
  static Detached Drive(Task<EpochRaises::Answer> task,
                        std::optional<EpochRaises::Answer>& answer) {
    answer.emplace(co_await task);
  }
  static std::uint64_t Previous(const std::optional<EpochRaises::Answer>& answer) {
    EXPECT_TRUE(answer.has_value() && answer->previous_epoch.ok());
    return answer.has_value() && answer->previous_epoch.ok() ? *answer->previous_epoch : 999;
  }

  HeldIndex index_;
  EpochRaises raises_{&index_};
};

TEST_F(EpochRaisesTest, ARepeatJoinsWhatIsUnderWay) {
  Answers answers(3);
  for (auto& answer : answers) Ask(answer, kHome, 5, 0);
  EXPECT_EQ(index_.asked_count, 1);
  index_.Answer();
  EXPECT_TRUE(index_.waiters.empty());
  for (const auto& answer : answers) EXPECT_EQ(Previous(answer), 0u);
  EXPECT_FALSE(answers[0]->is_joined);
  EXPECT_TRUE(answers[1]->is_joined);
  EXPECT_TRUE(answers[2]->is_joined);
  // Behind it nothing is under way, and the index is asked.
  std::optional<EpochRaises::Answer> again;
  Ask(again, kHome, 5, 0);
  EXPECT_EQ(index_.asked_count, 2);
  index_.Answer();
  EXPECT_EQ(Previous(again), 5u);
  EXPECT_FALSE(again->is_joined);
}

TEST_F(EpochRaisesTest, WhatAsksForSomethingElseWaitsForItsTurn) {
  Answers answers(4);
  Ask(answers[0], kHome, 5, 0);
  Ask(answers[1], kHome, 6, 0);
  // The same epoch, of an index that shall have been told another one before.
  Ask(answers[2], kHome, 5, 5);
  Ask(answers[3], kHome, 6, 0);
  EXPECT_EQ(index_.asked_count, 1);
  index_.Answer();
  EXPECT_EQ(Previous(answers[0]), 0u);
  EXPECT_FALSE(answers[1].has_value());
  EXPECT_EQ(index_.waiters.size(), 1u);
  index_.Answer();
  EXPECT_EQ(Previous(answers[1]), 5u);
  // The last joins the one like it, whoever comes between.
  EXPECT_EQ(Previous(answers[3]), 5u);
  EXPECT_TRUE(answers[3]->is_joined);
  index_.Answer();
  ASSERT_TRUE(answers[2].has_value());
  // 5 lies behind 6.
  EXPECT_TRUE(absl::IsFailedPrecondition(answers[2]->previous_epoch.status()));
  EXPECT_EQ(index_.asked_count, 3);
}

TEST_F(EpochRaisesTest, OtherRepositoriesDoNotWait) {
  Answers answers(3);
  Ask(answers[0], kHome, 5, 0);
  Ask(answers[1], kOther, 5, 0);
  Ask(answers[2], kHomeXxh3, 5, 0);
  EXPECT_EQ(index_.waiters.size(), 3u);
  while (!index_.waiters.empty()) index_.Answer();
  for (const auto& answer : answers) EXPECT_EQ(Previous(answer), 0u);
}

TEST_F(EpochRaisesTest, AFailureIsTheRepeatsTooAndIsNotKept) {
  Answers answers(2);
  for (auto& answer : answers) Ask(answer, kHome, 5, 0);
  index_.failure = absl::UnavailableError("Redis is gone");
  index_.Answer();
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->previous_epoch.status(), index_.failure);
  }
  index_.failure = absl::OkStatus();
  std::optional<EpochRaises::Answer> again;
  Ask(again, kHome, 5, 0);
  index_.Answer();
  EXPECT_EQ(Previous(again), 0u);
}

// An index that works in the thread that asks.
TEST(EpochRaisesOfAQuickIndexTest, AnswersAtOnce) {
  const std::unique_ptr<Index> memory = CreateMemoryIndex();
  EpochRaises raises(memory.get());
  for (std::uint64_t epoch = 1; epoch < 4; ++epoch) {
    Task<EpochRaises::Answer> task = raises.Advance(kHome, epoch, epoch - 1);
    task.Start();
    ASSERT_TRUE(task.is_done());
    const EpochRaises::Answer answer = task.TakeValue();
    ASSERT_TRUE(answer.previous_epoch.ok());
    EXPECT_EQ(*answer.previous_epoch, epoch - 1);
  }
}

}  // namespace
}  // namespace kerf
