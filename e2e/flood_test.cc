// Clients that open 10,000 streams at a real kerfd: its resident memory stays bounded, every stream
// that is refused learns why, and others are served meanwhile.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "e2e/world.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

constexpr std::size_t kStreams = 10'000;
// A guard against a hang; the floods take a second or two.
constexpr std::chrono::seconds kPatience{60};

// Many streams, without a thread for each. Thread-safe.
class Flood {
 public:
  explicit Flood(v1::UploadRequest request) : request_(std::move(request)) {}
  ~Flood() { EndAll(); }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  // Opens `count` more, each of which sends the request and stays.
  void Open(const std::shared_ptr<grpc::Channel>& channel, std::size_t count) {
    stubs_.push_back(v1::ChunkingService::NewStub(channel));
    for (std::size_t index = 0; index < count; ++index) {
      streams_.push_back(std::make_unique<Stream>(*this, *stubs_.back()));
    }
  }

  // Until each stream was taken or refused.
  bool AwaitAnswers() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience,
                             [&] { return answered_count_ + refused_count_ == streams_.size(); });
  }

  // Streams that were refused, by code and reason.
  std::map<std::string, std::size_t> refusals() const {
    const std::lock_guard lock(mutex_);
    return refusals_;
  }
  std::size_t taken_count() const {
    const std::lock_guard lock(mutex_);
    return answered_count_;
  }

  void EndAll() {
    for (const auto& stream : streams_) stream->Cancel();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_count_ == streams_.size(); });
  }

 private:
  class Stream : public grpc::ClientBidiReactor<v1::UploadRequest, v1::UploadResponse> {
   public:
    Stream(Flood& flood, v1::ChunkingService::Stub& stub) : flood_(flood) {
      stub.async()->Upload(&context_, this);
      StartWrite(&flood.request_);
      StartRead(&response_);
      StartCall();
    }
    void Cancel() { context_.TryCancel(); }

    void OnReadDone(bool ok) override {
      if (!ok) return;
      was_answered_ = true;
      flood_.Answered();
      // The next one is never asked for.
    }
    void OnDone(const grpc::Status& status) override { flood_.Ended(status, was_answered_); }

   private:
    Flood& flood_;
    grpc::ClientContext context_;
    v1::UploadResponse response_;
    bool was_answered_ = false;
  };

  void Answered() {
    const std::lock_guard lock(mutex_);
    ++answered_count_;
    changed_.notify_all();
  }
  void Ended(const grpc::Status& status, bool was_answered) {
    const std::lock_guard lock(mutex_);
    ++done_count_;
    if (!was_answered) {
      ++refused_count_;
      ++refusals_[Cat(static_cast<int>(status.error_code()), " ", ReasonOf(status))];
    }
    changed_.notify_all();
  }

  const v1::UploadRequest request_;
  std::vector<std::unique_ptr<v1::ChunkingService::Stub>> stubs_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t answered_count_ = 0;
  std::size_t refused_count_ = 0;
  std::size_t done_count_ = 0;
  std::map<std::string, std::size_t> refusals_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

// Opens the stream and stays in mid-file, with a little data that is too short to be cut.
v1::UploadRequest OpenAndStay() {
  v1::UploadRequest request;
  *request.add_frames()->mutable_open() = OpenFor("flood");
  request.add_frames()->mutable_file_begin();
  request.add_frames()->set_data(std::string(1'000, 'x'));
  return request;
}

class FloodTest : public testing::Test {
 protected:
  void Start(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--listen", "127.0.0.1:0", "--log-level", "warning",
                               // Where a flood takes that long, the innocent stays all the same.
                               "--idle-evict-ms", "86400000"});
    world_.StartServer(flags);
    if (HasFatalFailure()) return;
    address_ = world_.last_address();
    Random(1).Fill({reinterpret_cast<std::uint8_t*>(content_.data()), content_.size()});
    // What a served client costs is no part of the flood.
    ExpectServed();
    resident_before_mib_ = world_.server().PeakResidentMiB();
  }

  std::shared_ptr<grpc::Channel> Connect() { return ConnectTo(address_); }

  void Begin(TestUpload& upload) {
    ASSERT_TRUE(upload.SendOpen(OpenFor("innocent")));
    ASSERT_TRUE(upload.WaitFor([](const auto& answers) { return !answers.empty(); }));
  }
  void ExpectWhole(TestUpload& upload) {
    ASSERT_TRUE(upload.SendFile(content_, 50'000));
    ASSERT_TRUE(upload.CommitAnswered());
    upload.WritesDone();
    const grpc::Status status = upload.WaitForEnd();
    EXPECT_TRUE(status.ok()) << ReasonOf(status) << ": " << status.error_message();
    EXPECT_EQ(upload.RecipeOf(1), PlainRecipe(content_, OpenFor("innocent")));
  }
  void ExpectServed() {
    TestUpload upload(Connect());
    Begin(upload);
    ExpectWhole(upload);
  }
  // After the flood: streams that were cancelled leave their places soon, not at once.
  void ExpectServedSoon() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      TestUpload upload(Connect());
      if (upload.SendOpen(OpenFor("innocent")) &&
          upload.WaitFor([](const auto& answers) { return !answers.empty(); })) {
        return ExpectWhole(upload);
      }
    }
    FAIL() << "the places of the flood are never free again";
  }

  std::uint64_t GrownMiB() { return world_.server().PeakResidentMiB() - resident_before_mib_; }

  World world_;
  std::string address_;
  std::string content_ = std::string(1'000'000, '\0');
  std::uint64_t resident_before_mib_ = 0;
};

void Report(const char* what, const Flood& flood, std::uint64_t grown_mib) {
  std::printf("%s: %zu taken", what, flood.taken_count());
  for (const auto& [reason, count] : flood.refusals()) {
    std::printf(", %zu refused with %s", count, reason.c_str());
  }
  std::printf("; resident memory grew by %d MiB\n", static_cast<int>(grown_mib));
}

const std::string kTooManyStreams =
    Cat(static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED), " TOO_MANY_STREAMS");
const std::string kMemoryExhausted =
    Cat(static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED), " MEMORY_EXHAUSTED");

// The streams of a flood over some connections at a server of the default size.
class FloodOfConnectionsTest : public FloodTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(FloodOfConnectionsTest, IsRefusedBeyondMaxStreams) {
  constexpr std::size_t kMaxStreams = 1'024;
  // Not of how fast a machine is that does much beside.
  Start({"--open-timeout-ms", "120000"});
  ASSERT_FALSE(HasFatalFailure());
  TestUpload innocent(Connect());
  Begin(innocent);
  Flood flood(OpenAndStay());
  for (std::size_t index = 0; index < GetParam(); ++index) {
    flood.Open(Connect(), kStreams / GetParam());
  }
  ASSERT_TRUE(flood.AwaitAnswers());
  // All places beside that of the innocent; the stream before it may not have left its own yet.
  EXPECT_LE(flood.taken_count(), kMaxStreams - 1);
  EXPECT_GE(flood.taken_count(), kMaxStreams - 2);
  // More calls at once than the door has windows for may be refused before anybody sees what they
  // are.
  std::map<std::string, std::size_t> refusals = flood.refusals();
  const std::size_t at_the_door = refusals[kMemoryExhausted];
  EXPECT_EQ(refusals[kTooManyStreams] + at_the_door, kStreams - flood.taken_count());
  EXPECT_EQ(refusals.size(), 2u);
  if (GetParam() == 1) {
    EXPECT_EQ(at_the_door, 0u);
  }
  ExpectWhole(innocent);
  const std::uint64_t grown_mib = GrownMiB();
  Report("a full server", flood, grown_mib);
  if (kMemoryIsOurs) {
    EXPECT_LE(grown_mib, 200u);
  }
  flood.EndAll();
  ExpectServedSoon();
}

INSTANTIATE_TEST_SUITE_P(OneAndSeveral, FloodOfConnectionsTest, testing::Values(1, 8));

// Where their number is no limit, their memory is.
TEST_F(FloodTest, IsRefusedBeyondTheMemory) {
  Start({"--max-streams", "20000", "--memory", "128M", "--stream-memory", "8M"});
  ASSERT_FALSE(HasFatalFailure());
  TestUpload innocent(Connect());
  Begin(innocent);
  Flood flood(OpenAndStay());
  for (int index = 0; index < 4; ++index) flood.Open(Connect(), kStreams / 4);
  ASSERT_TRUE(flood.AwaitAnswers());
  const std::uint64_t grown_mib = GrownMiB();
  Report("a full memory", flood, grown_mib);
  EXPECT_GE(flood.taken_count(), 1'000u);
  EXPECT_EQ(
      flood.refusals(),
      (std::map<std::string, std::size_t>{{kMemoryExhausted, kStreams - flood.taken_count()}}));
  // kerfd's own budget and gRPC's.
  if (kMemoryIsOurs) {
    EXPECT_LE(grown_mib, 256u);
  }
  flood.EndAll();
  // It stayed open, waited if it had to, and nothing of it is lost.
  ExpectWhole(innocent);
  ExpectServedSoon();
}

}  // namespace
}  // namespace kerf::e2e
