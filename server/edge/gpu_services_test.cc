// What clients and health checks are told of the GPUs of a kerfd.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "kerf/v1/status.grpc.pb.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

// Two GPUs, emulated, of which the second is lost with its first piece.
class GpuServicesTest : public testing::Test {
 protected:
  static constexpr const char* kGpuProfile = "fastcdc:min=256,avg=1024,max=4096,level=2";

  static std::unique_ptr<cuda::GpuCutter> StartGpu(
      const cuda::Fault& fault, std::uint64_t* call_count,
      std::chrono::milliseconds batch_timeout = std::chrono::minutes(2)) {
    auto device = std::make_unique<cuda::FaultyDevice>(
        std::make_unique<cuda::EmulatedDevice>(
            cuda::EmulatedDeviceOptions{.kernels = cuda::EmulatedKernelList()}),
        fault);
    const cuda::FaultyDevice& counted = *device;
    cuda::GpuCutterOptions options;
    options.slot_count = 1;
    options.slot = {.batch_bytes = 64 << 10, .piece_count = 4};
    options.batch_timeout = batch_timeout;
    options.min_piece_bytes = 0;
    auto gpu = cuda::GpuCutter::Start(std::move(device), options);
    KERF_CHECK(gpu.ok());
    *call_count = counted.call_count();
    return *std::move(gpu);
  }

  void SetUp() override {
    std::uint64_t call_count = 0;
    std::vector<cuda::GpuSet::Member> members;
    members.push_back({0, StartGpu({}, &call_count)});
    members.push_back({1, StartGpu({cuda::Fault::Kind::kLost, call_count}, &call_count)});
    gpus_ = std::make_unique<cuda::GpuSet>(std::move(members));
    ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    options.worker_threads = 1;
    // What the watchdog does, the test does.
    options.watchdog_interval = std::chrono::milliseconds(0);
    options.gpus = gpus_.get();
    auto server = Server::Start(options, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses()[0]);
  }
  void TearDown() override {
    server_->Stop();
    gpus_->Close();
    server_.reset();
  }

  v1::GetStatusResponse Ask() {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    EXPECT_TRUE(v1::StatusService::NewStub(channel_)->GetStatus(&context, {}, &response).ok());
    return response;
  }

  // 1: SERVING, 2: NOT_SERVING.
  int HealthOf(const std::string& service) {
    std::string request = service;
    if (!service.empty()) request = std::string("\n") + static_cast<char>(service.size()) + service;
    const grpc::Slice slice(request);
    const grpc::ByteBuffer asked(&slice, 1);
    grpc::ByteBuffer answer;
    grpc::ClientContext context;
    std::promise<grpc::Status> done;
    grpc::GenericStub(channel_).UnaryCall(
        &context, "/grpc.health.v1.Health/Check", {}, &asked, &answer,
        [&](const grpc::Status& status) { done.set_value(status); });
    const grpc::Status status = done.get_future().get();
    EXPECT_TRUE(status.ok()) << status.error_message();
    grpc::Slice text;
    EXPECT_TRUE(answer.DumpToSingleSlice(&text).ok());
    return text.size() == 2 ? text.begin()[1] : -1;
  }

  void Upload() {
    TestUpload upload(channel_);
    ASSERT_TRUE(upload.SendOpen(OpenFor("home", kGpuProfile)));
    const std::string content(300'000, 'z');
    ASSERT_TRUE(upload.SendFile(content));
    ASSERT_TRUE(upload.WaitForChunks(1, content.size()));
  }

  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<cuda::GpuSet> gpus_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(GpuServicesTest, SaysHowItsGpusAre) {
  v1::GetStatusResponse said = Ask();
  ASSERT_EQ(said.gpus_size(), 2);
  EXPECT_EQ(said.gpus(0).name(), "emulator");
  EXPECT_EQ(said.gpus(1).number(), 1u);
  EXPECT_EQ(said.gpus(1).lost(), "");
  EXPECT_EQ(said.degradations_size(), 0);
  grpc::ClientContext context;
  v1::GetCapabilitiesResponse capabilities;
  ASSERT_TRUE(
      v1::ChunkingService::NewStub(channel_)->GetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_EQ(capabilities.backends(0), "cuda");
  EXPECT_EQ(HealthOf("kerf.gpu"), 1);
  // The second one gets what comes while the first one is busy.
  while (gpus_->lost_count() == 0) {
    std::thread beside([&] { Upload(); });
    Upload();
    beside.join();
  }
  said = Ask();
  EXPECT_GT(said.gpus(0).byte_count(), 0u);
  EXPECT_GT(said.gpus(0).batch_count(), 0u);
  EXPECT_EQ(said.gpus(1).lost_piece_count(), said.gpus(1).piece_count());
  EXPECT_THAT(said.gpus(1).lost(), testing::HasSubstr("emulator is lost"));
  ASSERT_EQ(said.degradations_size(), 1);
  EXPECT_THAT(said.degradations(0), testing::StartsWith("GPU 1: emulator is lost"));
  server_->CheckTimeouts();
  EXPECT_EQ(HealthOf("kerf.gpu"), 2);
  EXPECT_EQ(HealthOf(""), 1);
}

// As one does whose driver never comes back from a call: here until the batch is given up.
class SilentGpuTest : public GpuServicesTest {
 protected:
  void SetUp() override {
    std::uint64_t call_count = 0;
    StartGpu({}, &call_count);
    std::vector<cuda::GpuSet::Member> members;
    members.push_back(
        {0, StartGpu({cuda::Fault::Kind::kSilent, call_count}, &call_count, kBatchTimeout)});
    gpus_ = std::make_unique<cuda::GpuSet>(std::move(members));
    ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    options.worker_threads = 1;
    options.watchdog_interval = std::chrono::milliseconds(0);
    options.clock = [this] { return TimePoint(std::chrono::milliseconds(now_ms_.load())); };
    options.gpus = gpus_.get();
    options.timeouts.idle = std::chrono::hours(24);
    patience_ms_ = options.timeouts.index.count();
    auto server = Server::Start(options, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses()[0]);
  }

  // Longer than the test takes, and no longer than it may wait at its end.
  static constexpr std::chrono::milliseconds kBatchTimeout{5'000};
  std::atomic<std::int64_t> now_ms_{1'000'000};
  std::int64_t patience_ms_ = 0;
};

TEST_F(SilentGpuTest, AStreamThatWaitsForItEndsAndSaysWhy) {
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home", kGpuProfile)));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  ASSERT_TRUE(upload.SendFile(std::string(100'000, 'z')));
  while (gpus_->states()[0].pending_bytes == 0) std::this_thread::yield();
  // Its turn ends meanwhile.
  std::atomic<bool> has_ended{false};
  std::thread looking([&] {
    while (!has_ended) {
      server_->CheckTimeouts();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      now_ms_ += patience_ms_;
    }
  });
  const grpc::Status status = upload.WaitForEnd();
  has_ended = true;
  looking.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), testing::HasSubstr("a GPU of this server has told nothing"));
}

// Whoever watches GPUs would start a machine anew that is well.
TEST_F(GpuServicesTest, ADrainSaysNothingOfGpus) {
  server_->BeginDrain(std::chrono::milliseconds(60'000));
  EXPECT_EQ(HealthOf(""), 2);
  EXPECT_EQ(HealthOf("kerf.gpu"), 1);
}

}  // namespace
}  // namespace kerf
