// What a stream reads ahead of what it works on: when, and how much beside others.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory_budget.h"
#include "base/shared_budget.h"
#include "base/thread_pool.h"
#include "server/index/memory_index.h"
#include "server/worker/buffer_pool.h"
#include "server/worker/stream_engine.h"
#include "server/worker/testing/engine_client.h"

namespace kerf {
namespace {

class EngineInputTest : public testing::Test {
 protected:
  static constexpr std::size_t kCutBufferBytes = 64 * 1024;

  void SetUp() override {
    context_.index = index_.get();
    context_.pool = &*pool_;
    context_.input_budget = &input_budget_;
    context_.work_budget = &work_budget_;
    context_.buffers = &buffers_;
    context_.input_budget_bytes = 100'000;
    context_.max_cut_buffer_bytes = kCutBufferBytes;
  }

  std::shared_ptr<StreamEngine> StreamOf(std::uint64_t share) {
    engines_.push_back(
        StreamEngine::Create(&context_, "session", std::make_shared<HeldSink>(), share));
    return engines_.back();
  }
  static void PushOpen(StreamEngine& engine, v1::Cutter cutter = v1::CUTTER_UNSPECIFIED) {
    v1::UploadRequest message;
    v1::Open& open = *message.add_frames()->mutable_open();
    open = OpenOf(kProfile, v1::DIGEST_ALGORITHM_XXH3_128);
    open.set_cutter(cutter);
    engine.Push(std::make_unique<RequestSource>(std::move(message)));
  }
  static void PushData(StreamEngine& engine, std::size_t size_bytes) {
    v1::UploadRequest message;
    message.add_frames()->set_data(std::string(size_bytes, 'x'));
    engine.Push(std::make_unique<RequestSource>(std::move(message)));
  }
  static void WaitUntilServed(const StreamEngine& engine) {
    while (engine.expecting() != StreamEngine::Expecting::kAnything) std::this_thread::yield();
  }
  // The one thread has nothing for anybody until the promise is kept.
  void HoldUp(std::promise<void>& may_go_on) {
    pool_->Post([&may_go_on] { may_go_on.get_future().wait(); });
  }
  void EndAll(std::promise<void>& may_go_on) {
    for (const auto& engine : engines_) engine->Cancel();
    may_go_on.set_value();
    pool_.reset();
    engines_.clear();
    EXPECT_EQ(input_budget_.total().used_bytes(), 0u);
    EXPECT_EQ(work_budget_.used_bytes(), 0u);
  }

  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  SharedBudget input_budget_{1u << 20};
  MemoryBudget work_budget_{1u << 20};
  BufferPool buffers_{kCutBufferBytes, 1};
  std::optional<ThreadPool> pool_{std::in_place, 1};
  EngineContext context_;
  std::vector<std::shared_ptr<StreamEngine>> engines_;
};

// Before it is open nobody knows what its messages count, nor for which repository.
TEST_F(EngineInputTest, NothingIsReadAheadOfAnOpen) {
  for (const v1::Cutter cutter : {v1::CUTTER_UNSPECIFIED, v1::CUTTER_CLIENT}) {
    pool_.reset();
    pool_.emplace(1);
    std::promise<void> may_open;
    HoldUp(may_open);
    const auto stream = StreamOf(1);
    EXPECT_TRUE(stream->wants_input());
    PushOpen(*stream, cutter);
    EXPECT_FALSE(stream->wants_input());
    may_open.set_value();
    WaitUntilServed(*stream);
    EXPECT_TRUE(stream->wants_input());
    std::promise<void> may_end;
    HoldUp(may_end);
    PushData(*stream, 1);
    // Where the client names its chunks one message is read behind the other to the end.
    EXPECT_EQ(stream->wants_input(), cutter == v1::CUTTER_UNSPECIFIED);
    EndAll(may_end);
  }
}

// Whose many streams have filled the budget leaves another's stream more than a message at a time.
TEST_F(EngineInputTest, SharesHaveTheirPart) {
  const auto first = StreamOf(1);
  const auto others = StreamOf(2);
  for (StreamEngine* const engine : {first.get(), others.get()}) {
    PushOpen(*engine);
    WaitUntilServed(*engine);
  }
  std::promise<void> may_begin;
  HoldUp(may_begin);
  PushData(*first, 40'000);
  EXPECT_TRUE(first->wants_input());
  // Of many streams the messages that have arrived may be several times the budget.
  while (input_budget_.total().used_bytes() < 2 * input_budget_.total().limit_bytes()) {
    PushData(*StreamOf(1), 40'000);
  }
  EXPECT_FALSE(first->wants_input());
  PushData(*others, 40'000);
  EXPECT_TRUE(others->wants_input());
  // As much as is any stream's own.
  PushData(*others, 60'000);
  EXPECT_FALSE(others->wants_input());
  EndAll(may_begin);
}

}  // namespace
}  // namespace kerf
