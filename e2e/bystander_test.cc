// Who cuts what is slow to cut takes no more than his share from who does not.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "e2e/neighbour.h"
#include "e2e/upload_rate.h"
#include "e2e/world.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

constexpr std::size_t kFileBytes = std::size_t{4} << 20;
constexpr std::size_t kSliceBytes = std::size_t{256} << 10;
// The longest chunks that a client may name, on what has no cut-points.
constexpr const char* kSlowProfiles[] = {"mincdc:min=64,max=4194304", "maxcdc:min=64,max=4194304"};

// How long each rate is measured, and what must be left of it: half, where nothing else runs
// beside the test.
std::chrono::seconds MeasuredTime() {
  const char* const text = std::getenv("KERF_BYSTANDER_SECONDS");
  return std::chrono::seconds(text == nullptr ? 2 : std::stoi(text));
}
double LeastShare() { return MeasuredTime() >= std::chrono::seconds(8) ? 0.5 : 0.2; }

class BystanderTest : public testing::Test {
 protected:
  BystanderTest() : random_(TestSeed()) { world_.StartServer({"--listen", "127.0.0.1:0"}); }

  std::shared_ptr<grpc::Channel> Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(world_.last_address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  // A cut every 64 bytes, each after a look at all that a chunk may have; not more cuts than a
  // stream may leave uncommitted.
  void CutSlowly(const char* profile, Neighbour::State& state) {
    const std::string zeros(kFileBytes - kSliceBytes, '\0');
    const auto channel = Connect();
    while (!state.is_over.load()) {
      TestUpload upload(channel);
      if (!upload.SendOpen(OpenFor("other", profile)) || !upload.SendFile(zeros, 2 * kSliceBytes) ||
          !upload.WaitForChunks(1, zeros.size())) {
        state.has_failed.store(true);
        return;
      }
      state.sent_bytes.fetch_add(zeros.size());
      upload.Cancel();
    }
  }

  double Rate() { return UploadRate(Connect(), "bystander", random_, MeasuredTime()); }

  World world_;
  Random random_;
};

TEST_F(BystanderTest, KeepsItsShareBesideOnesThatAreSlowToCut) {
  Neighbour others([this](Neighbour::State& state) {
    std::vector<std::thread> threads;
    for (const char* profile : kSlowProfiles) {
      threads.emplace_back([this, profile, &state] { CutSlowly(profile, state); });
    }
    for (std::thread& thread : threads) thread.join();
  });
  const double alone = Rate();
  others.Go();
  const double beside = Rate();
  EXPECT_FALSE(others.state().has_failed.load());
  // They were there.
  EXPECT_GT(others.state().sent_bytes.load(), 0u);
  std::printf("alone %.0f MB/s, beside two that are slow to cut %.0f MB/s: %.2f\n", alone, beside,
              beside / alone);
  EXPECT_GE(beside, alone * LeastShare());
}

}  // namespace
}  // namespace kerf::e2e
