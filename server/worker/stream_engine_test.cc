// Engines without gRPC: many strands on one pool, with sinks that take answers when they like,
// under budgets that are too small for all of them at once. Runs under the thread sanitizer.
#include "server/worker/stream_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/shared_budget.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "server/errors/errors.h"
#include "server/index/memory_index.h"
#include "server/index/testing/late_index.h"
#include "server/worker/buffer_pool.h"
#include "server/worker/testing/engine_client.h"

namespace kerf {
namespace {

enum class Answers { kAtOnce, kLate };

class StreamEngineTest : public testing::TestWithParam<Answers> {
 protected:
  static constexpr std::size_t kCutBufferBytes = 64 * 1024;

  void SetUp() override {
    context_.index = index_.get();
    if (GetParam() == Answers::kLate) {
      late_index_.emplace(index_.get(), Random(TestSeed()).Next());
      context_.index = &*late_index_;
    }
    context_.pool = &*pool_;
    context_.input_budget = &input_budget_;
    context_.work_budget = &work_budget_;
    context_.buffers = &buffers_;
    context_.input_budget_bytes = 100'000;
    context_.answer_budget_bytes = 2'000;
    context_.max_cut_buffer_bytes = kCutBufferBytes;
  }
  void TearDown() override {
    // Streams that were cancelled may ask once more.
    if (late_index_.has_value()) late_index_->Close();
    pool_.reset();
    late_index_.reset();
    EXPECT_EQ(input_budget_.total().used_bytes(), 0u);
    EXPECT_EQ(work_budget_.used_bytes(), 0u);
  }

  // Whoever answers for the index only wakes a stream.
  std::shared_ptr<HeldSink> MakeSink() const {
    auto sink = std::make_shared<HeldSink>();
    if (late_index_.has_value()) sink->forbidden_thread = late_index_->thread_id();
    return sink;
  }
  void ExpectNothingHeldSoon() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (input_budget_.total().used_bytes() + work_budget_.used_bytes() > 0 &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(input_budget_.total().used_bytes(), 0u);
    EXPECT_EQ(work_budget_.used_bytes(), 0u);
  }

  // It waits for its client. Read one after the other, each may be so of another moment: no turn
  // may lie between them.
  static bool IsAtRest(const StreamEngine& engine) {
    const std::uint64_t turn_count = engine.turn_count();
    return !engine.is_busy() && engine.waiting() == StreamEngine::Waiting::kNothing &&
           !engine.is_busy() && engine.turn_count() == turn_count;
  }

  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::optional<LateIndex> late_index_;
  SharedBudget input_budget_{1u << 20};
  // Room for the tables of all streams, but for two cut buffers only.
  MemoryBudget work_budget_{8 * 64 * 1024 + 3 * kCutBufferBytes};
  BufferPool buffers_{kCutBufferBytes, 1};
  std::optional<ThreadPool> pool_{std::in_place, 4};
  EngineContext context_;
};

TEST_P(StreamEngineTest, ManyStreamsUnderSmallBudgets) {
  std::vector<std::thread> clients;
  clients.reserve(8);
  Random seeds(TestSeed());
  std::atomic<int> served{0};
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, seed = seeds.Next()] {
      Random random(seed);
      const std::vector<File> files = MakeFiles(random, 12, 120'000);
      auto sink = MakeSink();
      const auto engine = StreamEngine::Create(&context_, "session", sink);
      const absl::Status status = RunUpload(random, files, *sink, *engine, [] {});
      if (ReasonNameOf(status) == "MEMORY_EXHAUSTED") return;
      ASSERT_TRUE(status.ok()) << status;
      std::vector<std::vector<std::uint64_t>> got(files.size());
      for (const v1::UploadAnswer& answer : sink->taken().answers()) {
        for (const v1::Chunk& chunk : answer.chunks().chunks()) {
          got[answer.chunks().file_number() - 1].push_back(chunk.end_offset());
        }
      }
      for (std::size_t index = 0; index < files.size(); ++index) {
        ASSERT_EQ(got[index], files[index].end_offsets);
      }
      ++served;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(served.load(), 0);
}

TEST_P(StreamEngineTest, EndsInTheMiddleOfAnything) {
  std::vector<std::thread> clients;
  clients.reserve(8);
  Random seeds(TestSeed());
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client, seed = seeds.Next()] {
      Random random(seed);
      const std::vector<File> files = MakeFiles(random, 6, 60'000);
      for (int round = 0; round < 5; ++round) {
        auto sink = MakeSink();
        const auto engine = StreamEngine::Create(&context_, "session", sink);
        const absl::Status status = RunUpload(random, files, *sink, *engine, [&] {
          if (!random.OneIn(6)) return;
          if (client % 3 == 0) {
            engine->Drain(std::chrono::milliseconds(1));
          } else if (client % 3 == 1) {
            engine->Fail(MakeError(Reason::kOpenTimeout, "the test says so"));
          } else {
            // As the transport does: it ends the call itself, and cancels twice.
            sink->EndByTransport();
            engine->Cancel();
            engine->Cancel();
          }
        });
        if (client % 3 == 0) {
          EXPECT_TRUE(status.ok() || ReasonNameOf(status) == "DRAINING" ||
                      ReasonNameOf(status) == "MEMORY_EXHAUSTED")
              << status;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

// Tells who has ended when.
class EndingSink final : public StreamSink {
 public:
  EndingSink(char name, std::string* ended) : name_(name), ended_(*ended) {}

  void Send(std::string /*encoded_answers*/) override {}
  std::size_t unsent_bytes() const override { return 0; }
  void ResumeInput() override {}
  void Finish(const absl::Status& /*status*/) override { ended_ += name_; }

 private:
  const char name_;
  std::string& ended_;
};

// Whose streams are many has no more turns by it.
TEST_P(StreamEngineTest, SharesHaveTheirTurns) {
  pool_.reset();
  pool_.emplace(1);
  std::promise<void> may_begin;
  pool_->Post([&] { may_begin.get_future().wait(); });
  std::string ended;
  std::vector<std::shared_ptr<StreamEngine>> engines;
  const auto add = [&](char name, std::uint64_t share) {
    engines.push_back(StreamEngine::Create(&context_, "session",
                                           std::make_shared<EndingSink>(name, &ended), share));
    engines.back()->HalfClose();
  };
  for (int count = 0; count < 10; ++count) add('a', 1);
  add('b', 2);
  may_begin.set_value();
  pool_.reset();
  EXPECT_EQ(ended, "abaaaaaaaaa");
}

// The transport keeps an engine until its client has taken the status.
TEST_P(StreamEngineTest, AStreamThatHasEndedHoldsNoInput) {
  Random random(TestSeed());
  const auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  for (v1::UploadRequest& message : MakeMessages(random, MakeFiles(random, 6, 60'000))) {
    engine->Push(std::make_unique<RequestSource>(std::move(message)));
  }
  engine->Fail(MakeError(Reason::kOpenTimeout, "the test says so"));
  ExpectNothingHeldSoon();
}

// A digest that stands for chunks of two lengths is nobody's duplicate.
TEST_P(StreamEngineTest, AnEntryOfAnotherLengthIsNoDuplicate) {
  Random random(TestSeed());
  std::vector<File> files = MakeFiles(random, 1, 1);
  files[0] = {std::string(500, 'x'), {500}};
  for (const std::uint32_t length_bytes : {500u, 501u}) {
    const RepositoryId repository{"home", DigestAlgorithm::kXxh3_128};
    const Digest digest = Fingerprint(DigestAlgorithm::kXxh3_128, AsBytes(files[0].content));
    ASSERT_TRUE(
        WaitFor(index_->Commit(repository, 1, {{{digest, length_bytes, "here"}}}, true)).ok());
    const auto sink = MakeSink();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    const absl::Status status = RunUpload(random, files, *sink, *engine, [] {});
    ASSERT_TRUE(status.ok()) << status;
    for (const v1::UploadAnswer& answer : sink->taken().answers()) {
      if (!answer.has_chunks()) continue;
      EXPECT_EQ(answer.chunks().chunks(0).verdict(),
                length_bytes == 500 ? v1::VERDICT_DUPLICATE : v1::VERDICT_NEW);
    }
  }
}

// Others get the thread meanwhile, however long the stream's cutting takes.
TEST_P(StreamEngineTest, ALongMessageIsWorkedOffInManyTurns) {
  constexpr std::size_t kStepBytes = 64 * 1024;
  context_.turn_time = std::chrono::nanoseconds(0);
  context_.answer_budget_bytes = 1u << 20;
  v1::UploadRequest request;
  *request.add_frames()->mutable_open() = OpenOf("fixed:size=32768", v1::DIGEST_ALGORITHM_XXH3_128);
  request.add_frames()->mutable_file_begin();
  request.add_frames()->set_data(std::string(20 * kStepBytes, 'x'));
  const auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  engine->Push(std::make_unique<RequestSource>(request));
  while (engine->expecting() != StreamEngine::Expecting::kFile) std::this_thread::yield();
  EXPECT_GE(engine->turn_count(), 19u);
  engine->Cancel();
}

// However little is in each of its frames.
TEST_P(StreamEngineTest, AMessageOfManyFramesIsWorkedOffInManyTurns) {
  constexpr std::uint64_t kFrameCount = 1'600;
  context_.turn_time = std::chrono::nanoseconds(0);
  v1::UploadRequest request;
  *request.add_frames()->mutable_open() = OpenOf(kProfile, v1::DIGEST_ALGORITHM_XXH3_128);
  request.add_frames()->mutable_file_begin();
  for (std::uint64_t frame = 0; frame < kFrameCount; ++frame) request.add_frames()->set_data("");
  const auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  engine->Push(std::make_unique<RequestSource>(request));
  while (engine->expecting() != StreamEngine::Expecting::kFile) std::this_thread::yield();
  EXPECT_GE(engine->turn_count(), kFrameCount / 16);
  engine->Cancel();
}

TEST_P(StreamEngineTest, WhereOthersWaitTurnsAreShort) {
  // Who waits for each answer has as many turns.
  if (GetParam() == Answers::kLate) return;
  constexpr std::size_t kStepBytes = 64 * 1024;
  for (const bool do_others_wait : {false, true}) {
    pool_.reset();
    pool_.emplace(1);
    context_.turn_time = std::chrono::hours(1);
    context_.shared_turn_time = std::chrono::nanoseconds(0);
    context_.answer_budget_bytes = 1u << 20;
    v1::UploadRequest request;
    *request.add_frames()->mutable_open() =
        OpenOf("fixed:size=32768", v1::DIGEST_ALGORITHM_XXH3_128);
    request.add_frames()->mutable_file_begin();
    request.add_frames()->set_data(std::string(20 * kStepBytes, 'x'));
    const auto sink = MakeSink();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    // One that waits for a thread all the time.
    std::atomic<bool> is_over = !do_others_wait;
    std::function<void()> wait = [&] {
      if (!is_over.load()) pool_->Post(wait);
    };
    pool_->Post(wait);
    engine->Push(std::make_unique<RequestSource>(request));
    while (engine->expecting() != StreamEngine::Expecting::kFile) std::this_thread::yield();
    is_over.store(true);
    if (do_others_wait) {
      EXPECT_GE(engine->turn_count(), 19u);
    } else {
      EXPECT_LT(engine->turn_count(), 19u);
    }
    engine->Cancel();
    pool_.reset();
  }
}

// What the index has answered is not what it is blamed for.
TEST_P(StreamEngineTest, WhatIsAnsweredWaitsForAThread) {
  // Who is answered at once never waits.
  if (GetParam() != Answers::kLate) return;
  using Waiting = StreamEngine::Waiting;
  pool_.reset();
  pool_.emplace(1);
  late_index_->HoldBack(true);
  Random random(TestSeed());
  const std::vector<File> files = {{std::string(500, 'x'), {500}}};
  const auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  for (v1::UploadRequest& message : MakeMessages(random, files)) {
    engine->Push(std::make_unique<RequestSource>(std::move(message)));
  }
  while (engine->is_busy() || engine->waiting() != Waiting::kLookup) std::this_thread::yield();
  std::mutex busy;
  std::unique_lock lock(busy);
  pool_->Post([&busy] { const std::lock_guard wait(busy); });
  late_index_->HoldBack(false);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (engine->waiting() == Waiting::kLookup && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(engine->waiting(), Waiting::kThread);
  lock.unlock();
  engine->Cancel();
  // The task has the mutex until it is done.
  pool_.reset();
}

// Whoever ends silent streams must not take one for silent whose message waits to be worked on.
TEST_P(StreamEngineTest, WhileInputWaitsNothingIsExpected) {
  Random random(TestSeed());
  const auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  const std::vector<v1::UploadRequest> one_file = MakeMessages(random, MakeFiles(random, 1, 1));
  engine->Push(std::make_unique<RequestSource>(one_file[0]));
  v1::UploadRequest small;
  for (int frame = 1; frame < one_file[0].frames_size(); ++frame) {
    *small.add_frames() = one_file[0].frames(frame);
  }
  // More answers than the client is sent before it reads.
  v1::UploadRequest large;
  for (int file = 0; file < 500; ++file) large.MergeFrom(small);
  const auto wait_for_dry = [&] {
    while (engine->expecting() != StreamEngine::Expecting::kAnything) {
      if (sink->Take()) engine->AnswersTaken();
    }
    while (sink->Take()) engine->AnswersTaken();
  };
  // A sanitizer makes few rounds in that time.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  for (int round = 0; round < 1000 && std::chrono::steady_clock::now() < end; ++round) {
    wait_for_dry();
    engine->Push(std::make_unique<RequestSource>(small));
    // Somewhere around the moment in which that one is done.
    for (std::uint64_t spin = random.Below(2000); spin > 0; --spin) engine->wants_input();
    engine->Push(std::make_unique<RequestSource>(large));
    while (sink->unsent_bytes() < context_.answer_budget_bytes) std::this_thread::yield();
    ASSERT_EQ(engine->expecting(), StreamEngine::Expecting::kNothing) << round;
  }
  engine->Cancel();
}

// However many chunks a message has, its answers go no further than the client reads.
TEST_P(StreamEngineTest, AMessageIsServedAsFarAsTheClientReads) {
  constexpr const char* kSmallChunks = "fastcdc:min=64,avg=256,max=1024,level=1";
  Random random(TestSeed());
  std::vector<File> files = MakeFiles(random, 1, 1, kSmallChunks);
  while (files[0].end_offsets.size() < 3000) files = MakeFiles(random, 1, 1'000'000, kSmallChunks);
  v1::UploadRequest request;
  *request.add_frames()->mutable_open() = OpenOf(kSmallChunks, v1::DIGEST_ALGORITHM_XXH3_128);
  request.add_frames()->mutable_file_begin();
  request.add_frames()->set_data(files[0].content);
  const auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  engine->Push(std::make_unique<RequestSource>(request));
  const auto chunk_count = [&] {
    std::size_t count = 0;
    for (const v1::UploadAnswer& answer : sink->taken().answers()) {
      count += static_cast<std::size_t>(answer.chunks().chunks_size());
    }
    return count;
  };
  // A cut buffer full of chunks, if they were the smallest.
  constexpr std::size_t kMostAtOnce = kCutBufferBytes / 64;
  while (engine->expecting() != StreamEngine::Expecting::kFile) {
    while (!IsAtRest(*engine)) std::this_thread::yield();
    const std::size_t before_count = chunk_count();
    ASSERT_TRUE(sink->Take() || engine->expecting() == StreamEngine::Expecting::kFile);
    ASSERT_LE(chunk_count() - before_count, kMostAtOnce);
    engine->AnswersTaken();
  }
  while (sink->Take()) continue;
  // Those of the last 1,024 bytes depend on what follows.
  EXPECT_GE(chunk_count(), files[0].end_offsets.size() - 1024 / 64);
  engine->Cancel();
}

// Not for a moment, between an answer and the turn that takes it, and not for long, when somebody
// else wakes it in that moment: a watchdog would take it for a stream that waits for its client.
TEST_P(StreamEngineTest, WhileAnAnswerIsOnItsWayItIsNotAtRest) {
  constexpr const char* kSmallChunks = "fastcdc:min=64,avg=256,max=1024,level=1";
  Random random(TestSeed());
  std::string content(1'000'000, 0);
  for (char& byte : content) byte = static_cast<char>(random.Next());
  v1::UploadRequest request;
  *request.add_frames()->mutable_open() = OpenOf(kSmallChunks, v1::DIGEST_ALGORITHM_XXH3_128);
  request.add_frames()->mutable_file_begin();
  request.add_frames()->set_data(content);
  for (int round = 0; round < 5; ++round) {
    const auto sink = MakeSink();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    engine->Push(std::make_unique<RequestSource>(request));
    std::atomic<bool> is_over{false};
    std::thread waker([&] {
      while (!is_over.load()) engine->AnswersTaken();
    });
    bool has_more = true;
    while (has_more && engine->expecting() != StreamEngine::Expecting::kFile) {
      while (!IsAtRest(*engine)) continue;
      has_more = sink->Take();
      engine->AnswersTaken();
    }
    is_over.store(true);
    waker.join();
    EXPECT_EQ(engine->expecting(), StreamEngine::Expecting::kFile) << round;
    engine->Cancel();
  }
}

TEST_P(StreamEngineTest, AStreamThatWaitsForItsClientHoldsAlmostNothing) {
  Random random(TestSeed());
  auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  v1::UploadRequest request = MakeMessages(random, {})[0];
  request.add_frames()->mutable_file_begin();
  request.add_frames()->set_data(std::string(100'000, 'x'));
  EXPECT_EQ(engine->expecting(), StreamEngine::Expecting::kOpen);
  engine->Push(std::make_unique<RequestSource>(request));
  while (engine->expecting() != StreamEngine::Expecting::kFile) {
    if (sink->Take()) engine->AnswersTaken();
    sink->Pause();
  }
  EXPECT_EQ(input_budget_.total().used_bytes(), 0u);
  EXPECT_LT(work_budget_.used_bytes(), 64u * 1024);
  // What is not cut, and nothing of the calls that were answered.
  const auto chunker = MakeChunker(*ParseProfile(kProfile));
  const std::string content(100'000, 'x');
  Bytes rest = AsBytes(content);
  while (rest.size() >= chunker->max_chunk_bytes()) rest = rest.subspan(chunker->NextCut(rest));
  EXPECT_EQ(work_budget_.used_bytes(), engine->session_bytes() + rest.size());
  engine->Cancel();
}

// All that a stream writes: chunks that are new, some that are stale, and some a second time.
TEST_P(StreamEngineTest, WhatIsCommittedAndReportedGoesThroughTheIndex) {
  Random random(TestSeed());
  const std::vector<File> files = MakeFiles(random, 3, 60'000);
  const RepositoryId repository{"home", DigestAlgorithm::kXxh3_128};
  for (const bool again : {false, true}) {
    const auto sink = MakeSink();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    for (v1::UploadRequest& message : MakeMessages(random, files)) {
      engine->Push(std::make_unique<RequestSource>(std::move(message)));
    }
    std::size_t expected_count = 0;
    for (const File& file : files) expected_count += file.end_offsets.size();
    const auto wait_for = [&](auto count_of, std::size_t count) {
      while (!sink->final_status().has_value()) {
        if (sink->Take()) engine->AnswersTaken();
        std::size_t seen = 0;
        for (const v1::UploadAnswer& answer : sink->taken().answers()) seen += count_of(answer);
        if (seen >= count) break;
        sink->Pause();
      }
    };
    wait_for(
        [](const v1::UploadAnswer& answer) {
          return static_cast<std::size_t>(answer.chunks().chunks_size());
        },
        expected_count);
    v1::UploadRequest commits;
    std::size_t commit_count = 0;
    for (const v1::UploadAnswer& answer : sink->taken().answers()) {
      for (const v1::Chunk& chunk : answer.chunks().chunks()) {
        EXPECT_EQ(chunk.verdict() == v1::VERDICT_DUPLICATE, again);
        if (again) {
          v1::CommitEntry& stale = *commits.add_frames()->mutable_report_stale()->add_entries();
          stale.set_digest(chunk.digest());
          stale.set_locator("first");
        }
        // The second time nothing is to be done.
        for (int repeat = 0; repeat < 2; ++repeat) {
          v1::CommitEntry& entry = *commits.add_frames()->mutable_commit()->add_entries();
          entry.set_digest(chunk.digest());
          entry.set_locator(again ? "second" : "first");
          ++commit_count;
        }
      }
    }
    engine->Push(std::make_unique<RequestSource>(commits));
    wait_for([](const v1::UploadAnswer& answer) { return answer.has_committed() ? 1u : 0u; },
             commit_count);
    engine->HalfClose();
    wait_for([](const v1::UploadAnswer&) { return 0u; }, 1);
    ASSERT_TRUE(sink->final_status()->ok()) << *sink->final_status();
    const auto entries = WaitFor(index_->Scan(repository, std::nullopt, expected_count));
    ASSERT_TRUE(entries.ok());
    EXPECT_EQ(entries->size(), expected_count);
    for (const IndexEntry& entry : *entries) EXPECT_EQ(entry.locator, again ? "second" : "first");
  }
}

// However long it takes: whoever watches sees what the stream waits for, and that it does not move.
// It is the index that is late, and has a deadline.
TEST_P(StreamEngineTest, WhoeverWaitsForTheIndexSaysSoAndIsNotBusy) {
  if (GetParam() == Answers::kAtOnce) GTEST_SKIP() << "nobody ever waits for it";
  Random random(TestSeed());
  const auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  late_index_->HoldBack(true);
  const std::vector<File> files = {{std::string(10'000, 'x'), {}}};
  for (v1::UploadRequest& message : MakeMessages(random, files)) {
    engine->Push(std::make_unique<RequestSource>(std::move(message)));
  }
  late_index_->WaitForCalls(1);
  const std::uint64_t turn_count = engine->turn_count();
  engine->HalfClose();
  engine->AnswersTaken();
  while (engine->is_busy()) std::this_thread::yield();
  EXPECT_EQ(engine->waiting(), StreamEngine::Waiting::kLookup);
  EXPECT_LE(engine->turn_count(), turn_count + 1);
  EXPECT_EQ(engine->expecting(), StreamEngine::Expecting::kNothing);
  late_index_->HoldBack(false);
  while (!sink->final_status().has_value()) {
    if (sink->Take()) engine->AnswersTaken();
    sink->Pause();
  }
  while (engine->is_busy()) std::this_thread::yield();
  EXPECT_GT(engine->turn_count(), turn_count);
}

// However long it takes: what a stream has asked outlives it, and nothing else of it does.
TEST_P(StreamEngineTest, AStreamThatEndsWhileTheIndexIsSilentHoldsNothing) {
  if (GetParam() == Answers::kAtOnce) GTEST_SKIP() << "nobody ever waits for it";
  Random random(TestSeed());
  enum class End { kFail, kCancel, kLetGo };
  for (const End end : {End::kFail, End::kCancel, End::kLetGo}) {
    const auto sink = MakeSink();
    auto engine = StreamEngine::Create(&context_, "session", sink);
    late_index_->HoldBack(true);
    for (v1::UploadRequest& message : MakeMessages(random, {{std::string(30'000, 'x'), {}}})) {
      engine->Push(std::make_unique<RequestSource>(std::move(message)));
    }
    late_index_->WaitForCalls(1);
    switch (end) {
      case End::kFail:
        engine->Fail(MakeError(Reason::kOpenTimeout, "the test says so"));
        break;
      case End::kCancel:
        sink->EndByTransport();
        engine->Cancel();
        break;
      case End::kLetGo:
        engine.reset();
        break;
    }
    ExpectNothingHeldSoon();
    if (end == End::kFail) {
      EXPECT_EQ(ReasonNameOf(*sink->final_status()), "OPEN_TIMEOUT");
    }
    // The answer is awaited no more.
    while (engine != nullptr && engine->waiting() != StreamEngine::Waiting::kNothing) {
      std::this_thread::yield();
    }
    late_index_->HoldBack(false);
    late_index_->WaitUntilIdle();
  }
}

// The promise that comes first: a file is durable up to where the index has said so, and no sooner.
TEST_P(StreamEngineTest, NothingIsCommittedBeforeTheIndexHasAnswered) {
  if (GetParam() == Answers::kAtOnce) GTEST_SKIP() << "it has answered";
  Random random(TestSeed());
  const std::vector<File> files = MakeFiles(random, 1, 60'000);
  const RepositoryId repository{"home", DigestAlgorithm::kXxh3_128};
  const auto sink = MakeSink();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  for (v1::UploadRequest& message : MakeMessages(random, files)) {
    engine->Push(std::make_unique<RequestSource>(std::move(message)));
  }
  const auto pump = [&](auto is_done) {
    while (!is_done() && !sink->final_status().has_value()) {
      if (sink->Take()) engine->AnswersTaken();
      sink->Pause();
    }
  };
  v1::UploadRequest commit;
  commit.add_frames()->mutable_commit();
  const auto count_of = [&](auto is_kind) {
    return std::count_if(sink->taken().answers().begin(), sink->taken().answers().end(), is_kind);
  };
  pump([&] { return engine->expecting() == StreamEngine::Expecting::kAnything; });
  while (sink->Take()) engine->AnswersTaken();
  std::size_t chunk_count = 0;
  for (const v1::UploadAnswer& answer : sink->taken().answers()) {
    for (const v1::Chunk& chunk : answer.chunks().chunks()) {
      v1::CommitEntry& entry = *commit.mutable_frames(0)->mutable_commit()->add_entries();
      entry.set_digest(chunk.digest());
      entry.set_locator("pack");
      ++chunk_count;
    }
  }
  ASSERT_EQ(chunk_count, files[0].end_offsets.size());
  late_index_->HoldBack(true);
  engine->Push(std::make_unique<RequestSource>(commit));
  late_index_->WaitForCalls(1);
  EXPECT_EQ(engine->waiting(), StreamEngine::Waiting::kCommit);
  // Whatever wakes it meanwhile.
  for (int round = 0; round < 50; ++round) {
    engine->AnswersTaken();
    sink->Pause();
    sink->Take();
  }
  EXPECT_EQ(count_of([](const auto& answer) { return answer.has_committed(); }), 0);
  EXPECT_EQ(count_of([](const auto& answer) { return answer.has_file_done(); }), 0);
  EXPECT_TRUE(WaitFor(index_->Scan(repository, std::nullopt, 1))->empty());
  late_index_->HoldBack(false);
  pump([&] { return count_of([](const auto& answer) { return answer.has_committed(); }) > 0; });
  EXPECT_EQ(WaitFor(index_->Scan(repository, std::nullopt, 1'000))->size(), chunk_count);
  engine->HalfClose();
  pump([] { return false; });
  EXPECT_TRUE(sink->final_status()->ok()) << *sink->final_status();
}

INSTANTIATE_TEST_SUITE_P(Index, StreamEngineTest, testing::Values(Answers::kAtOnce, Answers::kLate),
                         [](const testing::TestParamInfo<Answers>& answers) {
                           return answers.param == Answers::kAtOnce ? "AtOnce" : "Late";
                         });

}  // namespace
}  // namespace kerf
