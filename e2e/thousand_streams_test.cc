// 1,000 uploads through a front to a worker, each over a connection of its own, slow readers and
// silent clients among them, while the worker stops for a moment: both keep within their budgets,
// and everybody who goes on has the right answers.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/open_files.h"
#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "e2e/world.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kStreams = 1'000;
// Of these: one answer in kSlowPause; and in mid-file, with nothing more to say and no ear for
// answers, until the others are done.
constexpr std::size_t kSlowStreams = 100;
constexpr std::size_t kStuckStreams = 100;
constexpr milliseconds kSlowPause{50};
constexpr std::size_t kFileBytes = 400'000;
constexpr std::size_t kMessageBytes = 100'000;
constexpr std::size_t kContents = 8;
constexpr milliseconds kWorkerPause{1'500};
// A guard against a hang; it takes some seconds.
constexpr std::chrono::seconds kPatience{120};

// The budgets, as kerfd's flags and docs/adr/0011-fronts.md have them.
constexpr std::uint64_t kFrontMemoryMiB = 256;
constexpr std::uint64_t kWorkerMemoryMiB = 256;
// Of a stream, beside its messages: calls, connections, sessions.
constexpr std::uint64_t kStateKiB = 100;
constexpr std::uint64_t kStateMiB = kStreams * kStateKiB / 1024;
// gRPC's buffers may have as much once more.
constexpr std::uint64_t kWorkerLimitMiB = 2 * kWorkerMemoryMiB + kStateMiB;
constexpr std::uint64_t kFrontLimitMiB = 2 * kFrontMemoryMiB + kStateMiB;

// In MiB, as "VmRSS" or, the most there ever was, "VmHWM".
std::uint64_t ResidentMiB(pid_t process, const std::string& what) {
  std::ifstream file(Cat("/proc/", process, "/status"));
  std::string word;
  while (file >> word) {
    std::uint64_t kibibytes = 0;
    if (word == what + ":" && file >> kibibytes) return kibibytes / 1024;
  }
  ADD_FAILURE() << "no " << what << " of process " << process;
  return 0;
}

// What one file is sent as, and answered.
struct File {
  std::vector<v1::UploadRequest> requests;
  std::vector<RecipeChunk> recipe;
};

File MakeFile(const std::string& content) {
  File file;
  v1::UploadRequest request;
  request.add_frames()->mutable_file_begin()->set_file_key("a file");
  for (std::size_t at = 0; at < content.size(); at += kMessageBytes) {
    request.add_frames()->set_data(content.substr(at, kMessageBytes));
    file.requests.push_back(std::exchange(request, {}));
  }
  v1::FileEnd& end = *file.requests.back().add_frames()->mutable_file_end();
  end.set_size_bytes(content.size());
  end.set_content_hash(ContentHashOf(content));
  file.recipe = PlainRecipe(content, OpenFor("home"));
  return file;
}

enum class Manner { kLive, kSlow, kStuck };

// One upload, without a thread of its own: opens, waits for Go, sends its file, commits it, ends.
// Thread-safe.
class Client : public grpc::ClientBidiReactor<v1::UploadRequest, v1::UploadResponse> {
 public:
  Client(const std::string& address, const File& file, Manner manner, const std::string& key)
      : file_(file), manner_(manner), stub_(v1::ChunkingService::NewStub(ConnectTo(address))) {
    context_.AddMetadata("kerf-shard-key", key);
    stub_->async()->Upload(&context_, this);
    *open_.add_frames()->mutable_open() = OpenFor("home");
    const std::lock_guard lock(mutex_);
    // For the slow: their reads come from another thread.
    AddHold();
    is_writing_ = true;
    StartWrite(&open_);
    StartRead(&response_);
    StartCall();
  }
  ~Client() override {
    context_.TryCancel();
    {
      const std::lock_guard lock(mutex_);
      DropHoldLocked();
    }
    Wait([this] { return is_done_; });
  }

  bool AwaitOpened() {
    return Wait([this] { return is_opened_ || is_done_; }) && is_opened_;
  }
  void Go() {
    const std::lock_guard lock(mutex_);
    may_send_ = true;
    WriteLocked();
  }
  // A slow one reads when it is told.
  void ReadOn() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(wants_read_, false)) StartRead(&response_);
  }
  // "OK", or why it has failed.
  std::string AwaitOutcome(steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [this] { return is_done_; })) return "late";
    if (!status_.ok()) return Cat(ReasonOf(status_), ": ", status_.error_message());
    return recipe_ == file_.recipe ? "OK" : "wrong answers";
  }
  bool is_done() {
    const std::lock_guard lock(mutex_);
    return is_done_;
  }

  void OnWriteDone(bool /*ok*/) override {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    WriteLocked();
  }
  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok) return DropHoldLocked();
    for (const v1::UploadAnswer& answer : response_.answers()) TakeLocked(answer);
    WriteLocked();
    changed_.notify_all();
    if (manner_ == Manner::kLive) StartRead(&response_);
    wants_read_ = manner_ == Manner::kSlow;
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    is_done_ = true;
    changed_.notify_all();
  }

 private:
  template <typename Condition>
  bool Wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }
  void TakeLocked(const v1::UploadAnswer& answer) {
    is_opened_ = is_opened_ || answer.has_opened();
    is_file_done_ = is_file_done_ || answer.has_file_done();
    for (const v1::Chunk& chunk : answer.chunks().chunks()) {
      recipe_.push_back({chunk.end_offset(), chunk.digest(), chunk.check()});
      if (chunk.verdict() == v1::VERDICT_DUPLICATE) continue;
      new_digests_.push_back(chunk.digest());
    }
  }
  bool IsAnsweredLocked() const {
    return !recipe_.empty() && recipe_.back().end_offset == kFileBytes;
  }
  void WriteLocked() {
    if (is_writing_ || !may_send_ || !has_hold_) return;
    // The last message of a file that is stuck never comes.
    const std::size_t count = file_.requests.size() - (manner_ == Manner::kStuck ? 1 : 0);
    if (sent_count_ < count) {
      is_writing_ = true;
      StartWrite(&file_.requests[sent_count_++]);
    } else if (manner_ != Manner::kStuck && IsAnsweredLocked() && !has_committed_) {
      has_committed_ = true;
      std::sort(new_digests_.begin(), new_digests_.end());
      const auto end = std::unique(new_digests_.begin(), new_digests_.end());
      v1::Commit& commit = *commit_.add_frames()->mutable_commit();
      for (auto digest = new_digests_.begin(); digest != end; ++digest) {
        v1::CommitEntry& entry = *commit.add_entries();
        entry.set_digest(*digest);
        entry.set_locator("here");
      }
      is_writing_ = true;
      StartWrite(&commit_);
    } else if (is_file_done_ && !has_ended_) {
      has_ended_ = true;
      StartWritesDone();
    }
  }
  void DropHoldLocked() {
    if (std::exchange(has_hold_, false)) RemoveHold();
  }

  const File& file_;
  const Manner manner_;
  grpc::ClientContext context_;
  const std::unique_ptr<v1::ChunkingService::Stub> stub_;
  v1::UploadRequest open_;
  v1::UploadRequest commit_;
  v1::UploadResponse response_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_hold_ = true;
  bool may_send_ = false;
  bool is_writing_ = false;
  bool wants_read_ = false;
  std::size_t sent_count_ = 0;
  bool has_committed_ = false;
  bool has_ended_ = false;
  bool is_opened_ = false;
  bool is_file_done_ = false;
  std::vector<RecipeChunk> recipe_;
  std::vector<std::string> new_digests_;
  bool is_done_ = false;
  grpc::Status status_;
};

// Lets the slow read, one answer each at a time.
class SlowReading {
 public:
  explicit SlowReading(const std::vector<std::unique_ptr<Client>>& clients)
      : thread_([this, &clients] {
          while (!must_stop_) {
            for (const auto& client : clients) client->ReadOn();
            std::this_thread::sleep_for(kSlowPause);
          }
        }) {}
  ~SlowReading() {
    must_stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> must_stop_{false};
  std::thread thread_;
};

TEST(ThousandStreamsTest, KeepWithinTheBudgets) {
  ASSERT_GE(RaiseOpenFileLimit(3 * kStreams), kStreams + 200) << "ulimit -n";
  World world;
  world.StartServer({"--memory", Cat(kWorkerMemoryMiB, "M"), "--stream-memory", "8M"});
  const auto front =
      world.StartKerfd("front", {"--role", "front", "--workers", world.address(), "--memory",
                                 Cat(kFrontMemoryMiB, "M"), "--listen", "127.0.0.1:0"});
  ASSERT_NE(front, nullptr);
  const std::string address = world.LastAddressOf("front");
  Random random(TestSeed());
  std::vector<File> files;
  for (std::size_t number = 0; number < kContents; ++number) {
    std::string content(kFileBytes, '\0');
    random.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    files.push_back(MakeFile(content));
  }
  const std::uint64_t front_before_mib = ResidentMiB(front->pid(), "VmRSS");
  const std::uint64_t worker_before_mib = ResidentMiB(world.server().pid(), "VmRSS");

  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t number = 0; number < kStreams; ++number) {
    const Manner manner = number < kSlowStreams                   ? Manner::kSlow
                          : number < kSlowStreams + kStuckStreams ? Manner::kStuck
                                                                  : Manner::kLive;
    clients.push_back(
        std::make_unique<Client>(address, files[number % kContents], manner, Cat("key-", number)));
  }
  for (const auto& client : clients) ASSERT_TRUE(client->AwaitOpened());
  const std::uint64_t front_idle_mib = ResidentMiB(front->pid(), "VmRSS");
  const std::uint64_t worker_idle_mib = ResidentMiB(world.server().pid(), "VmRSS");

  const SlowReading slow_reading(clients);
  const auto began = steady_clock::now();
  for (const auto& client : clients) client->Go();
  // All of them stall, and what they have sent stays where it is.
  world.server().Signal(SIGSTOP);
  std::this_thread::sleep_for(kWorkerPause);
  const std::uint64_t front_stalled_mib = ResidentMiB(front->pid(), "VmRSS");
  world.server().Signal(SIGCONT);
  const auto deadline = began + kPatience;
  for (std::size_t number = 0; number < kStreams; ++number) {
    if (number >= kSlowStreams && number < kSlowStreams + kStuckStreams) {
      EXPECT_FALSE(clients[number]->is_done());
    } else {
      ASSERT_EQ(clients[number]->AwaitOutcome(deadline), "OK") << "stream " << number;
    }
  }
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - began).count();
  const std::uint64_t front_peak_mib = ResidentMiB(front->pid(), "VmHWM");
  const std::uint64_t worker_peak_mib = ResidentMiB(world.server().pid(), "VmHWM");
  std::printf(
      "%zu streams, %zu slow, %zu stuck, %d ms. Resident, MiB: front %d before, %d open, %d "
      "stalled, %d at most; worker %d before, %d open, %d at most\n",
      kStreams, kSlowStreams, kStuckStreams, static_cast<int>(took),
      static_cast<int>(front_before_mib), static_cast<int>(front_idle_mib),
      static_cast<int>(front_stalled_mib), static_cast<int>(front_peak_mib),
      static_cast<int>(worker_before_mib), static_cast<int>(worker_idle_mib),
      static_cast<int>(worker_peak_mib));
  if (!kMemoryIsOurs) return;
  EXPECT_LE(front_peak_mib, front_before_mib + kFrontLimitMiB);
  EXPECT_LE(worker_peak_mib, worker_before_mib + kWorkerLimitMiB);
}

}  // namespace
}  // namespace kerf::e2e
