// An identity that takes what it can get leaves an honest one its share.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "e2e/identities.h"
#include "e2e/neighbour.h"
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
// docs/performance.md, "A greedy neighbour": 0.5 to 0.7 where nothing runs beside the test.
constexpr double kLeastShare = 0.4;
constexpr std::size_t kGreedyFileBytes = std::size_t{1} << 20;

std::size_t NumberOf(const char* variable, std::size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoul(text);
}

class GreedyTest : public ::testing::Test {
 protected:
  GreedyTest() { identities_.StartServer(kAccess, MemoryFlags()); }

  static std::vector<std::string> MemoryFlags() {
    const char* const memory = std::getenv("KERF_GREEDY_MEMORY");
    return {"--memory", memory == nullptr ? "1G" : memory};
  }
  std::shared_ptr<grpc::Channel> Connect(const std::string& name) {
    return identities_.Connect(name);
  }

  // Sends files without end, and looks at no answer but those that a stream must not leave
  // uncommitted: when they are too many it opens another one.
  static void BeGreedy(const std::shared_ptr<grpc::Channel>& channel, Neighbour::State& state) {
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

  void BeGreedyWith(std::size_t stream_count, Neighbour::State& state) {
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
  const Identities identities_{world_};
  Random random_{TestSeed()};
};

TEST_F(GreedyTest, LeavesAnHonestOneItsShare) {
  const std::chrono::seconds measured_time(10);
  const std::size_t stream_count = NumberOf("KERF_GREEDY_STREAMS", 1024);
  const auto priority =
      static_cast<int>(NumberOf("KERF_GREEDY_NICE", std::size_t{Neighbour::kLowestPriority}));
  Neighbour greedy([&](Neighbour::State& state) { BeGreedyWith(stream_count, state); }, priority);
  const double alone = UploadRate(Connect("honest"), "honest", random_, measured_time);
  greedy.Go();
  while (greedy.state().open_count.load() < stream_count / 2) {
    ASSERT_TRUE(greedy.is_alive());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  UploadTimes times;
  const std::uint64_t before_bytes = greedy.state().sent_bytes.load();
  const double beside = UploadRate(Connect("honest"), "honest", random_, measured_time, &times);
  const std::size_t open_at_end = greedy.state().open_count.load();
  const double greedy_rate = static_cast<double>(greedy.state().sent_bytes.load() - before_bytes) /
                             1e6 / static_cast<double>(measured_time.count());
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
