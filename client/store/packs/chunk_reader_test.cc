#include "client/store/packs/chunk_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <latch>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/durable_file.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

// Does not compress, so that a changed byte of the file is a changed byte of a chunk.
std::string Noise(Random& random, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  random.Fill(bytes);
  return {bytes.begin(), bytes.end()};
}

class ChunkReaderTest : public testing::Test {
 protected:
  ChunkReaderTest() : index_(store_.store().packs_directory()) {}

  // Flips a bit in the middle of the chunk's only block.
  void Damage(const SealedPack& pack) { Damage(pack, pack.footer.blocks.front().stored_bytes / 2); }
  void Damage(const SealedPack& pack, std::uint32_t position) {
    const std::string path = index_.PackPath(pack.id);
    std::string bytes = ReadTestFile(path);
    char& byte = bytes[pack.footer.blocks.front().offset + position];
    byte = static_cast<char>(byte ^ 1);
    WriteTestFile(path, bytes);
  }

  absl::StatusOr<std::string> Read(const std::string& chunk) {
    const absl::StatusOr<ChunkBytes> bytes = reader_.Read(RefOf(chunk));
    if (!bytes.ok()) return bytes.status();
    return std::string(bytes->bytes().begin(), bytes->bytes().end());
  }

  Random random_{TestSeed()};
  TestStore store_;
  ChunkIndex index_;
  ChunkReader reader_{index_, ChunkReader::Options()};
};

TEST_F(ChunkReaderTest, ReadsWhatWasWrittenAndLearnsNewPacks) {
  store_.WritePack({"one", "two"});
  EXPECT_EQ(*Read("one"), "one");
  EXPECT_EQ(*Read("two"), "two");
  store_.WritePack({"three"});
  EXPECT_EQ(*Read("three"), "three");
}

TEST_F(ChunkReaderTest, AMissingChunkOrPackIsNotFound) {
  const SealedPack pack = store_.WritePack({"here"});
  EXPECT_TRUE(absl::IsNotFound(Read("nowhere").status()));
  ASSERT_TRUE(index_.Refresh().ok());
  std::filesystem::remove(index_.PackPath(pack.id));
  EXPECT_TRUE(absl::IsNotFound(Read("here").status()));
}

TEST_F(ChunkReaderTest, FollowsAChunkThatWasMovedToAnotherPack) {
  const SealedPack pack = store_.WritePack({"moved"});
  ASSERT_TRUE(index_.Refresh().ok());
  store_.WritePack({"moved"});
  std::filesystem::remove(index_.PackPath(pack.id));
  EXPECT_EQ(*Read("moved"), "moved");
}

TEST_F(ChunkReaderTest, DamageNamesThePack) {
  for (const std::string& chunk : {Noise(random_, 100), std::string(1000, 'a')}) {
    const SealedPack pack = store_.WritePack({chunk});
    Damage(pack);
    const absl::Status status = Read(chunk).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(MessageOf(status).find(PackIdToHex(pack.id)), std::string_view::npos) << status;
  }
}

TEST_F(ChunkReaderTest, AChunkUnderAWrongDigestIsDamaged) {
  // No writer makes such a pack.
  const PackId id = *ParsePackId(RandomHex());
  PackFooter footer;
  footer.blocks = {{kPackHeaderBytes, 7, 7, false}};
  footer.chunks = {{RefOf("another").digest, 0, 0, 7}};
  const auto header = EncodePackHeader(id);
  const std::vector<std::uint8_t> end = EncodePackEnd(footer, kPackHeaderBytes + 7);
  std::string bytes(header.begin(), header.end());
  bytes += "content";
  bytes.append(end.begin(), end.end());
  std::filesystem::create_directories(DirectoryOf(index_.PackPath(id)));
  WriteTestFile(index_.PackPath(id), bytes);
  EXPECT_TRUE(absl::IsDataLoss(Read("another").status()));
  // Nor is it of another length.
  EXPECT_TRUE(absl::IsDataLoss(reader_.Read({RefOf("another").digest, 3}).status()));
}

TEST_F(ChunkReaderTest, OfADamagedCopyAndASoundOneTheSoundOneIsRead) {
  const std::string chunk = Noise(random_, 100);
  const SealedPack first = store_.WritePack({chunk});
  const SealedPack second = store_.WritePack({chunk});
  const std::string path = index_.PackPath(second.id);
  const std::string sound = ReadTestFile(path);
  Damage(second);
  EXPECT_EQ(*Read(chunk), chunk);
  WriteTestFile(path, sound);
  Damage(first);
  ChunkReader again(index_, ChunkReader::Options());
  EXPECT_TRUE(again.Read(RefOf(chunk)).ok());
  Damage(second);
  ChunkReader none(index_, ChunkReader::Options());
  EXPECT_TRUE(absl::IsDataLoss(none.Read(RefOf(chunk)).status()));
}

// What cannot even be opened or read says nothing of the other copies. A link to itself stands in
// for a disk that fails: no open, read or user makes anything of it.
TEST_F(ChunkReaderTest, OfACopyThatCannotBeReadAndASoundOneTheSoundOneIsRead) {
  const std::string chunk = Noise(random_, 100);
  store_.WritePack({chunk});
  ASSERT_TRUE(index_.Refresh().ok());
  const SealedPack second = store_.WritePack({chunk});
  ASSERT_TRUE(index_.Refresh().ok());
  const std::string path = index_.PackPath(second.id);
  ASSERT_EQ(index_.Locate(RefOf(chunk).digest)->pack->id, second.id) << "the first to be tried";
  EXPECT_TRUE(reader_.stepped_over().empty());
  std::filesystem::remove(path);
  std::filesystem::create_symlink(path, path);
  EXPECT_EQ(*Read(chunk), chunk);
  ASSERT_EQ(reader_.stepped_over().size(), 1u);
  EXPECT_NE(MessageOf(reader_.stepped_over()[0]).find(path), std::string_view::npos);
}

// A damaged copy does not hide that a collection has moved the other one.
TEST_F(ChunkReaderTest, OfADamagedCopyAndOneThatHasMovedTheMovedOneIsRead) {
  const std::string chunk = Noise(random_, 100);
  const SealedPack first = store_.WritePack({chunk});
  ASSERT_TRUE(index_.Refresh().ok());
  const SealedPack second = store_.WritePack({chunk});
  ASSERT_TRUE(index_.Refresh().ok());
  Damage(second);
  store_.WritePack({chunk});
  std::filesystem::remove(index_.PackPath(first.id));
  EXPECT_EQ(*Read(chunk), chunk);
}

TEST_F(ChunkReaderTest, OfOldChunksWhatIsMissingIsLookedForOnce) {
  ChunkReader::Options options;
  options.old_chunks_only = true;
  ChunkReader reader(index_, options);
  store_.WritePack({"one"});
  EXPECT_TRUE(reader.Read(RefOf("one")).ok());
  EXPECT_TRUE(absl::IsNotFound(reader.Read(RefOf("none")).status())) << "and nothing new is there";
  store_.WritePack({"two"});
  EXPECT_TRUE(absl::IsNotFound(reader.Read(RefOf("two")).status()));
  EXPECT_EQ(*Read("two"), "two");
}

TEST_F(ChunkReaderTest, ADamagedBlockIsReadOnceForAllOfItsChunks) {
  std::vector<std::string> chunks;
  chunks.reserve(8);
  for (int number = 0; number < 8; ++number) {
    chunks.push_back(Cat("chunk ", number, std::string(20, 'a')));
  }
  const SealedPack pack = store_.WritePack(chunks);
  ASSERT_EQ(pack.footer.blocks.size(), 1u);
  ASSERT_TRUE(pack.footer.blocks.front().compressed) << "damage must show at once";
  // The magic of the frame.
  Damage(pack, 0);
  const std::string pack_name = PackIdToHex(pack.id);
  for (const std::string& chunk : chunks) {
    const absl::Status status = Read(chunk).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(MessageOf(status).find(pack_name), std::string_view::npos) << status;
  }
  EXPECT_EQ(reader_.loaded_block_count(), 1u);
}

// Each chunk of a large store is damaged: looking for its other copies must not cost a look at all
// chunks. Of the processor's time, which the load of the machine does not change much.
TEST_F(ChunkReaderTest, DamageEverywhereCostsNoMoreThanThereIs) {
  constexpr std::uint32_t kChunkCount = 60'000;
  constexpr double kMaxSeconds = 5;
  SealedPack pack;
  pack.id = *ParsePackId(RandomHex());
  pack.footer.blocks = {{kPackHeaderBytes, 1, 1, false}};
  for (std::uint32_t number = 0; number < kChunkCount; ++number) {
    PackChunk& chunk = pack.footer.chunks.emplace_back();
    chunk.digest = RefOf(Cat(number)).digest;
    chunk.length_bytes = 1;
  }
  const std::vector<PackChunk> chunks = pack.footer.chunks;
  index_.AddPack(std::move(pack));
  const std::clock_t start = std::clock();
  for (const PackChunk& chunk : chunks) {
    // Not of the length that the recipe has.
    ASSERT_TRUE(absl::IsDataLoss(reader_.Read({chunk.digest, 2}).status()));
  }
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kMaxSeconds);
}

TEST_F(ChunkReaderTest, ABlockThatManyThreadsWantIsDecompressedOnce) {
  PackWriterOptions options = store_.writer_options();
  options.compression.block_bytes = 32u << 20;
  PackWriter writer(std::move(options));
  std::vector<std::string> chunks;
  for (int number = 0; number < 8; ++number) {
    chunks.push_back(Noise(random_, std::size_t{2} << 20));
    const std::string& chunk = chunks.back();
    ASSERT_TRUE(writer
                    .Add(RefOf(chunk).digest,
                         {reinterpret_cast<const std::uint8_t*>(chunk.data()), chunk.size()})
                    .ok());
  }
  ASSERT_TRUE(writer.Flush().ok());
  ASSERT_TRUE(index_.Refresh().ok());
  std::atomic<int> wrong_count = 0;
  std::latch start(static_cast<std::ptrdiff_t>(chunks.size()));
  {
    std::vector<std::jthread> threads;
    threads.reserve(chunks.size());
    for (const std::string& chunk : chunks) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        const auto read = Read(chunk);
        if (!read.ok() || *read != chunk) ++wrong_count;
      });
    }
  }
  EXPECT_EQ(wrong_count, 0);
  EXPECT_EQ(reader_.loaded_block_count(), 1u);
}

TEST_F(ChunkReaderTest, ASmallCacheStillReadsEverything) {
  std::vector<std::string> chunks;
  chunks.reserve(30);
  for (int number = 0; number < 30; ++number) chunks.push_back(Noise(random_, 200));
  store_.WritePack(chunks);
  ChunkReader::Options options;
  options.cache_bytes = 0;
  ChunkReader reader(index_, options);
  for (int round = 0; round < 2; ++round) {
    for (const std::string& chunk : chunks) EXPECT_TRUE(reader.Read(RefOf(chunk)).ok());
  }
}

}  // namespace
}  // namespace kerf::agent
