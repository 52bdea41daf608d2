// An identity that takes what it can get leaves an honest one its share.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

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
constexpr int kLowestPriority = 19;
constexpr std::size_t kGreedyFileBytes = std::size_t{1} << 20;

std::size_t NumberOf(const char* variable, std::size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoul(text);
}

class GreedyTest : public ::testing::Test {
 protected:
  static std::vector<std::string> MemoryFlags() {
    const char* const memory = std::getenv("KERF_GREEDY_MEMORY");
    return {"--memory", memory == nullptr ? "1G" : memory};
  }
  std::shared_ptr<grpc::Channel> Connect(const std::string& name) {
    return identities_.Connect(name);
  }

  // Sends files without end, and looks at no answer but those that a stream must not leave
  // uncommitted: when they are too many it opens another one.
  void BeGreedy(const std::shared_ptr<grpc::Channel>& channel, const std::atomic<bool>& is_over,
                std::atomic<std::size_t>& open_count) {
    // It would have a machine of its own: here it takes what kerfd and the honest one leave of the
    // processors, for it is what kerfd does that is measured.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowestPriority);
    std::string file(kGreedyFileBytes, '\0');
    Random random(TestSeed());
    random.Fill({reinterpret_cast<std::uint8_t*>(file.data()), file.size()});
    while (!is_over.load()) {
      TestUpload upload(channel);
      if (!upload.SendOpen(OpenFor("greedy"))) continue;
      if (!upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value()) {
        // Refused: that is one of those beyond its places.
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        continue;
      }
      open_count.fetch_add(1);
      for (int number = 0; number < 100 && !is_over.load(); ++number) {
        ++file[0];
        if (!upload.SendFile(file, kGreedyFileBytes / 4)) break;
      }
      upload.Cancel();
      open_count.fetch_sub(1);
    }
  }

  World world_;
  const Identities identities_{world_, kAccess, MemoryFlags()};
  Random random_{TestSeed()};
};

TEST_F(GreedyTest, LeavesAnHonestOneItsShare) {
  const std::chrono::seconds measured_time(10);
  const std::size_t stream_count = NumberOf("KERF_GREEDY_STREAMS", 1024);
  const double alone = UploadRate(Connect("honest"), "honest", random_, measured_time);
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> open_count{0};
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  channels.reserve(kGreedyConnections);
  for (std::size_t count = 0; count < kGreedyConnections; ++count)
    channels.push_back(Connect("greedy"));
  std::vector<std::thread> greedy;
  greedy.reserve(stream_count);
  for (std::size_t number = 0; number < stream_count; ++number) {
    greedy.emplace_back(
        [&, number] { BeGreedy(channels[number % channels.size()], is_over, open_count); });
  }
  while (open_count.load() < stream_count / 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const double beside = UploadRate(Connect("honest"), "honest", random_, measured_time);
  const std::size_t open_at_end = open_count.load();
  is_over.store(true);
  for (std::thread& thread : greedy) thread.join();
  std::printf("alone %.0f MB/s, beside %zu greedy streams %.0f MB/s: %.2f\n", alone, open_at_end,
              beside, beside / alone);
  // It gets on. The goal is 0.4 of what it has alone: docs/performance.md says what is missing.
  EXPECT_GT(beside, 0);
}

}  // namespace
}  // namespace kerf::e2e
