// What callers and repositories may use at most, at the edge: who wants more waits, or is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"
#include "server/quota/testing/rules_gate.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSliceBytes = 65'536;

std::string Content(std::uint64_t seed, std::size_t size_bytes) {
  std::string content(size_bytes, '\0');
  Random random(seed);
  random.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  return content;
}

class QuotaTest : public testing::Test {
 protected:
  // `rules` is of the identity, this process' user, and goes on with those of repositories.
  void Start(const std::string& rules) {
    rules_ = std::make_unique<RulesGate>(
        Cat("[[identity]]\nname = \"user/", getuid(), "\"\n", rules,
            "[[identity.grant]]\nrole = \"admin\"\nrepositories = [\"*\"]\n", repositories_));
    ServerOptions options;
    options.listen = {FreshSocketAddress()};
    options.watchdog_interval = milliseconds(0);
    options.clock = [this] { return TimePoint(milliseconds(now_ms_.load())); };
    options.timeouts.stall_warn = milliseconds(1000);
    options.access = rules_->source();
    auto server = Server::Start(options, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses().front());
    stub_ = v1::IndexService::NewStub(channel_);
  }
  ~QuotaTest() override {
    if (server_ != nullptr) server_->Stop();
  }

  double Value(const std::string& series) const {
    metrics::Page page;
    server_->AddMetrics(page);
    const std::size_t at = page.text().find(Cat("\n", series, " "));
    return at == std::string::npos ? -1 : std::stod(page.text().substr(at + series.size() + 2));
  }
  double Exceeded(const std::string& kind) const {
    return Value(Cat("kerf_quota_exceeded_total{quota=\"", kind, "\"}"));
  }
  // Whether that comes to hold without any time passing on the server's clock.
  template <typename Condition>
  bool ComesTrue(const Condition& condition) {
    for (int round = 0; round < 2000; ++round) {
      server_->CheckTimeouts();
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }
  // What has come stays as it is for a while in which nothing keeps it.
  bool StaysAt(double ingest_bytes) {
    for (int round = 0; round < 20; ++round) {
      server_->CheckTimeouts();
      std::this_thread::sleep_for(milliseconds(5));
    }
    return Ingested() == ingest_bytes;
  }
  // Once what was read before is counted, too.
  double SettledAt() {
    double seen = Ingested();
    while (!StaysAt(seen)) seen = Ingested();
    return seen;
  }
  double Ingested() const { return Value("kerf_ingest_bytes_total"); }
  void Pass(milliseconds time) { now_ms_ += time.count(); }

  std::unique_ptr<TestUpload> Open(const std::string& repository) {
    auto upload = std::make_unique<TestUpload>(channel_);
    EXPECT_TRUE(upload->SendOpen(OpenFor(repository)));
    EXPECT_TRUE(upload->WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
    return upload;
  }
  grpc::Status Commit(const std::string& repository, int first, int count) {
    grpc::ClientContext context;
    v1::CommitChunksRequest request;
    v1::CommitChunksResponse response;
    request.mutable_repository()->set_repository(repository);
    request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    request.set_store_epoch(1);
    for (int number = first; number < first + count; ++number) {
      v1::IndexEntry* const entry = request.add_entries();
      entry->set_digest(std::string(32, static_cast<char>(number)));
      entry->set_length_bytes(4096);
      entry->set_locator("here");
    }
    return stub_->CommitChunks(&context, request, &response);
  }
  v1::GetIndexStatsResponse Stats(const std::string& repository) {
    grpc::ClientContext context;
    v1::GetIndexStatsRequest request;
    v1::GetIndexStatsResponse response;
    request.mutable_repository()->set_repository(repository);
    request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    EXPECT_TRUE(stub_->GetIndexStats(&context, request, &response).ok());
    return response;
  }

  std::string repositories_;
  std::unique_ptr<RulesGate> rules_;
  std::atomic<std::int64_t> now_ms_{1'000'000};
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IndexService::Stub> stub_;
};

// A second's worth at once, and from then on as much as a second is good for.
TEST_F(QuotaTest, MoreBytesThanASecondIsGoodForWait) {
  Start("max_bytes_per_second = 262_144\n");
  auto upload = Open("home");
  const std::string content = Content(1, 32 * kSliceBytes);
  std::thread sender([&] { EXPECT_TRUE(upload->SendFile(content, kSliceBytes)); });
  ASSERT_TRUE(ComesTrue([&] { return Exceeded("bytes") == 1; }));
  double before = SettledAt();
  EXPECT_GE(before, 4 * kSliceBytes);
  EXPECT_LE(before, 6 * kSliceBytes);
  EXPECT_TRUE(StaysAt(before));
  double passed_s = 0;
  while (Ingested() < static_cast<double>(content.size())) {
    Pass(milliseconds(250));
    passed_s += 0.25;
    ASSERT_TRUE(ComesTrue([&] {
      return Ingested() > before || Ingested() >= static_cast<double>(content.size());
    })) << passed_s;
    EXPECT_LE(Ingested(), 262'144 * (passed_s + 1) + 3 * kSliceBytes);
    before = Ingested();
  }
  EXPECT_GE(passed_s, 6);
  EXPECT_LE(passed_s, 8);
  // The file's end is a message, too.
  Pass(milliseconds(1000));
  server_->CheckTimeouts();
  sender.join();
  ASSERT_TRUE(upload->WaitForChunks(1, content.size()));
  EXPECT_EQ(upload->RecipeOf(1), PlainRecipe(content, OpenFor("home")));
}

// A client that cuts itself names in some bytes what counts as files do, and owes it.
TEST_F(QuotaTest, WhatIsNamedCountsAsIfItHadCome) {
  Start("max_bytes_per_second = 262_144\n");
  v1::Open open = OpenFor("home");
  open.set_cutter(v1::CUTTER_CLIENT);
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  const std::string content = Content(1, 32 * kSliceBytes);
  const std::vector<RecipeChunk> recipe = PlainRecipe(content, open);
  // Some 64 KiB of the file in each message.
  std::thread sender([&] { EXPECT_TRUE(upload.SendNamed(recipe, 8)); });
  ASSERT_TRUE(ComesTrue([&] { return Exceeded("bytes") == 1; }));
  EXPECT_LE(SettledAt(), 7 * kSliceBytes);
  double passed_s = 0;
  while (Ingested() < static_cast<double>(content.size()) && passed_s < 30) {
    Pass(milliseconds(250));
    passed_s += 0.25;
    // One message more than there is room for, and only then it is known how much that was.
    EXPECT_LE(SettledAt(), 262'144 * (passed_s + 1) + 3 * kSliceBytes);
  }
  EXPECT_GE(passed_s, 5);
  EXPECT_LE(passed_s, 10);
  Pass(milliseconds(1000));
  server_->CheckTimeouts();
  sender.join();
  EXPECT_TRUE(upload.WaitForChunks(1, content.size()));
}

// The client waits for kerfd, not the other way round: it is neither idle nor silent.
TEST_F(QuotaTest, WhoWaitsForItsTurnIsNotTakenForSilentAndSaysWhatItWaitsFor) {
  repositories_ = "[[repository]]\nname = \"slow\"\nmax_bytes_per_second = 65_536\n";
  Start("");
  auto upload = Open("slow");
  std::thread sender([&] { upload->SendFile(Content(2, 40 * kSliceBytes), 20 * kSliceBytes); });
  ASSERT_TRUE(ComesTrue([&] { return Exceeded("bytes") == 1; }));
  for (int second = 0; second < 15; ++second) {
    Pass(milliseconds(1000));
    // In the beginning it waits for the thread that cuts what has come.
    for (int round = 0; round < 5; ++round) {
      server_->CheckTimeouts();
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  EXPECT_EQ(Value("kerf_stalled_streams{place=\"quota\"}"), 1);
  EXPECT_EQ(server_->stream_count(), 1u);
  Pass(milliseconds(6'000));
  EXPECT_TRUE(ComesTrue([&] { return Ingested() > 21 * kSliceBytes; }));
  EXPECT_TRUE(ComesTrue([&] { return Value("kerf_stalled_streams{place=\"quota\"}") == 0; }));
  upload->Cancel();
  sender.join();
}

// As long as others are before it: its client would take it for dead. Who owes that time himself
// waits on.
TEST_F(QuotaTest, WhoHasWaitedForLongIsToldToComeAgain) {
  repositories_ = "[[repository]]\nname = \"slow\"\nmax_bytes_per_second = 65_536\n";
  Start("");
  auto waiting = Open("slow");
  auto owing = Open("slow");
  std::thread sender([&] { owing->SendFile(Content(3, 96 * kSliceBytes), 48 * kSliceBytes); });
  ASSERT_TRUE(ComesTrue([&] { return Exceeded("bytes") >= 1; }));
  // This one was ready to be read before.
  std::thread second_sender([&] { waiting->SendFile(Content(4, 2 * kSliceBytes), kSliceBytes); });
  ASSERT_TRUE(ComesTrue([&] { return Exceeded("bytes") == 2; }));
  Pass(milliseconds(29'999));
  server_->CheckTimeouts();
  EXPECT_EQ(server_->stream_count(), 2u);
  Pass(milliseconds(1'101));
  server_->CheckTimeouts();
  const grpc::Status status = waiting->WaitForEnd();
  second_sender.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "QUOTA_EXCEEDED");
  // The client may know it before the server has taken it off its list.
  EXPECT_TRUE(ComesTrue([&] { return server_->stream_count() == 1; }));
  Pass(milliseconds(18'000));
  EXPECT_TRUE(ComesTrue([&] { return Ingested() > 90 * kSliceBytes; }));
  owing->Cancel();
  sender.join();
}

// Of the lowest quota there is: what a client may name at once it does not owe for longer than it
// may wait.
TEST_F(QuotaTest, AMessageNamesWhatAQuotaLetsByInAWhile) {
  Start("max_bytes_per_second = 65_536\n");
  const auto limit_of = [&](const std::string& profile) {
    v1::Open open = OpenFor("home");
    open.set_cutter(v1::CUTTER_CLIENT);
    open.set_profile(profile);
    TestUpload upload(channel_);
    EXPECT_TRUE(upload.SendOpen(open));
    const auto opened = upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
    return opened.has_value() ? opened->opened().limits().max_named_bytes() : 0;
  };
  EXPECT_EQ(limit_of("fixed:size=4096"), 8 * 65'536);
  // One chunk can always be named.
  EXPECT_EQ(limit_of("fixed:size=4194304"), 4'194'304);
}

TEST_F(QuotaTest, WhoNamesMoreThanAQuotaLetsByIsToldSo) {
  repositories_ = "[[repository]]\nname = \"slow\"\nmax_bytes_per_second = 65_536\n";
  Start("");
  v1::Open open = OpenFor("slow");
  open.set_cutter(v1::CUTTER_CLIENT);
  open.set_profile("fixed:size=4096");
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  const auto opened = upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
  ASSERT_TRUE(opened.has_value());
  const std::size_t limit = opened->opened().limits().max_named_bytes();
  const std::string content = Content(5, limit + 4096);
  const std::vector<RecipeChunk> recipe = PlainRecipe(content, open);
  upload.SendNamed(recipe);
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "MESSAGE_TOO_LARGE");
}

// The longest chunk there is, by the lowest quota: it takes a minute, and is waited for.
TEST_F(QuotaTest, WhatOneChunkOwesIsWaitedFor) {
  Start("max_bytes_per_second = 65_536\n");
  v1::Open open = OpenFor("home");
  open.set_cutter(v1::CUTTER_CLIENT);
  open.set_profile("fixed:size=4194304");
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  const std::string content = Content(6, 3 * 4'194'304);
  const std::vector<RecipeChunk> recipe = PlainRecipe(content, open);
  std::thread sender([&] { EXPECT_TRUE(upload.SendNamed(recipe, 1)); });
  ASSERT_TRUE(ComesTrue([&] { return Exceeded("bytes") == 1; }));
  for (int round = 0; round < 30 && Ingested() < static_cast<double>(content.size()); ++round) {
    Pass(milliseconds(8'000));
    SettledAt();
    ASSERT_EQ(server_->stream_count(), 1u) << round;
  }
  // The messages that name the chunks count as well, each once.
  EXPECT_GE(Ingested(), content.size());
  EXPECT_LT(Ingested(), content.size() + 1024);
  upload.Cancel();
  sender.join();
}

// Of many that wait, the one that has waited for longest goes first: none starves.
TEST_F(QuotaTest, StreamsOfOneQuotaHaveTheirTurns) {
  constexpr int kStreams = 6;
  Start("max_bytes_per_second = 65_536\n");
  std::vector<std::unique_ptr<TestUpload>> uploads;
  uploads.reserve(kStreams);
  for (int number = 0; number < kStreams; ++number) uploads.push_back(Open("home"));
  std::vector<std::thread> senders;
  senders.reserve(kStreams);
  for (int number = 0; number < kStreams; ++number) {
    senders.emplace_back([&, number] {
      uploads[static_cast<std::size_t>(number)]->SendFile(
          Content(static_cast<std::uint64_t>(number), 4 * kSliceBytes), kSliceBytes);
    });
  }
  const auto done_count = [&] {
    int count = 0;
    for (const auto& upload : uploads) {
      const std::vector<v1::Chunk> chunks = upload->ChunksOf(1);
      count += !chunks.empty() && chunks.back().end_offset() == 4 * kSliceBytes ? 1 : 0;
    }
    return count;
  };
  // All files are 24 slices: a few more than so many seconds, and nobody was ended meanwhile.
  for (int second = 0; second < 40 && done_count() < kStreams; ++second) {
    Pass(milliseconds(1000));
    for (int round = 0; round < 10; ++round) {
      server_->CheckTimeouts();
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  EXPECT_EQ(done_count(), kStreams);
  EXPECT_EQ(server_->stream_count(), std::size_t{kStreams});
  for (std::thread& sender : senders) sender.join();
}

// What came before anybody knew which repository it is for.
TEST_F(QuotaTest, ARepositorysRateCountsFirstMessagesToo) {
  repositories_ = "[[repository]]\nname = \"slow\"\nmax_bytes_per_second = 65_536\n";
  Start("");
  // One message each, with its Open.
  std::vector<std::unique_ptr<TestUpload>> uploads;
  for (int number = 0; number < 4; ++number) {
    uploads.push_back(std::make_unique<TestUpload>(channel_));
    v1::UploadRequest request;
    *request.add_frames()->mutable_open() = OpenFor("slow");
    request.add_frames()->mutable_file_begin();
    request.add_frames()->set_data(Content(6, 10 * kSliceBytes));
    ASSERT_TRUE(uploads.back()->Send(request));
    ASSERT_TRUE(uploads.back()->WaitForChunks(1, 9 * kSliceBytes));
  }
  auto next = Open("slow");
  std::thread sender([&] { next->SendFile(Content(7, 4 * kSliceBytes), kSliceBytes); });
  ASSERT_TRUE(ComesTrue([&] { return Exceeded("bytes") >= 1; }));
  // 40 slices are owed: half of the time that takes is not enough.
  const double before = SettledAt();
  Pass(milliseconds(20'000));
  EXPECT_TRUE(StaysAt(before));
  next->Cancel();
  sender.join();
}

// A stream that ends has used what it has sent, and not what it might have.
TEST_F(QuotaTest, WhatDidNotComeIsNotUsed) {
  Start("max_bytes_per_second = 1_000_000\n");
  for (int number = 0; number < 8; ++number) {
    auto upload = Open("home");
    ASSERT_TRUE(upload->SendFile(Content(8, 3 * kSliceBytes)));
    ASSERT_TRUE(upload->WaitForChunks(1, 3 * kSliceBytes));
    upload->WritesDone();
    Pass(milliseconds(250));
    server_->CheckTimeouts();
    upload->WaitForEnd();
  }
  EXPECT_EQ(Exceeded("bytes"), 0);
}

TEST_F(QuotaTest, ARepositoryHasSoManyStreams) {
  repositories_ = "[[repository]]\nname = \"tight\"\nmax_streams = 2\n";
  Start("");
  auto first = Open("tight");
  auto other = Open("tight");
  TestUpload second(channel_);
  second.SendOpen(OpenFor("tight"));
  const grpc::Status status = second.WaitForEnd();
  EXPECT_EQ(ReasonOf(status), "QUOTA_EXCEEDED");
  EXPECT_NE(status.error_message().find("repository 'tight'"), std::string::npos);
  Open("wide");
  first->WritesDone();
  EXPECT_TRUE(first->WaitForEnd().ok());
  EXPECT_TRUE(ComesTrue([&] {
    TestUpload again(channel_);
    again.SendOpen(OpenFor("tight"));
    return again.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value();
  }));
}

TEST_F(QuotaTest, ARepositoryHasSoManyEntries) {
  repositories_ = "[[repository]]\nname = \"tight\"\nmax_entries = 5\nmax_streams = 9\n";
  Start("");
  EXPECT_TRUE(Commit("tight", 0, 5).ok());
  const grpc::Status status = Commit("tight", 5, 1);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "QUOTA_EXCEEDED");
  EXPECT_TRUE(Commit("tight", 0, 5).ok());
  EXPECT_TRUE(Commit("wide", 0, 100).ok());
  EXPECT_EQ(Stats("tight").entry_count(), 5u);
  EXPECT_EQ(Stats("tight").quota().max_entries(), 5u);
  EXPECT_EQ(Stats("tight").quota().max_streams(), 9u);
  EXPECT_FALSE(Stats("tight").quota().has_max_bytes_per_second());
  EXPECT_FALSE(Stats("wide").has_quota());
  // The same by a stream.
  auto upload = Open("tight");
  ASSERT_TRUE(upload->SendFile(Content(4, 500'000)));
  ASSERT_TRUE(upload->WaitForChunks(1, 500'000));
  // It goes on, as if the index had taken them, and is told at its end.
  upload->CommitAnswered();
  ASSERT_TRUE(upload->WaitForDone(1));
  ASSERT_TRUE(upload->SendFile(Content(5, 300'000)));
  ASSERT_TRUE(upload->WaitForChunks(2, 300'000));
  upload->CommitAnswered();
  ASSERT_TRUE(upload->WaitForDone(2));
  upload->WritesDone();
  EXPECT_EQ(ReasonOf(upload->WaitForEnd()), "QUOTA_EXCEEDED");
  EXPECT_EQ(Stats("tight").entry_count(), 5u);
  EXPECT_EQ(Exceeded("entries"), 3);
}

TEST_F(QuotaTest, CallsASecond) {
  repositories_ = "[[repository]]\nname = \"tight\"\nmax_calls_per_second = 2\n";
  Start("max_calls_per_second = 4\n");
  EXPECT_TRUE(Commit("tight", 0, 1).ok());
  EXPECT_TRUE(Commit("tight", 0, 1).ok());
  EXPECT_EQ(ReasonOf(Commit("tight", 0, 1)), "QUOTA_EXCEEDED");
  EXPECT_TRUE(Commit("wide", 0, 1).ok());
  const grpc::Status status = Commit("wide", 0, 1);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "QUOTA_EXCEEDED");
  EXPECT_NE(status.error_message().find(Cat("user/", getuid())), std::string::npos);
  Pass(milliseconds(1000));
  EXPECT_TRUE(Commit("wide", 0, 1).ok());
  EXPECT_EQ(Exceeded("calls"), 2);
}

}  // namespace
}  // namespace kerf
