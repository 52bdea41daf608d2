#include "kernels/stream_cutter.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(StreamCutterDeathTest, RefusesMisuse) {
  const ToyChunker chunker;
  EXPECT_DEATH(StreamCutter(chunker, 15), "2 \\* max_chunk_bytes");
  StreamCutter cutter(chunker);
  EXPECT_DEATH(cutter.Commit(StreamCutter::BufferBytes(chunker) + 1), "count");
  cutter.Append(std::vector<std::uint8_t>(8, 0));
  // Chunks that nobody took would be lost from view.
  EXPECT_DEATH(cutter.WritableSpan(), "pending_bytes");
}

}  // namespace
}  // namespace kerf
