#include "server/net/call_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace kerf {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A stream, idle since then, or any other call, which never is.
struct FakeCall {
  ~FakeCall() {
    if (on_end) on_end();
  }

  bool CheckTime(TimePoint /*now*/) const { return is_too_slow; }
  nanoseconds IdleTime(TimePoint now) const {
    return idle_since.has_value() ? now - *idle_since : nanoseconds(0);
  }
  bool EvictIfIdle(TimePoint now, nanoseconds idle_time) {
    if (is_awake || IdleTime(now) < idle_time) return false;
    is_evicted = true;
    idle_since.reset();
    return true;
  }
  void Drain(milliseconds drain) { drains.push_back(drain); }
  void Fail(const absl::Status& status) { failure = status; }

  std::optional<TimePoint> idle_since;
  // Something has come since it was chosen.
  bool is_awake = false;
  bool is_too_slow = false;
  bool is_evicted = false;
  std::vector<milliseconds> drains;
  absl::Status failure;
  std::function<void()> on_end;
};

using Registry = CallRegistry<FakeCall, 2>;
constexpr std::size_t kOther = 1;

class CallRegistryTest : public testing::Test {
 protected:
  static constexpr milliseconds kIdleEvict{30'000};

  static Registry::Limits LimitsOf(std::size_t max_streams) {
    return {.max_calls = {max_streams, 1}, .idle_evict = kIdleEvict};
  }
  // That has entered, and has been idle for so long by now.
  std::shared_ptr<FakeCall> AddStream(Registry& registry, std::optional<nanoseconds> idle) {
    EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kEntered);
    auto call = std::make_shared<FakeCall>();
    if (idle.has_value()) call->idle_since = now_ - *idle;
    registry.Add(call);
    return call;
  }

  TimePoint now_ = TimePoint(std::chrono::hours(1));
};

TEST_F(CallRegistryTest, EachKindHasPlacesOfItsOwn) {
  Registry registry(LimitsOf(2));
  const auto first = AddStream(registry, std::nullopt);
  AddStream(registry, std::nullopt);
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kFull);
  EXPECT_EQ(registry.Enter(kOther, now_), Registry::Entry::kEntered);
  EXPECT_EQ(registry.Enter(kOther, now_), Registry::Entry::kFull);
  EXPECT_EQ(registry.count(Registry::kStreams), 2u);
  EXPECT_EQ(registry.count(kOther), 1u);
  registry.Leave(first.get(), Registry::kStreams);
  EXPECT_EQ(registry.count(Registry::kStreams), 1u);
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kEntered);
}

TEST_F(CallRegistryTest, WhoIsIdleForLongestMakesRoom) {
  Registry registry(LimitsOf(3));
  const auto busy = AddStream(registry, std::nullopt);
  const auto idle = AddStream(registry, kIdleEvict);
  const auto idlest = AddStream(registry, 2 * kIdleEvict);
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kEntered);
  EXPECT_TRUE(idlest->is_evicted);
  EXPECT_FALSE(idle->is_evicted);
  EXPECT_EQ(registry.count(Registry::kStreams), 4u);
  EXPECT_EQ(registry.evicted_count(), 1u);
  // It is gone at last: its place was given away already.
  registry.Leave(idlest.get(), Registry::kStreams);
  EXPECT_EQ(registry.count(Registry::kStreams), 3u);
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kEntered);
  EXPECT_TRUE(idle->is_evicted);
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kFull);
  EXPECT_FALSE(busy->is_evicted);
}

TEST_F(CallRegistryTest, WhoIsEndedForOthersIsAsGoodAsGone) {
  Registry registry(LimitsOf(3));
  const auto busy = AddStream(registry, std::nullopt);
  const auto idle = AddStream(registry, kIdleEvict);
  const auto idlest = AddStream(registry, 2 * kIdleEvict);
  AddStream(registry, std::nullopt);
  EXPECT_TRUE(idlest->is_evicted);
  registry.Leave(busy.get(), Registry::kStreams);
  // A place is free, though three have not left yet.
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kEntered);
  EXPECT_FALSE(idle->is_evicted);
}

// For other calls nobody makes room.
TEST_F(CallRegistryTest, OnlyAStreamTakesAStreamsPlace) {
  Registry registry(LimitsOf(1));
  const auto idle = AddStream(registry, 2 * kIdleEvict);
  EXPECT_EQ(registry.Enter(kOther, now_), Registry::Entry::kEntered);
  EXPECT_EQ(registry.Enter(kOther, now_), Registry::Entry::kFull);
  EXPECT_FALSE(idle->is_evicted);
}

TEST_F(CallRegistryTest, WhoWakesUpKeepsHisPlace) {
  Registry registry(LimitsOf(1));
  const auto idle = AddStream(registry, kIdleEvict);
  idle->is_awake = true;
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kFull);
  EXPECT_EQ(registry.evicted_count(), 0u);
}

TEST_F(CallRegistryTest, ThatNobodyIsIdleHoldsForAMoment) {
  Registry registry(LimitsOf(1));
  const auto idle = AddStream(registry, kIdleEvict - milliseconds(1));
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kFull);
  now_ += Registry::kEvictPause - milliseconds(1);
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kFull);
  now_ += milliseconds(1);
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kEntered);
  EXPECT_TRUE(idle->is_evicted);
}

TEST_F(CallRegistryTest, ThoseWhoHoldOnArePutUpWithToALimit) {
  Registry registry(LimitsOf(1));
  std::vector<std::shared_ptr<FakeCall>> calls = {AddStream(registry, kIdleEvict)};
  for (std::size_t index = 0; index < Registry::kMaxEvicted; ++index) {
    calls.push_back(AddStream(registry, kIdleEvict));
  }
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kFull);
  EXPECT_EQ(registry.evicted_count(), Registry::kMaxEvicted);
  registry.Leave(calls.front().get(), Registry::kStreams);
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kEntered);
}

TEST_F(CallRegistryTest, OneOfSomeMakesRoom) {
  Registry registry(LimitsOf(2));
  const auto meant = AddStream(registry, kIdleEvict);
  const auto idlest = AddStream(registry, 2 * kIdleEvict);
  const auto is_meant = [&](const FakeCall& call) { return &call == meant.get(); };
  EXPECT_TRUE(registry.EvictIdle(now_, is_meant));
  EXPECT_TRUE(meant->is_evicted);
  EXPECT_FALSE(registry.EvictIdle(now_, is_meant));
  // That says nothing of the others.
  EXPECT_TRUE(registry.EvictIdle(now_, [](const FakeCall&) { return true; }));
  EXPECT_TRUE(idlest->is_evicted);
}

TEST_F(CallRegistryTest, WhoDrainsTellsAllAndTakesNobody) {
  Registry registry(LimitsOf(3));
  const auto early = AddStream(registry, std::nullopt);
  ASSERT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kEntered);
  registry.Drain(milliseconds(5));
  registry.Drain(milliseconds(7));
  EXPECT_TRUE(registry.is_draining());
  EXPECT_THAT(early->drains, testing::ElementsAre(milliseconds(5)));
  EXPECT_EQ(registry.Enter(Registry::kStreams, now_), Registry::Entry::kDraining);
  // It had entered before.
  const auto late = std::make_shared<FakeCall>();
  registry.Add(late);
  EXPECT_THAT(late->drains, testing::ElementsAre(milliseconds(5)));
}

TEST_F(CallRegistryTest, ThoseThatWereTooSlowAreCounted) {
  Registry registry(LimitsOf(3));
  const auto slow = AddStream(registry, std::nullopt);
  AddStream(registry, std::nullopt);
  slow->is_too_slow = true;
  EXPECT_EQ(registry.CheckTime(now_), 1u);
}

TEST_F(CallRegistryTest, AllFail) {
  Registry registry(LimitsOf(2));
  const auto one = AddStream(registry, std::nullopt);
  const auto other = AddStream(registry, std::nullopt);
  registry.FailAll(absl::AbortedError("over"));
  EXPECT_EQ(one->failure, absl::AbortedError("over"));
  EXPECT_EQ(other->failure, absl::AbortedError("over"));
}

// The end of a call may ask the registry: with its lock held that would hang.
TEST_F(CallRegistryTest, ACallEndsWithoutTheLock) {
  Registry registry(LimitsOf(1));
  std::size_t count_at_end = 1;
  auto call = AddStream(registry, std::nullopt);
  call->on_end = [&] { count_at_end = registry.count(Registry::kStreams); };
  const FakeCall* const key = call.get();
  call.reset();
  registry.Leave(key, Registry::kStreams);
  EXPECT_EQ(count_at_end, 0u);
}

}  // namespace
}  // namespace kerf
