#include "server/worker/cut_buffer.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "server/worker/buffer_pool.h"

namespace kerf {
namespace {

// Cuts behind each byte below 16, or at 50 bytes.
class ToyChunker : public Chunker {
 public:
  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t limit = std::min(bytes.size(), max_chunk_bytes());
    for (std::size_t index = 0; index < limit; ++index) {
      if (bytes[index] < 16) return index + 1;
    }
    return limit;
  }
  std::size_t max_chunk_bytes() const override { return 50; }
};

struct Recorded {
  std::uint64_t file_number = 0;
  std::uint64_t end_offset = 0;
  std::string bytes;

  friend bool operator==(const Recorded&, const Recorded&) = default;
};

ContentHash HashOf(const std::string& content) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(content.data(), content.size()));
  ContentHash hash;
  std::memcpy(hash.data(), canonical.digest, hash.size());
  return hash;
}

Bytes BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

class CutBufferTest : public testing::Test {
 protected:
  void Take() {
    for (const CutChunk& chunk : buffer_.chunks()) {
      got_.push_back({chunk.file_number, chunk.end_offset,
                      std::string(chunk.bytes.begin(), chunk.bytes.end())});
    }
    buffer_.ClearChunks();
  }

  void Expect(std::uint64_t number, std::uint64_t start_offset, const std::string& content) {
    for (std::size_t position = 0; position < content.size();) {
      const std::size_t length = chunker_.NextCut(BytesOf(content).subspan(position));
      expected_.push_back(
          {number, start_offset + position + length, content.substr(position, length)});
      position += length;
    }
  }

  ToyChunker chunker_;
  BufferPool pool_{128, 2};
  CutBuffer buffer_{&chunker_, 128, &pool_};
  std::vector<Recorded> got_;
  std::vector<Recorded> expected_;
};

TEST_F(CutBufferTest, AnyOrderOfCallsGivesTheSameChunksAndHashes) {
  Random random(TestSeed());
  for (std::uint64_t number = 1; number <= 3000; ++number) {
    std::string content(random.OneIn(4) ? random.Below(1000) : random.Below(60), '\0');
    random.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    const std::uint64_t start_offset = random.Below(1000);
    Expect(number, start_offset, content);

    buffer_.BeginFile(number, start_offset);
    for (Bytes rest = BytesOf(content); !rest.empty();) {
      const std::size_t taken = buffer_.Append(rest.first(random.Between(1, rest.size())));
      rest = rest.subspan(taken);
      buffer_.Cut();
      ASSERT_LT(buffer_.uncut_bytes(), chunker_.max_chunk_bytes());
      if (taken == 0 || random.OneIn(5)) {
        Take();
        if (taken == 0 || random.OneIn(2)) buffer_.Compact();
        if (random.OneIn(3)) buffer_.Park();
      }
    }
    ASSERT_EQ(buffer_.EndFile(), HashOf(content));
    if (random.OneIn(3)) Take();
  }
  Take();
  EXPECT_EQ(got_, expected_);
}

TEST_F(CutBufferTest, AParkedStreamHoldsOnlyItsRest) {
  buffer_.BeginFile(1, 0);
  EXPECT_EQ(buffer_.memory_bytes(), 0u);
  const std::string content(60, '\xFF');
  buffer_.Append(BytesOf(content));
  EXPECT_EQ(buffer_.memory_bytes(), 128u);
  buffer_.Cut();
  Take();
  buffer_.Park();
  EXPECT_EQ(buffer_.memory_bytes(), 10u);
  EXPECT_EQ(buffer_.EndFile(), HashOf(content));
  ASSERT_EQ(buffer_.chunks().size(), 1u);
  EXPECT_EQ(buffer_.chunks()[0].end_offset, 60u);
  Take();
  buffer_.Park();
  EXPECT_EQ(buffer_.memory_bytes(), 0u);
}

TEST_F(CutBufferTest, WhatStaysBesideTheBufferIsCounted) {
  buffer_.BeginFile(1, 0);
  buffer_.Append(BytesOf(std::string(10, '\xFF')));
  buffer_.Park();
  buffer_.EndFile();
  EXPECT_EQ(buffer_.memory_bytes(), 10u);
  EXPECT_EQ(buffer_.bytes_with_buffer(), 138u);
  buffer_.BeginFile(2, 0);
  buffer_.Append(BytesOf("next"));
  EXPECT_EQ(buffer_.memory_bytes(), 138u);
  Take();
  EXPECT_EQ(buffer_.memory_bytes(), 128u);
  EXPECT_EQ(buffer_.bytes_with_buffer(), 128u);
}

TEST_F(CutBufferTest, AnAbandonedFileLeavesNothing) {
  buffer_.BeginFile(1, 0);
  buffer_.Append(BytesOf(std::string(30, '\xFF')));
  buffer_.AbandonFile();
  EXPECT_EQ(buffer_.uncut_bytes(), 0u);
  Expect(2, 7, "fresh");
  buffer_.BeginFile(2, 7);
  buffer_.Append(BytesOf("fresh"));
  EXPECT_EQ(buffer_.EndFile(), HashOf("fresh"));
  Take();
  EXPECT_EQ(got_, expected_);
}

}  // namespace
}  // namespace kerf
