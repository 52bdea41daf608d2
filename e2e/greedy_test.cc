// An identity that takes what it can get leaves an honest one its share.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/test_seed.h"
#include "e2e/identities.h"
#include "e2e/upload_rate.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

constexpr char kAccess[] = R"([[identity]]
name = "kerf://greedy"
[[identity.grant]]
role = "write"
repositories = ["*"]
[[identity]]
name = "kerf://honest"
[[identity.grant]]
role = "write"
repositories = ["*"]
)";
constexpr std::size_t kGreedyConnections = 4;
// docs/performance.md, "A greedy neighbour": 0.54 to 0.71 where nothing runs beside the test.
constexpr double kLeastShare = 0.4;
constexpr std::size_t kLowestPriority = 19;
constexpr std::size_t kGreedyFileBytes = std::size_t{1} << 20;

std::size_t NumberOf(const char* variable, std::size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoul(text);
}

// What two processes see of it.
struct State {
  std::atomic<bool> may_begin{false};
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> open_count{0};
  std::atomic<std::uint64_t> sent_bytes{0};
};

class GreedyTest : public ::testing::Test {
 protected:
  static std::vector<std::string> MemoryFlags() {
    const char* const memory = std::getenv("KERF_GREEDY_MEMORY");
    return {"--memory", memory == nullptr ? "1G" : memory};
  }
  std::shared_ptr<grpc::Channel> Connect(const std::string& name) {
    return identities_.Connect(name);
  }

  // A process of its own, as a client on another machine is: gRPC's threads wait for the sockets of
  // all channels of a process, and a thread of the lowest priority would do the honest one's work.
  // Nothing of gRPC may have been used before. It begins with Go().
  class GreedyProcess {
   public:
    explicit GreedyProcess(const std::function<void(State&)>& be_greedy) {
      const pid_t child = fork();
      KERF_CHECK(child >= 0);
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (!state_.may_begin.load()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        be_greedy(state_);
        _exit(0);
      }
      child_ = child;
    }
    ~GreedyProcess() {
      state_.may_begin.store(true);
      state_.is_over.store(true);
      waitpid(child_, nullptr, 0);
      munmap(&state_, sizeof(State));
    }
    GreedyProcess(const GreedyProcess&) = delete;
    GreedyProcess& operator=(const GreedyProcess&) = delete;

    void Go() { state_.may_begin.store(true); }
    std::size_t open_count() const { return state_.open_count.load(); }
    std::uint64_t sent_bytes() const { return state_.sent_bytes.load(); }

   private:
    static State& Share() {
      void* const shared =
          mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      KERF_CHECK(shared != MAP_FAILED);
      return *new (shared) State;
    }

    State& state_ = Share();
    pid_t child_ = -1;
  };

  // Sends files without end, and looks at no answer but those that a stream must not leave
  // uncommitted: when they are too many it opens another one.
  static void BeGreedy(const std::shared_ptr<grpc::Channel>& channel, State& state) {
    std::string file(kGreedyFileBytes, '\0');
    Random random(TestSeed());
    random.Fill({reinterpret_cast<std::uint8_t*>(file.data()), file.size()});
    while (!state.is_over.load()) {
      TestUpload upload(channel);
      if (!upload.SendOpen(OpenFor("greedy"))) continue;
      if (!upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value()) {
        // Refused: that is one of those beyond its places.
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        continue;
      }
      state.open_count.fetch_add(1);
      for (int number = 0; number < 100 && !state.is_over.load(); ++number) {
        ++file[0];
        if (!upload.SendFile(file, kGreedyFileBytes / 4)) break;
        state.sent_bytes.fetch_add(kGreedyFileBytes);
      }
      upload.Cancel();
      state.open_count.fetch_sub(1);
    }
  }

  void BeGreedyWith(std::size_t stream_count, State& state) {
    // It would have a machine of its own: here it takes what kerfd and the honest one leave of the
    // processors, for it is what kerfd does that is measured.
    const auto priority = static_cast<int>(NumberOf("KERF_GREEDY_NICE", kLowestPriority));
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), priority);
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    channels.reserve(kGreedyConnections);
    for (std::size_t count = 0; count < kGreedyConnections; ++count)
      channels.push_back(Connect("greedy"));
    std::vector<std::thread> threads;
    threads.reserve(stream_count);
    for (std::size_t number = 0; number < stream_count; ++number) {
      threads.emplace_back([&, number] { BeGreedy(channels[number % channels.size()], state); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  World world_;
  const Identities identities_{world_, kAccess, MemoryFlags()};
  Random random_{TestSeed()};
};

TEST_F(GreedyTest, LeavesAnHonestOneItsShare) {
  const std::chrono::seconds measured_time(10);
  const std::size_t stream_count = NumberOf("KERF_GREEDY_STREAMS", 1024);
  GreedyProcess greedy([&](State& state) { BeGreedyWith(stream_count, state); });
  const double alone = UploadRate(Connect("honest"), "honest", random_, measured_time);
  greedy.Go();
  while (greedy.open_count() < stream_count / 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  UploadTimes times;
  const std::uint64_t before_bytes = greedy.sent_bytes();
  const double beside = UploadRate(Connect("honest"), "honest", random_, measured_time, &times);
  const std::size_t open_at_end = greedy.open_count();
  const double greedy_rate = static_cast<double>(greedy.sent_bytes() - before_bytes) / 1e6 /
                             static_cast<double>(measured_time.count());
  std::printf("alone %.0f MB/s, beside %zu greedy streams (%.0f MB/s) %.0f MB/s: %.2f\n", alone,
              open_at_end, greedy_rate, beside, beside / alone);
  const double files = std::max<double>(static_cast<double>(times.file_count), 1) / 1e3;
  std::printf(
      "a file of 4 MiB: %.1f ms of sending, %.1f of waiting for answers, %.1f of its commit\n",
      times.sending_seconds / files, times.answer_seconds / files, times.commit_seconds / files);
  if (std::getenv("KERF_GREEDY_NICE") == nullptr) {
    EXPECT_GE(beside, alone * kLeastShare);
  }
}

}  // namespace
}  // namespace kerf::e2e
