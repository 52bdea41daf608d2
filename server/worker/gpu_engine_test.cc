// Streams whose files are cut by GPUs, emulated here: the same answers as without, also when one is
// lost in mid-file, and when it gives up what a stream sends. Runs under the thread sanitizer.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/shared_budget.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/chunker.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/gpu_counters.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "server/index/memory_index.h"
#include "server/index/testing/late_index.h"
#include "server/worker/buffer_pool.h"
#include "server/worker/stream_engine.h"
#include "server/worker/stream_metrics.h"
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

// One that a GPU makes, and one that is left to the CPU with the selection.
constexpr std::pair<DigestAlgorithm, v1::DigestAlgorithm> kDigests[] = {
    {DigestAlgorithm::kBlake3, v1::DIGEST_ALGORITHM_BLAKE3},
    {DigestAlgorithm::kXxh3_128, v1::DIGEST_ALGORITHM_XXH3_128},
};

// Of its zeros every position is a mark, which no GPU has room for.
constexpr const char* kHostileProfile = "crc:min=256,bits=9,max=3000";

std::vector<Fault> Well(std::size_t count) { return std::vector<Fault>(count); }

class World {
 public:
  static constexpr std::size_t kCutBufferBytes = 64 * 1024;
  static constexpr std::size_t kPauseBytes = 256 * 1024;

  // A GPU for each fault.
  explicit World(const std::vector<Fault>& faults, bool answers_at_once = false,
                 std::size_t min_piece_bytes = 0)
      : min_piece_bytes_(min_piece_bytes) {
    cuda::GpuCutterOptions options;
    // No stream of a test finds all of them on their way.
    options.slot_count = 5;
    options.slot = {.batch_bytes = 128 << 10, .piece_count = 16};
    options.batch_timeout = std::chrono::minutes(2);
    options.min_piece_bytes = min_piece_bytes;
    options.idle = [] {};
    // A wrong digest is found by who looks.
    options.audit_period = 1;
    std::vector<cuda::GpuSet::Member> members;
    for (const Fault& fault : faults) {
      const auto number = static_cast<std::uint32_t>(members.size());
      auto faulty = std::make_unique<cuda::FaultyDevice>(
          std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{
              .kernels = cuda::EmulatedKernelList(), .seed = TestSeed() + number}),
          fault);
      const cuda::FaultyDevice& device = *faulty;
      auto gpu = cuda::GpuCutter::Start(std::move(faulty), options);
      KERF_CHECK(gpu.ok());
      first_calls_.push_back(device.call_count());
      members.push_back({number, *std::move(gpu)});
    }
    gpus_ = std::make_unique<cuda::GpuSet>(std::move(members));
    pool_.emplace(3);
    context_.index = &late_index_;
    if (answers_at_once) context_.index = index_.get();
    context_.pool = &*pool_;
    context_.input_budget = &input_budget_;
    context_.work_budget = &work_budget_;
    context_.buffers = &buffers_;
    context_.max_cut_buffer_bytes = kCutBufferBytes;
    context_.gpus = gpus_.get();
    context_.gpu_pause_bytes = kPauseBytes;
    context_.metrics = &metrics_;
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    // Streams that were cancelled may ask once more.
    late_index_.Close();
    gpus_->Close();
    for (const cuda::GpuState& state : gpus_->states()) EXPECT_EQ(state.pending_bytes, 0u);
    pool_.reset();
    EXPECT_EQ(input_budget_.total().used_bytes(), 0u);
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

  // Until a GPU is lost: on a busy machine streams give up waiting for one, and the call that fails
  // comes late.
  void RunStreamsUntilLost(int count) {
    constexpr int kMaxRounds = 50;
    for (int round = 0; round < kMaxRounds && gpus_->lost_count() == 0; ++round) RunStreams(count);
  }

  // Of each GPU, what it takes to start.
  const std::vector<std::uint64_t>& first_calls() const { return first_calls_; }
  // Of all GPUs.
  cuda::GpuCounters counters() const {
    cuda::GpuCounters sum;
    for (const cuda::GpuState& state : gpus_->states()) {
      sum.batch_count += state.counters.batch_count;
      sum.piece_count += state.counters.piece_count;
      sum.given_up_piece_count += state.counters.given_up_piece_count;
      sum.lost_piece_count += state.counters.lost_piece_count;
    }
    return sum;
  }
  const cuda::GpuSet& gpus() const { return *gpus_; }
  // How often a stage was observed.
  std::uint64_t CountOf(Stage stage) const {
    const auto counts = metrics_.stage_ns[static_cast<std::size_t>(stage)].counts();
    return std::accumulate(counts.buckets.begin(), counts.buckets.end(), std::uint64_t{0});
  }
  const EngineContext& context() const { return context_; }

  // The answers must be those of the files.
  void RunFiles(Random& random, const char* profile, const std::vector<File>& files) {
    auto sink = std::make_shared<HeldSink>();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    const auto& [algorithm, wire_algorithm] = kDigests[random.Below(std::size(kDigests))];
    const absl::Status status =
        RunUpload(random, files, *sink, *engine, [] {}, OpenOf(profile, wire_algorithm));
    ASSERT_TRUE(status.ok()) << status;
    std::vector<std::size_t> chunk_counts(files.size());
    // What a stream's buffer holds is one piece.
    const bool is_on_gpu = min_piece_bytes_ <= kCutBufferBytes &&
                           cuda::MakeBatchPlan(*ParseProfile(profile), algorithm) != nullptr;
    for (const v1::UploadAnswer& answer : sink->taken().answers()) {
      // Once no GPU is left, new streams have nothing to do with one.
      if (answer.has_opened() && gpus_->is_usable()) {
        EXPECT_EQ(answer.opened().backend() == "cuda", is_on_gpu) << answer.opened().backend();
      }
      if (!answer.has_chunks()) continue;
      const std::size_t number = answer.chunks().file_number() - 1;
      const File& file = files[number];
      for (const v1::Chunk& chunk : answer.chunks().chunks()) {
        const std::size_t index = chunk_counts[number]++;
        ASSERT_LT(index, file.end_offsets.size());
        ASSERT_EQ(chunk.end_offset(), file.end_offsets[index]) << profile;
        const std::uint64_t begin = index == 0 ? 0 : file.end_offsets[index - 1];
        const Digest digest = Fingerprint(
            algorithm, AsBytes(file.content).subspan(begin, chunk.end_offset() - begin));
        ASSERT_EQ(chunk.digest(), std::string(digest.bytes.begin(),
                                              digest.bytes.begin() + DigestSizeBytes(algorithm)));
      }
    }
    for (std::size_t number = 0; number < files.size(); ++number) {
      EXPECT_EQ(chunk_counts[number], files[number].end_offsets.size());
    }
  }

 private:
  void RunStream(std::uint64_t seed) {
    Random random(seed);
    const char* const profile = kGpuProfiles[random.Below(std::size(kGpuProfiles))];
    RunFiles(random, profile, MakeFiles(random, 5, 150'000, profile));
  }

  const std::size_t min_piece_bytes_;
  std::vector<std::uint64_t> first_calls_;
  // GPUs' threads add to it.
  StreamMetrics metrics_;
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  LateIndex late_index_{index_.get(), TestSeed()};
  SharedBudget input_budget_{8u << 20};
  MemoryBudget work_budget_{8u << 20};
  BufferPool buffers_{kCutBufferBytes, 1};
  std::unique_ptr<cuda::GpuSet> gpus_;
  std::optional<ThreadPool> pool_;
  EngineContext context_;
};

// With its cuts.
File MakeFile(std::string content, const char* profile) {
  const auto chunker = MakeChunker(*ParseProfile(profile));
  File file{std::move(content), {}};
  for (std::size_t position = 0; position < file.content.size();) {
    position += chunker->NextCut(AsBytes(file.content).subspan(position));
    file.end_offsets.push_back(position);
  }
  return file;
}

std::string RandomText(Random& random, std::size_t size_bytes) {
  std::string text(size_bytes, '\0');
  random.Fill({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  return text;
}

TEST(GpuEngineTest, AnswersAreThoseOfTheCpu) {
  World world(Well(2));
  world.RunStreams(4);
  const cuda::GpuCounters counters = world.counters();
  EXPECT_GT(counters.piece_count, counters.given_up_piece_count);
  EXPECT_EQ(world.gpus().lost_count(), 0u);
}

// It would take what a batch has room for, and streams send less: they do as if it were not there.
TEST(GpuEngineTest, AGpuThatNoPieceIsLargeEnoughForIsNotWaitedFor) {
  for (const std::size_t min_piece_bytes : {std::size_t{1}, World::kCutBufferBytes + 1}) {
    World world(Well(1), false, min_piece_bytes);
    ASSERT_TRUE(world.gpus().is_usable());
    Random random(TestSeed());
    const char* const profile = kGpuProfiles[0];
    world.RunFiles(random, profile, {MakeFile(RandomText(random, 300'000), profile)});
    EXPECT_EQ(world.counters().piece_count > 0, min_piece_bytes == 1);
  }
}

TEST(GpuEngineTest, TellsWhereTheTimeOfBatchesWent) {
  World world(Well(2));
  Random random(TestSeed());
  // Until there was one whose digests a GPU makes and one that the CPU selects.
  const auto has_both = [&] {
    const std::uint64_t hashed_count = world.CountOf(Stage::kGpuHash);
    return hashed_count > 0 && hashed_count < world.CountOf(Stage::kMark);
  };
  for (int round = 0; round < 100 && !has_both(); ++round) {
    const char* const profile = kGpuProfiles[0];
    world.RunFiles(random, profile, {MakeFile(RandomText(random, 100'000), profile)});
  }
  EXPECT_TRUE(has_both());
  const cuda::GpuCounters counters = world.counters();
  for (const Stage stage : {Stage::kCopyIn, Stage::kMark, Stage::kSelect, Stage::kCopyOut}) {
    EXPECT_EQ(world.CountOf(stage), counters.batch_count);
  }
  EXPECT_EQ(world.CountOf(Stage::kGpu), counters.piece_count);
}

TEST(GpuEngineTest, ADeviceThatIsLostInMidFileChangesNothing) {
  const std::uint64_t first_call = World(Well(1)).first_calls().front();
  Random random(TestSeed());
  for (int round = 0; round < 4; ++round) {
    World world({{Fault::Kind::kLost, first_call + random.Below(60)}});
    world.RunStreamsUntilLost(3);
    EXPECT_EQ(world.gpus().lost_count(), 1u);
  }
}

TEST(GpuEngineTest, TheLossOfOneOfTwoChangesNothing) {
  const std::vector<std::uint64_t> first_calls = World(Well(2)).first_calls();
  Random random(TestSeed());
  for (int round = 0; round < 2; ++round) {
    // The first one has always something to do.
    World world({{Fault::Kind::kLost, first_calls[0] + random.Below(60)}, {}});
    world.RunStreamsUntilLost(3);
    EXPECT_EQ(world.gpus().lost_count(), 1u);
    EXPECT_TRUE(world.gpus().states()[1].health.ok());
  }
}

// It is cut by the CPU for a while, again and again, and by the GPU when its data is of use to it.
TEST(GpuEngineTest, AStreamThatIsGivenUpKeepsAwayFromTheGpu) {
  World world(Well(1));
  Random random(TestSeed());
  constexpr std::size_t kZeroBytes = 1 << 20;
  world.RunFiles(random, kHostileProfile,
                 {MakeFile(std::string(kZeroBytes, '\0'), kHostileProfile)});
  const cuda::GpuCounters zeros = world.counters();
  // Two before each pause.
  EXPECT_GE(zeros.given_up_piece_count, 2u);
  EXPECT_LE(zeros.given_up_piece_count, 2 * (kZeroBytes / World::kPauseBytes + 1));
  EXPECT_EQ(zeros.piece_count, zeros.given_up_piece_count);
  world.RunFiles(random, kHostileProfile,
                 {MakeFile(std::string(200'000, '\0') + RandomText(random, 600'000) +
                               std::string(50'000, '\0'),
                           kHostileProfile)});
  const cuda::GpuCounters both = world.counters();
  EXPECT_GT(both.piece_count - both.given_up_piece_count, 0u);
}

// Beside a good stream, and with a device that may be lost at any moment.
TEST(GpuEngineTest, WhatIsHandedBackIsCutAsItShouldBe) {
  const std::uint64_t first_call = World(Well(1)).first_calls().front();
  Random seeds(TestSeed());
  for (int round = 0; round < 4; ++round) {
    const bool is_lost = round > 0;
    const Fault fault{is_lost ? Fault::Kind::kLost : Fault::Kind::kNone,
                      first_call + seeds.Below(150)};
    World world(std::vector<Fault>{fault});
    std::thread hostile([&, seed = seeds.Next()] {
      Random random(seed);
      std::vector<File> files;
      for (int number = 0; number < 3; ++number) {
        std::string content(random.Between(100'000, 300'000), '\0');
        if (random.OneIn(3)) content += RandomText(random, random.Below(100'000));
        files.push_back(MakeFile(std::move(content), kHostileProfile));
      }
      world.RunFiles(random, kHostileProfile, files);
    });
    world.RunStreams(2);
    hostile.join();
    if (!is_lost) {
      EXPECT_GT(world.counters().given_up_piece_count, 0u);
      EXPECT_EQ(world.counters().lost_piece_count, 0u);
    }
  }
}

// A client that pauses in mid-file gets what its bytes decide, also behind a file that has just
// ended.
TEST(GpuEngineTest, WhoWaitsInMidFileIsAnswered) {
  for (const bool answers_at_once : {true, false}) {
    World world(Well(1), answers_at_once);
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
  World world(Well(1));
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

// GPUs are lost, or found wrong, while streams are cancelled and others go on; then all is shut
// with pieces under way.
TEST(GpuEngineTest, StreamsAndGpusEndInTheMiddleOfAnything) {
  Random random(TestSeed());
  const std::vector<std::uint64_t> first_calls = World(Well(2)).first_calls();
  std::uint64_t lost_count = 0;
  for (int round = 0; round < 4; ++round) {
    std::vector<Fault> faults(2);
    for (std::size_t index = 0; index < faults.size(); ++index) {
      const auto kind = random.OneIn(2) ? Fault::Kind::kLost : Fault::Kind::kWrongBits;
      faults[index] = {kind, first_calls[index] + random.Below(120)};
    }
    World world(faults);
    constexpr int kClients = 4;
    std::vector<std::thread> clients;
    clients.reserve(kClients);
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&world, seed = random.Next(), is_cut_short = client % 2 == 0] {
        Random own(seed);
        const char* const profile = kGpuProfiles[own.Below(std::size(kGpuProfiles))];
        if (!is_cut_short) return world.RunFiles(own, profile, MakeFiles(own, 3, 100'000, profile));
        for (int stream = 0; stream < 4; ++stream) {
          const std::vector<File> files = MakeFiles(own, 3, 100'000, profile);
          auto sink = std::make_shared<HeldSink>();
          const auto engine = StreamEngine::Create(&world.context(), "session", sink);
          std::uint64_t left = own.Below(15);
          RunUpload(
              own, files, *sink, *engine,
              [&] {
                if (left-- != 0) return;
                sink->EndByTransport();
                engine->Cancel();
              },
              OpenOf(profile, v1::DIGEST_ALGORITHM_BLAKE3))
              .IgnoreError();
        }
      });
    }
    for (std::thread& client : clients) client.join();
    lost_count += world.gpus().lost_count();
  }
  EXPECT_GT(lost_count, 0u);
}

}  // namespace
}  // namespace kerf
