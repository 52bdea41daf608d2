#include "kernels/stream_cutter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace kerf {
namespace {

// Cuts behind each 0x01 byte and at 8 bytes.
class ToyChunker final : public Chunker {
 public:
  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    std::size_t length = 0;
    while (length < bytes.size() && length < max_chunk_bytes()) {
      if (bytes[length++] == 1) break;
    }
    return length;
  }
  std::size_t max_chunk_bytes() const override { return 8; }
};

TEST(StreamCutter, AnEmptyStreamHasNoChunk) {
  const ToyChunker chunker;
  StreamCutter cutter(chunker);
  EXPECT_FALSE(cutter.Next().has_value());
  EXPECT_EQ(cutter.Append({}), 0u);
  cutter.Finish();
  EXPECT_FALSE(cutter.Next().has_value());
  EXPECT_EQ(cutter.offset_bytes(), 0u);
}

TEST(StreamCutter, WaitsForTheWindowUnlessTheStreamEnds) {
  const ToyChunker chunker;
  StreamCutter cutter(chunker);
  EXPECT_EQ(cutter.Append(std::vector<std::uint8_t>{5, 1, 5, 5, 5, 5, 5}), 7u);
  EXPECT_FALSE(cutter.Next().has_value());
  EXPECT_EQ(cutter.Append(std::vector<std::uint8_t>{9}), 1u);
  const std::optional<StreamChunk> first = cutter.Next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->offset_bytes, 0u);
  EXPECT_EQ(first->bytes.size(), 2u);
  EXPECT_FALSE(cutter.Next().has_value());
  EXPECT_EQ(cutter.pending_bytes(), 6u);
  cutter.Finish();
  const std::optional<StreamChunk> last = cutter.Next();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->offset_bytes, 2u);
  EXPECT_EQ(last->bytes.size(), 6u);
  EXPECT_EQ(last->bytes.back(), 9);
  EXPECT_FALSE(cutter.Next().has_value());
}

TEST(StreamCutter, ChunksOfOneFillStayTogether) {
  const ToyChunker chunker;
  StreamCutter cutter(chunker);
  std::vector<std::uint8_t> bytes(1000);
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    bytes[index] = static_cast<std::uint8_t>(2 + index % 200);
  }
  EXPECT_EQ(cutter.Append(bytes), 1000u);
  std::vector<StreamChunk> chunks;
  while (const std::optional<StreamChunk> chunk = cutter.Next()) chunks.push_back(*chunk);
  ASSERT_EQ(chunks.size(), 125u);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    EXPECT_EQ(chunks[index].offset_bytes, index * 8);
    EXPECT_EQ(chunks[index].bytes.data(), chunks[0].bytes.data() + index * 8);
    EXPECT_EQ(chunks[index].bytes[0], bytes[index * 8]);
  }
}

TEST(StreamCutter, MovesTheTailOnlyWhenTheBufferIsFull) {
  const ToyChunker chunker;
  constexpr std::size_t kBufferBytes = 160;
  StreamCutter cutter(chunker, kBufferBytes);
  const std::uint8_t* const front = cutter.WritableSpan().data();
  std::vector<std::uint8_t> bytes(150, 5);
  std::copy(bytes.begin(), bytes.end(), cutter.WritableSpan().begin());
  cutter.Commit(150);
  while (cutter.Next()) {
  }
  ASSERT_EQ(cutter.pending_bytes(), 6u);
  // Ten bytes are free, which is one sixteenth: still in place.
  EXPECT_EQ(cutter.WritableSpan().data(), front + 150);
  cutter.Commit(1);
  EXPECT_EQ(cutter.WritableSpan().data(), front + 7);
  EXPECT_EQ(cutter.WritableSpan().size(), kBufferBytes - 7);
  EXPECT_EQ(cutter.pending_bytes(), 7u);
}

TEST(StreamCutter, ResetStartsAtAnOffset) {
  const ToyChunker chunker;
  StreamCutter cutter(chunker);
  cutter.Append(std::vector<std::uint8_t>(3, 1));
  cutter.Finish();
  EXPECT_TRUE(cutter.Next().has_value());
  cutter.Reset(1000);
  EXPECT_EQ(cutter.pending_bytes(), 0u);
  cutter.Append(std::vector<std::uint8_t>(3, 7));
  cutter.Finish();
  const std::optional<StreamChunk> chunk = cutter.Next();
  ASSERT_TRUE(chunk.has_value());
  EXPECT_EQ(chunk->offset_bytes, 1000u);
  EXPECT_EQ(chunk->bytes.size(), 3u);
  EXPECT_EQ(chunk->bytes[0], 7);
}

// Lends one buffer after another and counts them.
class CountingSource final : public BufferSource {
 public:
  Buffer Take(std::size_t bytes) override {
    ++lent_count;
    return std::make_unique<std::uint8_t[]>(bytes);
  }
  void Give(Buffer buffer, std::size_t bytes) override {
    EXPECT_NE(buffer, nullptr);
    EXPECT_EQ(bytes, 32u);
    --lent_count;
  }

  int lent_count = 0;
};

TEST(StreamCutter, ChunksOfManySlicesStayWhereTheyAre) {
  const ToyChunker chunker;
  StreamCutter cutter(chunker, 32);
  std::vector<StreamChunk> chunks;
  for (int slice = 0; slice < 6; ++slice) {
    EXPECT_EQ(cutter.AppendBehind(std::vector<std::uint8_t>{7, 8, 9, 10, 1}), 5u);
    while (const auto chunk = cutter.Next()) chunks.push_back(*chunk);
  }
  EXPECT_EQ(cutter.AppendBehind(std::vector<std::uint8_t>{7, 8, 9}), 2u);
  EXPECT_EQ(cutter.AppendBehind(std::vector<std::uint8_t>{9}), 0u);
  while (const auto chunk = cutter.Next()) chunks.push_back(*chunk);
  ASSERT_EQ(chunks.size(), 5u);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    EXPECT_EQ(chunks[index].offset_bytes, 5 * index);
    EXPECT_EQ(chunks[index].bytes.data(), chunks[0].bytes.data() + 5 * index);
    EXPECT_EQ(chunks[index].bytes[0], 7);
  }
  cutter.Release();
  cutter.Compact();
  EXPECT_EQ(cutter.pending_bytes(), 7u);
  EXPECT_EQ(cutter.AppendBehind(std::vector<std::uint8_t>(40, 9)), 25u);
}

TEST(StreamCutter, OneStreamBehindAnother) {
  const ToyChunker chunker;
  StreamCutter cutter(chunker, 32);
  cutter.Begin(100);
  cutter.AppendBehind(std::vector<std::uint8_t>{5, 5});
  cutter.Finish();
  const auto first = cutter.Next();
  ASSERT_TRUE(first.has_value());
  cutter.Begin(0);
  const std::size_t position = cutter.end_position();
  cutter.AppendBehind(std::vector<std::uint8_t>{6, 1, 6});
  EXPECT_FALSE(cutter.Next().has_value());
  EXPECT_EQ(cutter.BytesFrom(position).size(), 3u);
  const StreamChunk taken = cutter.Take(2);
  EXPECT_EQ(taken.offset_bytes, 0u);
  EXPECT_EQ(cutter.pending_bytes(), 1u);
  cutter.Abandon();
  cutter.Finish();
  EXPECT_FALSE(cutter.Next().has_value());
  // The chunk of the stream before is still there.
  EXPECT_EQ(first->offset_bytes, 100u);
  EXPECT_EQ(first->bytes[1], 5);
  EXPECT_EQ(taken.bytes[1], 1);
}

TEST(StreamCutter, AParkedStreamHoldsOnlyWhatIsPending) {
  const ToyChunker chunker;
  CountingSource source;
  {
    StreamCutter cutter(chunker, 32, &source);
    EXPECT_EQ(source.lent_count, 0);
    EXPECT_EQ(cutter.memory_bytes(), 0u);
    cutter.AppendBehind(std::vector<std::uint8_t>{2, 3, 4});
    EXPECT_EQ(source.lent_count, 1);
    EXPECT_EQ(cutter.memory_bytes(), 32u);
    cutter.Park();
    EXPECT_EQ(source.lent_count, 0);
    EXPECT_EQ(cutter.memory_bytes(), 3u);
    // To end it needs no buffer; the chunk stays where it was parked until it is released.
    cutter.Finish();
    const auto chunk = cutter.Next();
    ASSERT_TRUE(chunk.has_value());
    EXPECT_EQ(source.lent_count, 0);
    EXPECT_EQ(cutter.bytes_with_buffer(), 35u);
    cutter.Begin(0);
    cutter.AppendBehind(std::vector<std::uint8_t>{9});
    EXPECT_EQ(source.lent_count, 1);
    EXPECT_EQ(cutter.memory_bytes(), 35u);
    EXPECT_EQ(chunk->bytes[0], 2);
    EXPECT_EQ(chunk->bytes[2], 4);
    cutter.Release();
    EXPECT_EQ(cutter.memory_bytes(), 32u);
    EXPECT_EQ(cutter.bytes_with_buffer(), 32u);
  }
  EXPECT_EQ(source.lent_count, 0);
}

TEST(StreamCutterDeathTest, RefusesMisuse) {
  const ToyChunker chunker;
  EXPECT_DEATH(StreamCutter(chunker, 15), "2 \\* max_chunk_bytes");
  StreamCutter cutter(chunker);
  EXPECT_DEATH(cutter.Commit(StreamCutter::BufferBytes(chunker) + 1), "count");
  cutter.Append(std::vector<std::uint8_t>(8, 0));
  // Chunks that nobody took would be lost from view.
  EXPECT_DEATH(cutter.WritableSpan(), "pending_bytes");
  EXPECT_DEATH(cutter.Take(9), "pending_bytes");
  EXPECT_DEATH(cutter.Begin(0), "begin_ == end_");
  EXPECT_TRUE(cutter.Next().has_value());
  // Somebody may still look at them.
  EXPECT_DEATH(cutter.Compact(), "has_lent_");
}

}  // namespace
}  // namespace kerf
