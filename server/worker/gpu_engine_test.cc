// Streams whose files are cut by a GPU, emulated here: the same answers as without, also when the
// device is lost in mid-file. Runs under the thread sanitizer.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/plugin/kernel_list.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/async_index.h"
#include "server/index/memory_index.h"
#include "server/index/testing/late_index.h"
#include "server/worker/stream_engine.h"
#include "server/worker/testing/engine_client.h"

namespace kerf {
namespace {

using cuda::Fault;

constexpr const char* kGpuProfiles[] = {
    "gear:min=256,avg=1024,max=4096",
    "fastcdc:min=256,avg=1024,max=8192,level=2",
    "rabin:min=512,avg=2048,max=9000",
    "mincdc:min=512,max=1536",
    "fastcdc2020:min=256,avg=2048,max=8192,level=1",
};

class World {
 public:
  explicit World(Fault fault, bool answers_at_once = false) {
    auto faulty = std::make_unique<cuda::FaultyDevice>(
        std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{
            .kernels = cuda::EmulatedKernelsOf(cuda::KernelList()), .seed = TestSeed()}),
        fault);
    device_ = faulty.get();
    cuda::GpuCutterOptions options;
    options.slot_count = 2;
    options.slot = {.batch_bytes = 128 << 10, .segment_count = 16};
    options.batch_timeout = std::chrono::minutes(2);
    options.min_piece_bytes = 0;
    options.idle = [] {};
    auto gpu = cuda::GpuCutter::Start(std::move(faulty), options);
    KERF_CHECK(gpu.ok());
    gpu_ = *std::move(gpu);
    pool_.emplace(3);
    context_.index = &late_index_;
    if (answers_at_once) context_.index = &inline_index_;
    context_.pool = &*pool_;
    context_.input_budget = &input_budget_;
    context_.work_budget = &work_budget_;
    context_.buffers = &buffers_;
    context_.max_cut_buffer_bytes = kCutBufferBytes;
    context_.gpu = gpu_.get();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    // Streams that were cancelled may ask once more.
    late_index_.Close();
    gpu_->Close();
    pool_.reset();
    EXPECT_EQ(input_budget_.used_bytes(), 0u);
    EXPECT_EQ(work_budget_.used_bytes(), 0u);
  }

  void RunStreams(int count) {
    Random seeds(TestSeed());
    std::vector<std::thread> clients;
    clients.reserve(static_cast<std::size_t>(count));
    for (int client = 0; client < count; ++client) {
      clients.emplace_back([this, seed = seeds.Next()] { RunStream(seed); });
    }
    for (std::thread& client : clients) client.join();
  }

  const cuda::FaultyDevice& device() const { return *device_; }
  const cuda::GpuCutter& gpu() const { return *gpu_; }
  const EngineContext& context() const { return context_; }

 private:
  static constexpr std::size_t kCutBufferBytes = 64 * 1024;

  void RunStream(std::uint64_t seed) {
    Random random(seed);
    const char* const profile = kGpuProfiles[random.Below(std::size(kGpuProfiles))];
    const std::vector<File> files = MakeFiles(random, 5, 150'000, profile);
    auto sink = std::make_shared<HeldSink>();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    const absl::Status status = RunUpload(
        random, files, *sink, *engine, [] {}, OpenOf(profile, v1::DIGEST_ALGORITHM_BLAKE3));
    ASSERT_TRUE(status.ok()) << status;
    std::vector<std::size_t> chunk_counts(files.size());
    for (const v1::UploadAnswer& answer : sink->taken().answers()) {
      if (answer.has_opened()) {
        EXPECT_EQ(answer.opened().backend(), "cuda");
      }
      if (!answer.has_chunks()) continue;
      const std::size_t number = answer.chunks().file_number() - 1;
      const File& file = files[number];
      for (const v1::Chunk& chunk : answer.chunks().chunks()) {
        const std::size_t index = chunk_counts[number]++;
        ASSERT_LT(index, file.end_offsets.size());
        ASSERT_EQ(chunk.end_offset(), file.end_offsets[index]) << profile;
        const std::uint64_t begin = index == 0 ? 0 : file.end_offsets[index - 1];
        const Digest digest =
            Fingerprint(DigestAlgorithm::kBlake3,
                        AsBytes(file.content).subspan(begin, chunk.end_offset() - begin));
        ASSERT_EQ(chunk.digest(), std::string(digest.bytes.begin(), digest.bytes.end()));
      }
    }
    for (std::size_t number = 0; number < files.size(); ++number) {
      EXPECT_EQ(chunk_counts[number], files[number].end_offsets.size());
    }
  }

  const cuda::FaultyDevice* device_ = nullptr;
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  LateIndex late_index_{index_.get(), TestSeed()};
  InlineIndex inline_index_{index_.get()};
  MemoryBudget input_budget_{8u << 20};
  MemoryBudget work_budget_{8u << 20};
  BufferPool buffers_{kCutBufferBytes, 1};
  std::unique_ptr<cuda::GpuCutter> gpu_;
  std::optional<ThreadPool> pool_;
  EngineContext context_;
};

TEST(GpuEngineTest, AnswersAreThoseOfTheCpu) {
  World world({});
  world.RunStreams(4);
  EXPECT_GT(world.gpu().counters().piece_count, world.gpu().counters().cpu_piece_count);
  EXPECT_TRUE(world.gpu().health().ok()) << world.gpu().health();
}

TEST(GpuEngineTest, ADeviceThatIsLostInMidFileChangesNothing) {
  const std::uint64_t first_call = World({}).device().call_count();
  Random random(TestSeed());
  for (int round = 0; round < 4; ++round) {
    World world({Fault::Kind::kLost, first_call + random.Below(60)});
    world.RunStreams(3);
    EXPECT_FALSE(world.gpu().health().ok());
  }
}

// A client that pauses in mid-file gets what its bytes decide, also behind a file that has just
// ended.
TEST(GpuEngineTest, WhoWaitsInMidFileIsAnswered) {
  for (const bool answers_at_once : {true, false}) {
    World world({}, answers_at_once);
    Random random(TestSeed());
    std::vector<File> files = MakeFiles(random, 1, 10'000, kGpuProfiles[0]);
    auto sink = std::make_shared<HeldSink>();
    const auto engine = StreamEngine::Create(&world.context(), "session", sink);
    v1::UploadRequest all;
    for (const v1::UploadRequest& message :
         MakeMessages(random, files, OpenOf(kGpuProfiles[0], v1::DIGEST_ALGORITHM_BLAKE3))) {
      all.MergeFrom(message);
    }
    std::string begun(40'000, '\0');
    random.Fill({reinterpret_cast<std::uint8_t*>(begun.data()), begun.size()});
    all.add_frames()->mutable_file_begin();
    all.add_frames()->set_data(begun);
    engine->Push(std::make_unique<RequestSource>(std::move(all)));
    std::uint64_t end_offset = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    // No chunk is longer than 4096 bytes.
    while (end_offset < begun.size() - 4096 && std::chrono::steady_clock::now() < deadline) {
      if (sink->Take()) engine->AnswersTaken();
      sink->Pause();
      for (const v1::UploadAnswer& answer : sink->taken().answers()) {
        if (answer.chunks().file_number() != 2) continue;
        for (const v1::Chunk& chunk : answer.chunks().chunks()) end_offset = chunk.end_offset();
      }
    }
    EXPECT_GE(end_offset, begun.size() - 4096);
    engine->Cancel();
  }
}

TEST(GpuEngineTest, StreamsEndInTheMiddleOfAnything) {
  World world({});
  Random random(TestSeed());
  for (int round = 0; round < 10; ++round) {
    const std::vector<File> files = MakeFiles(random, 3, 100'000, kGpuProfiles[0]);
    auto sink = std::make_shared<HeldSink>();
    const auto engine = StreamEngine::Create(&world.context(), "session", sink);
    std::uint64_t left = random.Below(20);
    RunUpload(
        random, files, *sink, *engine,
        [&] {
          if (left-- != 0) return;
          sink->EndByTransport();
          engine->Cancel();
        },
        OpenOf(kGpuProfiles[0], v1::DIGEST_ALGORITHM_BLAKE3))
        .IgnoreError();
  }
}

}  // namespace
}  // namespace kerf
