#include "client/store/packs/compression.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/block.h"
#include "client/store/packs/block_compressor.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kFrameMagic = 0xFD2FB528;

// Of a chunk that fills a block. All of a pack are read for each damage.
constexpr std::uint32_t kDamagedBytes = kIsSanitized ? 150'000 : 700'000;

Bytes RandomBytes(Random& random, std::size_t size) {
  Bytes bytes(size);
  random.Fill(bytes);
  return bytes;
}

// Lines of words of a small vocabulary, some words far more often than others.
Bytes Text(Random& random, std::size_t size) {
  static constexpr std::string_view kSyllables[] = {"ba", "ko", "ri", "ten", "lu", "sha", "mor",
                                                    "ve", "id", "un", "gra", "po", "li",  "st"};
  std::vector<std::string> words;
  for (int number = 0; number < 2000; ++number) {
    std::string word;
    for (std::uint64_t left = random.Between(1, 4); left > 0; --left) {
      word += kSyllables[random.Below(std::size(kSyllables))];
    }
    words.push_back(std::move(word));
  }
  Bytes bytes;
  while (bytes.size() < size) {
    const std::string& word = words[random.Below(random.Below(words.size()) + 1)];
    bytes.insert(bytes.end(), word.begin(), word.end());
    bytes.push_back(random.OneIn(9) ? '\n' : ' ');
  }
  bytes.resize(size);
  return bytes;
}

// As of an attachment of a mail: no repetition, but only 64 of 256 bytes.
Bytes Base64(Random& random, std::size_t size) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(kDigits[random.Below(64)]);
  return bytes;
}

Bytes Compressed(Random& random, std::size_t size) {
  Bytes frame(ZSTD_compressBound(8 * size + 64));
  const Bytes text = Text(random, 8 * size + 64);
  frame.resize(ZSTD_compress(frame.data(), frame.size(), text.data(), text.size(), 3));
  while (frame.size() < size) frame.insert(frame.end(), frame.begin(), frame.end());
  frame.resize(size);
  return frame;
}

Bytes Mixed(Random& random, std::size_t size) {
  Bytes bytes;
  while (bytes.size() < size) {
    const std::size_t part = random.Between(1, 40'000);
    const Bytes next = random.OneIn(2) ? Text(random, part) : RandomBytes(random, part);
    bytes.insert(bytes.end(), next.begin(), next.end());
  }
  bytes.resize(size);
  return bytes;
}

Bytes OfKind(Random& random, std::uint64_t kind, std::size_t size) {
  switch (kind) {
    case 0:
      return RandomBytes(random, size);
    case 1:
      return Text(random, size);
    case 2:
      return Bytes(size);
    case 3:
      return Compressed(random, size);
    case 4:
      return Base64(random, size);
    default:
      return Mixed(random, size);
  }
}

std::string AsString(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

std::size_t StoredBytes(std::string_view how, const Bytes& bytes, Effort effort = Effort::kBrisk) {
  const Compression compression = *ParseCompression(how);
  BlockCompressor compressor(compression);
  std::size_t stored_bytes = 0;
  for (std::size_t begin = 0; begin < bytes.size(); begin += compression.block_bytes) {
    const auto block = std::span(bytes).subspan(
        begin, std::min<std::size_t>(compression.block_bytes, bytes.size() - begin));
    const auto frame = *compressor.Compress(block, effort);
    stored_bytes += frame.empty() ? block.size() : frame.size();
  }
  return stored_bytes;
}

class EveryCompression : public testing::TestWithParam<const char*> {};

// What readers of 0.1.0 ask of a block, and that every chunk comes back.
TEST_P(EveryCompression, GivesBackEveryByteToEveryReader) {
  Random random(TestSeed());
  TestStore store;
  std::mutex mutex;
  std::map<PackId, PackFooter> footers;
  PackWriterOptions options = store.writer_options();
  options.compression = *ParseCompression(GetParam());
  options.target_pack_bytes = 300'000;
  options.thread_count = 2;
  options.on_sealed = [&](const SealedPack& pack) {
    const std::lock_guard lock(mutex);
    footers[pack.id] = pack.footer;
  };
  // Such as fill blocks together, and one that is larger than any.
  std::vector<Bytes> chunks = {Bytes(1), Text(random, 1'200'000), RandomBytes(random, 1'200'000)};
  for (int number = 0; number < 60; ++number) {
    const std::size_t size = random.OneIn(20)  ? random.Between(1, 600'000)
                             : random.OneIn(4) ? random.Between(1, 100)
                                               : random.Between(1, 30'000);
    chunks.push_back(OfKind(random, random.Below(6), size));
  }
  {
    PackWriter writer(std::move(options));
    for (const Bytes& chunk : chunks) {
      ASSERT_TRUE(writer.Add(RefOf(AsString(chunk)).digest, chunk).ok());
    }
    ASSERT_TRUE(writer.Flush().ok());
  }
  for (const auto& [id, footer] : footers) {
    const std::string name = PackIdToHex(id);
    const std::string path =
        Cat(store.store().packs_directory(), "/", name.substr(0, 2), "/", name, ".pack");
    const std::string file = ReadTestFile(path);
    for (const PackBlock& block : footer.blocks) {
      EXPECT_LE(block.raw_bytes, kMaxBlockRawBytes);
      if (!block.compressed) {
        EXPECT_EQ(block.stored_bytes, block.raw_bytes);
        continue;
      }
      EXPECT_LT(block.stored_bytes, block.raw_bytes);
      const char* const frame = file.data() + block.offset;
      std::uint32_t magic = 0;
      std::memcpy(&magic, frame, sizeof magic);
      EXPECT_EQ(magic, kFrameMagic);
      EXPECT_EQ(ZSTD_getFrameContentSize(frame, block.stored_bytes), block.raw_bytes);
      // One frame, and nothing behind it.
      EXPECT_EQ(ZSTD_findFrameCompressedSize(frame, block.stored_bytes), block.stored_bytes);
    }
  }
  ChunkIndex index(store.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  ChunkReader reader(index, ChunkReader::Options());
  for (const Bytes& chunk : chunks) {
    const auto read = reader.Read(RefOf(AsString(chunk)));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(std::ranges::equal(read->bytes(), chunk));
  }
}

// However it is stored, a block of which a bit has changed gives nobody other bytes than were
// written.
TEST_P(EveryCompression, ADamagedBlockIsNoticed) {
  Random random(TestSeed());
  TestStore store;
  std::mutex mutex;
  std::vector<SealedPack> packs;
  PackWriterOptions options = store.writer_options();
  options.compression = *ParseCompression(GetParam());
  if (kIsSanitized) options.compression.block_bytes = kDamagedBytes;
  options.thread_count = 1;
  options.on_sealed = [&](const SealedPack& pack) {
    const std::lock_guard lock(mutex);
    packs.push_back(pack);
  };
  std::map<std::string, Bytes> chunks;
  {
    PackWriter writer(std::move(options));
    for (std::uint64_t kind = 0; kind < 6; ++kind) {
      Bytes chunk = OfKind(random, kind, kDamagedBytes);
      const Digest digest = RefOf(AsString(chunk)).digest;
      ASSERT_TRUE(writer.Add(digest, chunk).ok());
      chunks.emplace(DigestToHex(digest, 32), std::move(chunk));
    }
    ASSERT_TRUE(writer.Flush().ok());
  }
  std::size_t damaged_count = 0;
  for (const SealedPack& pack : packs) {
    const std::string name = PackIdToHex(pack.id);
    const std::string path =
        Cat(store.store().packs_directory(), "/", name.substr(0, 2), "/", name, ".pack");
    const std::string sound = ReadTestFile(path);
    for (std::size_t index = 0; index < pack.footer.blocks.size(); ++index) {
      const PackBlock& block = pack.footer.blocks[index];
      // At its end, in the middle, and where a frame says what it is.
      for (const std::uint64_t at : {block.stored_bytes - 1, block.stored_bytes / 2, 1u}) {
        std::string file = sound;
        file[block.offset + at] = static_cast<char>(file[block.offset + at] ^ 4);
        WriteTestFile(path, file);
        ChunkIndex packs_now(store.store().packs_directory());
        ASSERT_TRUE(packs_now.Refresh().ok());
        ChunkReader reader(packs_now, ChunkReader::Options());
        for (const PackChunk& chunk : pack.footer.chunks) {
          const auto read = reader.Read({chunk.digest, chunk.length_bytes});
          if (!read.ok()) {
            EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
            EXPECT_EQ(chunk.block_index, index);
            ++damaged_count;
            continue;
          }
          EXPECT_TRUE(std::ranges::equal(read->bytes(), chunks.at(DigestToHex(chunk.digest, 32))));
        }
      }
    }
    WriteTestFile(path, sound);
  }
  EXPECT_GT(damaged_count, 0u);
}

INSTANTIATE_TEST_SUITE_P(Settings, EveryCompression,
                         testing::Values("auto", "off", "fast", "default", "max", "1", "9"));

TEST(Compression, AutoNeverBecomesLargerThanTheBytes) {
  Random random(TestSeed());
  BlockCompressor compressor(*ParseCompression("auto"));
  for (int round = 0; round < 60; ++round) {
    const std::size_t size = random.OneIn(3) ? random.Between(1, 300) : random.Between(1, 200'000);
    const Bytes bytes = OfKind(random, static_cast<std::uint64_t>(round) % 6, size);
    const Effort effort = random.OneIn(2) ? Effort::kBrisk : Effort::kThorough;
    const auto frame = compressor.Compress(bytes, effort);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_LT(frame->size(), bytes.size());
    if (frame->empty()) continue;
    Bytes back(bytes.size());
    EXPECT_EQ(ZSTD_decompress(back.data(), back.size(), frame->data(), frame->size()),
              bytes.size());
    EXPECT_EQ(back, bytes);
  }
}

TEST(Compression, AutoIsAsSmallAsTheDefault) {
  Random random(TestSeed());
  const Bytes text = Text(random, 2 << 20);
  EXPECT_LE(StoredBytes("auto", text), StoredBytes("default", text) * 101 / 100);
  EXPECT_LT(StoredBytes("auto", text, Effort::kThorough), StoredBytes("auto", text) * 99 / 100);
  EXPECT_LT(StoredBytes("default", text), StoredBytes("fast", text));
  EXPECT_EQ(StoredBytes("off", text), text.size());
  EXPECT_LT(StoredBytes("auto", Bytes(4 << 20)), 2'000u);
}

// Whatever was compressed before it, by whichever way: nothing of a pack hangs on its history.
TEST(Compression, TheSameBlockBecomesTheSameFrame) {
  Random random(TestSeed());
  for (const char* how : {"auto", "fast", "default"}) {
    BlockCompressor used(*ParseCompression(how));
    for (int round = 0; round < 12; ++round) {
      const std::size_t size =
          random.OneIn(3) ? random.Between(1, 2000) : random.Between(1, 150'000);
      const Bytes bytes = OfKind(random, random.Below(6), size);
      const Effort effort = random.OneIn(2) ? Effort::kBrisk : Effort::kThorough;
      BlockCompressor fresh(*ParseCompression(how));
      const auto frame = used.Compress(bytes, effort);
      const auto expected = fresh.Compress(bytes, effort);
      ASSERT_TRUE(frame.ok() && expected.ok());
      EXPECT_TRUE(std::ranges::equal(*frame, *expected)) << how << ", round " << round;
    }
  }
}

// Wherever in a block they lie: what shrinks is not given away for what does not. A block of which
// so little shrinks that it looks random may be stored as it is.
TEST(Compression, AutoLosesLittleToMixtures) {
  Random random(TestSeed());
  constexpr std::size_t kSize = kLargeBlockBytes;
  for (const std::uint64_t kind : {1u, 2u, 4u}) {
    for (const std::size_t percent : {1u, 3u, 5u, 8u, 12u, 25u, 50u, 90u}) {
      const Bytes soft = OfKind(random, kind, kSize * percent / 100);
      const Bytes hard = RandomBytes(random, kSize - soft.size());
      for (const std::size_t at : {std::size_t{0}, hard.size() / 2, hard.size()}) {
        Bytes bytes = hard;
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), soft.begin(), soft.end());
        EXPECT_LE(StoredBytes("auto", bytes), StoredBytes("default", bytes) + kSize * 4 / 100)
            << percent << " % of kind " << kind << " at " << at;
      }
    }
  }
}

// A byte of 64 takes 6 bits, whether anything repeats or not.
TEST(Compression, AutoSavesWhatHasFewDifferentBytes) {
  Random random(TestSeed());
  const Bytes bytes = Base64(random, 2 << 20);
  EXPECT_FALSE(LooksRandom(bytes));
  EXPECT_LT(StoredBytes("auto", bytes), bytes.size() * 77 / 100);
}

TEST(Compression, AutoSavesWhatLooksRandomAndRepeats) {
  Random random(TestSeed());
  const Bytes part = RandomBytes(random, 60'000);
  Bytes bytes;
  while (bytes.size() < kLargeBlockBytes) bytes.insert(bytes.end(), part.begin(), part.end());
  bytes.resize(kLargeBlockBytes);
  EXPECT_TRUE(LooksRandom(bytes));
  EXPECT_LT(StoredBytes("auto", bytes), bytes.size() / 10);
}

// What the trial finds but in part is compressed for good.
TEST(Compression, AutoSavesWhatIsMadeOfFewRandomWords) {
  Random random(TestSeed());
  const Bytes words = RandomBytes(random, 4000 * 12);
  Bytes bytes;
  while (bytes.size() < kLargeBlockBytes) {
    const auto word = std::span(words).subspan(12 * random.Below(4000), 12);
    bytes.insert(bytes.end(), word.begin(), word.end());
  }
  bytes.resize(kLargeBlockBytes);
  EXPECT_TRUE(LooksRandom(bytes));
  EXPECT_LE(StoredBytes("auto", bytes), StoredBytes("default", bytes) * 102 / 100);
}

TEST(Compression, OnlyWhatHasAllBytesAlikeLooksRandom) {
  Random random(TestSeed());
  for (const std::size_t size : {16'384u, 16'385u, 100'000u, 1'048'576u, 3'000'000u}) {
    EXPECT_TRUE(LooksRandom(RandomBytes(random, size))) << size;
    EXPECT_FALSE(LooksRandom(Text(random, size))) << size;
    EXPECT_FALSE(LooksRandom(Bytes(size))) << size;
    Bytes half = RandomBytes(random, size);
    std::fill(half.begin(), half.begin() + static_cast<std::ptrdiff_t>(size / 3), std::uint8_t{0});
    EXPECT_FALSE(LooksRandom(half)) << size;
    // The end counts as the beginning does.
    std::ranges::reverse(half);
    EXPECT_FALSE(LooksRandom(half)) << size;
    // And each part as all of them: an attachment in the middle.
    Bytes part = RandomBytes(random, size);
    std::ranges::copy(Base64(random, size / 5),
                      part.begin() + static_cast<std::ptrdiff_t>(size * 2 / 5));
    EXPECT_FALSE(LooksRandom(part)) << size;
  }
  // Of so few bytes it cannot be told.
  EXPECT_FALSE(LooksRandom(RandomBytes(random, 16'383)));
  EXPECT_FALSE(LooksRandom({}));
}

// What the threads wait for is the disk, be it only because a pack is sealed.
TEST(Compression, BlocksBecomeSmallerWhereTheDiskIsSlow) {
  Random random(TestSeed());
  TestStore store;
  std::vector<std::uint32_t> stored_bytes;
  PackWriterOptions options = store.writer_options();
  options.compression = *ParseCompression("auto");
  // Of one chunk, and so small that no busy machine takes long for it.
  options.compression.block_bytes = 200'000;
  options.target_pack_bytes = 1;
  options.thread_count = 1;
  options.on_sealed = [&](const SealedPack& pack) {
    stored_bytes.push_back(pack.footer.blocks.front().stored_bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
  };
  const Bytes chunk = Text(random, options.compression.block_bytes);
  PackWriter writer(std::move(options));
  const Digest digest = RefOf(AsString(chunk)).digest;
  for (int number = 0; number < 40; ++number) ASSERT_TRUE(writer.Add(digest, chunk).ok());
  ASSERT_TRUE(writer.Flush().ok());
  ASSERT_EQ(stored_bytes.size(), 40u);
  EXPECT_EQ(stored_bytes[1], stored_bytes[0]);
  EXPECT_LT(stored_bytes.back(), stored_bytes.front());
}

TEST(Compression, IsWrittenAsAWordOrALevel) {
  EXPECT_EQ(*ParseCompression("default"), Compression());
  EXPECT_EQ(*ParseCompression("3"), Compression());
  EXPECT_EQ(ParseCompression("19")->level, 19);
  EXPECT_EQ(ParseCompression("auto")->kind, Compression::Kind::kAuto);
  EXPECT_EQ(ParseCompression("off")->kind, Compression::Kind::kOff);
  for (const char* wrong : {"", "0", "20", "-1", "3.5", "Auto", "fastest", "1x", "zstd"}) {
    EXPECT_FALSE(ParseCompression(wrong).ok()) << wrong;
    EXPECT_NE(RefuseNoCompression(wrong), "") << wrong;
  }
  EXPECT_EQ(RefuseNoCompression("max"), "");
}

// A restore reads it in small parts.
TEST(Compression, OfMetadataIsThatOfFilesButForAuto) {
  EXPECT_EQ(ForMetadata(*ParseCompression("auto")), Compression());
  for (const char* how : {"off", "fast", "default", "max", "7"}) {
    EXPECT_EQ(ForMetadata(*ParseCompression(how)), *ParseCompression(how)) << how;
  }
}

}  // namespace
}  // namespace kerf::agent
