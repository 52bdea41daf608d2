// GPUs that fail in the middle of uploads, under the kerfd that is released: each stream, of each
// profile that can be cut on a GPU, has the CPU's answers all the same, kerfd says what has
// happened, and the other GPUs go on.
#include <chrono>

#include "e2e/ptx_kerfd.h"

namespace kerf::e2e {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr std::size_t kLostGpus = 5;
constexpr std::size_t kStreams = 4;
// Until the last of them has been met; each round meets one at least.
constexpr int kMostRounds = 3 * kLostGpus;
constexpr std::chrono::seconds kLongLoad{30};
constexpr int kBatchesBefore = 8;
// A guard against a hang.
constexpr std::chrono::seconds kPatience{60};

class PtxGpuFaultsTest : public PtxKerfd {
 protected:
  // All that can be cut on a GPU, in another order each time.
  void ChooseProfiles() {
    profiles_ = GpuProfiles();
    ASSERT_GE(profiles_.size(), 14u);
    for (std::size_t left = profiles_.size(); left > 1; --left) {
      std::swap(profiles_[left - 1], profiles_[random_.Below(left)]);
    }
  }

  // Streams beside each other, each of the next profile.
  void UploadBesideEachOther(std::size_t file_bytes = kFileBytes) {
    std::vector<std::thread> threads;
    threads.reserve(kStreams);
    for (std::size_t number = 0; number < kStreams; ++number) {
      threads.emplace_back([this, profile = profiles_[used_profiles_++ % profiles_.size()],
                            digest = kDigests[number % 2],
                            file = RandomText(file_bytes)] { Upload(profile, digest, {file}); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // When each of those has pieces behind it, and more before it.
  void ArmInTheMiddle() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (Metric("kerf_gpu_batches_total") < kBatchesBefore) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "GPUs do nothing";
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    Arm();
  }

  std::vector<std::string> profiles_;
  std::size_t used_profiles_ = 0;
};

TEST_F(PtxGpuFaultsTest, LostWrongAndSilentOnesCostNoAnswer) {
  const std::string first = world_ / "first";
  const std::string armed_by = Cat(",armed=", armed(), ";");
  // One is lost before a batch is on its way, one when it is; the last one is well.
  StartServer(Cat("fault=wrong-digest,armed=", first, ";fault=lost,call=2", armed_by,
                  "fault=lost,call=8", armed_by, "fault=wrong", armed_by, "fault=silent", armed_by,
                  "fault=slow,delay_ms=100"));
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(Metric("kerf_gpus{state=\"used\"}"), kLostGpus + 1);
  ChooseProfiles();
  ASSERT_FALSE(HasFatalFailure());
  // Of a GPU's batches the first one is audited: a wrong digest is seen there, and would be in no
  // other one that is on its way meanwhile. So one stream comes first, alone.
  WriteText(first, "now");
  Upload("fastcdc2020-8k", v1::DIGEST_ALGORITHM_BLAKE3, {RandomText(kFileBytes)});
  EXPECT_EQ(Metric("kerf_gpu_mismatches_total"), 1);
  std::thread arming([this] { ArmInTheMiddle(); });
  UploadBesideEachOther(4 * kFileBytes);
  arming.join();
  for (int left = kMostRounds; left > 0; --left) {
    UploadBesideEachOther();
    const bool is_all_lost = Metric("kerf_gpus{state=\"lost\"}") == kLostGpus;
    if (is_all_lost && used_profiles_ >= profiles_.size()) break;
  }
  EXPECT_EQ(Metric("kerf_gpus{state=\"lost\"}"), kLostGpus);
  EXPECT_EQ(Metric("kerf_gpus{state=\"used\"}"), 1);
  EXPECT_EQ(Metric("kerf_gpu_mismatches_total"), 1);
  EXPECT_GE(Metric("kerf_gpu_fallbacks_total{reason=\"lost\"}"), kLostGpus);
  const double before = Metric("kerf_gpu_batches_total");
  EXPECT_EQ(Upload("rabin-8k", v1::DIGEST_ALGORITHM_BLAKE3, {RandomText(kFileBytes)}), kOnGpu);
  EXPECT_GT(Metric("kerf_gpu_batches_total"), before);
  const nlohmann::json said = Ping();
  EXPECT_EQ(said["degraded"].size(), kLostGpus) << said;
  EXPECT_EQ(said["gpus"][kLostGpus]["lost"], nullptr) << said;
  const std::string log = world_.StopServer();
  EXPECT_THAT(log, HasSubstr("GPU 1: PTX is lost: the test has lost this device"));
  EXPECT_THAT(log, HasSubstr("GPU 2: PTX is lost: the test has lost this device"));
  // One chunk less than there are makes no sense; of one more nobody has written what is fetched,
  // which the machine of the PTX sees before kerfd can.
  EXPECT_THAT(log, AnyOf(HasSubstr("GPU 3: PTX is lost: the device's "),
                         HasSubstr("GPU 3: PTX is lost: uninitialised: a copy to the host")));
  EXPECT_THAT(log, HasSubstr("has the fingerprint "));
  EXPECT_THAT(log, HasSubstr("GPU 4: PTX is lost: a batch has not come back for 2000 ms"));
}

// A driver that compiles first: with the clock of the world, none that the test turns.
TEST_F(PtxGpuFaultsTest, OneThatIsReadyAfterHalfAMinuteIsUsed) {
  const auto began = std::chrono::steady_clock::now();
  StartServer(Cat("load_ms=", std::chrono::milliseconds(kLongLoad).count()));
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_GE(std::chrono::steady_clock::now() - began, kLongLoad);
  EXPECT_EQ(Upload("fastcdc2020-8k", v1::DIGEST_ALGORITHM_SHA256, {RandomText(kFileBytes)}),
            kOnGpu);
  EXPECT_GT(Metric("kerf_gpu_batches_total"), 0);
  EXPECT_EQ(Metric("kerf_gpus{state=\"lost\"}"), 0);
  EXPECT_THAT(world_.StopServer(), HasSubstr("GPU 0 is still loading its kernels"));
}

// A call that its driver never returns from: the stream has the CPU's answers, and kerfd ends when
// it is told to.
TEST_F(PtxGpuFaultsTest, ACallThatNeverReturnsHoldsNoStreamAndNoDrain) {
  StartServer(Cat("fault=hangs,call=3,armed=", armed()));
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(Upload("gear-8k", v1::DIGEST_ALGORITHM_BLAKE3, {RandomText(kFileBytes)}), kOnGpu);
  Arm();
  EXPECT_EQ(Upload("gear-8k", v1::DIGEST_ALGORITHM_BLAKE3, {RandomText(kFileBytes)}), kOnGpu);
  EXPECT_EQ(Metric("kerf_gpus{state=\"lost\"}"), 1);
  EXPECT_GE(Metric("kerf_gpu_fallbacks_total{reason=\"lost\"}"), 1);
  EXPECT_THAT(world_.StopServer(),
              HasSubstr("PTX is lost: a call of its driver has not returned for 30000 ms"));
}

}  // namespace
}  // namespace kerf::e2e
