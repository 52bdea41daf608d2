#include "client/store/packs/pack_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using Kind = FileOperation::Kind;

std::string RandomBytes(Random& random, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  random.Fill(bytes);
  return {bytes.begin(), bytes.end()};
}

absl::Status Add(PackWriter& writer, const std::string& chunk) {
  return writer.Add(RefOf(chunk).digest,
                    {reinterpret_cast<const std::uint8_t*>(chunk.data()), chunk.size()});
}

std::size_t FileCount(const std::string& directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) ++count;
  }
  return count;
}

// A store whose disk is watched, and a record of what was called durable.
class PackWriterTest : public testing::Test {
 protected:
  PackWriterTest() : hook_(folder_.path()), store_(folder_.path()) {}

  PackWriterOptions Options() {
    PackWriterOptions options = store_.writer_options();
    options.on_sealed = [this](const SealedPack& pack) {
      for (const PackChunk& chunk : pack.footer.chunks) {
        // Already here: whoever is told may tell others.
        const bool survives = !check_survival_ || hook_.Survives(chunk.digest);
        const std::lock_guard lock(mutex_);
        if (!survives) ++lost_count_;
        sealed_.insert(chunk.digest);
      }
    };
    return options;
  }

  bool Sealed(const std::string& chunk) {
    const std::lock_guard lock(mutex_);
    return sealed_.contains(RefOf(chunk).digest);
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_;
  TestStore store_;
  bool check_survival_ = true;
  std::mutex mutex_;
  std::set<Digest> sealed_;
  int lost_count_ = 0;
};

TEST_F(PackWriterTest, WhatIsCalledDurableSurvivesThePowerCut) {
  PackWriterOptions options = Options();
  options.target_pack_bytes = 2000;
  PackWriter writer(std::move(options));
  Random random(TestSeed());
  std::vector<std::string> chunks;
  for (int number = 0; number < 20; ++number) {
    chunks.push_back(RandomBytes(random, random.Between(1, 600)));
    ASSERT_TRUE(Add(writer, chunks.back()).ok());
  }
  ASSERT_TRUE(writer.Flush().ok());
  for (const std::string& chunk : chunks) EXPECT_TRUE(Sealed(chunk));
  EXPECT_EQ(lost_count_, 0);
  EXPECT_GT(FileCount(store_.store().packs_directory()), 1u);
}

TEST_F(PackWriterTest, ADirectoryThatAnotherHasJustMadeIsMadeDurable) {
  for (int number = 0; number < 256; ++number) {
    const char digits[] = "0123456789abcdef";
    const std::string name = {digits[number / 16], digits[number % 16]};
    ASSERT_TRUE(MakeDirectory(Cat(store_.store().packs_directory(), "/", name)).ok());
  }
  store_.WritePack({"content"});
  EXPECT_TRUE(hook_.Survives(RefOf("content").digest));
}

TEST_F(PackWriterTest, WithoutFlushNothingIsLeft) {
  {
    PackWriter writer(Options());
    ASSERT_TRUE(Add(writer, std::string(1000, 'a')).ok());
    ASSERT_TRUE(Add(writer, std::string(1000, 'b')).ok());
  }
  EXPECT_EQ(FileCount(store_.store().packs_directory()), 0u);
  EXPECT_EQ(FileCount(store_.store().temporary_directory()), 0u);
  EXPECT_TRUE(sealed_.empty());
}

TEST_F(PackWriterTest, AFailureStaysAndNothingIsCalledDurableAfterIt) {
  const struct {
    Kind kind;
    std::string_view part;
  } failures[] = {{Kind::kCreate, "/tmp/"},        {Kind::kWrite, "/tmp/"},
                  {Kind::kSync, "/tmp/"},          {Kind::kMakeDirectory, "/packs/"},
                  {Kind::kRename, "/tmp/"},        {Kind::kSyncDirectory, "/packs/"},
                  {Kind::kSyncDirectory, "/packs"}};
  int number = 0;
  for (const auto& failure : failures) {
    SCOPED_TRACE(number);
    const std::string chunk = Cat("content ", number++);
    {
      PackWriter writer(Options());
      hook_.RefuseWith(RefuseEvery(failure.kind, std::string(failure.part),
                                   absl::ResourceExhaustedError("the disk is full")));
      ASSERT_TRUE(Add(writer, chunk).ok());
      EXPECT_TRUE(absl::IsResourceExhausted(writer.Flush()));
      hook_.RefuseWith({});
      EXPECT_TRUE(absl::IsResourceExhausted(Add(writer, "more")));
      EXPECT_TRUE(absl::IsResourceExhausted(writer.Flush()));
    }
    EXPECT_FALSE(Sealed(chunk));
    EXPECT_FALSE(Sealed("more"));
    EXPECT_EQ(FileCount(store_.store().temporary_directory()), 0u);
  }
}

TEST_F(PackWriterTest, AChunkUnderAWrongFingerprintIsNeverStored) {
  {
    PackWriter writer(Options());
    ASSERT_TRUE(Add(writer, "first").ok());
    const std::string second = "second";
    Digest flipped = RefOf(second).digest;
    flipped.bytes[31] ^= 1;
    ASSERT_TRUE(
        writer.Add(flipped, {reinterpret_cast<const std::uint8_t*>(second.data()), second.size()})
            .ok());
    EXPECT_TRUE(absl::IsDataLoss(writer.Flush()));
    EXPECT_TRUE(absl::IsDataLoss(Add(writer, "first")));
  }
  EXPECT_TRUE(sealed_.empty());
  EXPECT_EQ(FileCount(store_.store().packs_directory()), 0u);
  EXPECT_EQ(FileCount(store_.store().temporary_directory()), 0u);
}

TEST_F(PackWriterTest, ADiskThatIsFullAmidManyBlocksLosesNothingThatWasCalledDurable) {
  Random random(TestSeed());
  PackWriterOptions options = Options();
  options.target_pack_bytes = 1000;
  options.thread_count = 3;
  // Outlives the writer's threads, which may still write when it goes.
  std::atomic<int> writes_left = static_cast<int>(random.Between(5, 40));
  PackWriter writer(std::move(options));
  hook_.RefuseWith([&](const FileOperation& operation) {
    return operation.kind == Kind::kWrite && --writes_left < 0
               ? absl::ResourceExhaustedError("the disk is full")
               : absl::OkStatus();
  });
  absl::Status status;
  for (int number = 0; number < 100 && status.ok(); ++number) {
    status = Add(writer, RandomBytes(random, 300));
  }
  if (status.ok()) status = writer.Flush();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::IsResourceExhausted(writer.Flush()));
  EXPECT_EQ(lost_count_, 0);
}

TEST_F(PackWriterTest, FlushesFromManyThreadsEachWaitForTheirOwn) {
  check_survival_ = false;
  PackWriterOptions options = Options();
  options.target_pack_bytes = 4000;
  options.thread_count = 2;
  PackWriter writer(std::move(options));
  std::atomic<int> missing_count = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int round = 0; round < 8; ++round) {
          std::vector<std::string> chunks;
          for (int number = 0; number < 5; ++number) {
            chunks.push_back(Cat(std::string(200, 'x'), thread, "/", round, "/", number));
            if (!Add(writer, chunks.back()).ok()) ++missing_count;
          }
          if (!writer.Flush().ok()) ++missing_count;
          for (const std::string& chunk : chunks) missing_count += Sealed(chunk) ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(missing_count, 0);
  ChunkIndex index(store_.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  EXPECT_TRUE(index.damaged().empty());
}

TEST_F(PackWriterTest, FlushDoesNotWaitForWhatIsAddedMeanwhile) {
  check_survival_ = false;
  // Each chunk makes a pack, which is held back until its gate opens.
  struct Gate {
    std::promise<void> reached;
    std::promise<void> open;
  };
  std::array<Gate, 2> gates;
  std::atomic<std::size_t> next_gate = 0;
  PackWriterOptions options = Options();
  options.thread_count = 2;
  options.target_pack_bytes = 300;
  options.on_sealed = [&](const SealedPack&) {
    const std::size_t gate = next_gate++;
    if (gate >= gates.size()) return;
    gates[gate].reached.set_value();
    gates[gate].open.get_future().wait();
  };
  Random random(TestSeed());
  PackWriter writer(std::move(options));
  ASSERT_TRUE(Add(writer, RandomBytes(random, 400)).ok());
  std::jthread flush([&] { EXPECT_TRUE(writer.Flush().ok()); });
  gates[0].reached.get_future().wait();
  ASSERT_TRUE(Add(writer, RandomBytes(random, 400)).ok());
  // Pushes the one before out.
  ASSERT_TRUE(Add(writer, RandomBytes(random, 400)).ok());
  gates[1].reached.get_future().wait();
  gates[0].open.set_value();
  flush.join();
  gates[1].open.set_value();
  EXPECT_TRUE(writer.Flush().ok());
}

TEST_F(PackWriterTest, APackTakesNoMoreChunksThanItsFooterMayList) {
  PackWriterOptions options = Options();
  options.max_pack_chunks = 10;
  options.compression.block_bytes = 8;
  PackWriter writer(std::move(options));
  for (int number = 0; number < 100; ++number) {
    ASSERT_TRUE(Add(writer, Cat("c", number)).ok());
  }
  ASSERT_TRUE(writer.Flush().ok());
  ChunkIndex index(store_.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  EXPECT_GE(index.packs().size(), 6u);
  for (const auto& pack : index.packs()) EXPECT_LT(pack->footer.chunks.size(), 20u);
}

}  // namespace
}  // namespace kerf::agent
