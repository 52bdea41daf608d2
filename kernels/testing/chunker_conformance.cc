#include "kernels/testing/chunker_conformance.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/reference/reference.h"
#include "kernels/stream_cutter.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;
using Ends = std::vector<std::uint64_t>;

// How many chunks of the largest size an input has room for. The sanitizers, which make it ten
// times as slow, look at each access, and the fourth chunk's are as the eighth's.
constexpr std::size_t kLargestChunks = KERF_ADDRESS_SANITIZER || KERF_THREAD_SANITIZER ? 4 : 8;

Ends CutByReference(const Profile& profile, Bytes bytes) {
  Ends ends;
  std::size_t start = 0;
  while (start < bytes.size()) {
    start += ReferenceNextCut(profile, bytes.subspan(start));
    ends.push_back(start);
  }
  return ends;
}

void CheckBounds(const Profile& profile, Bytes bytes, const Ends& ends) {
  ASSERT_EQ(ends.empty(), bytes.empty());
  std::uint64_t start = 0;
  for (const std::uint64_t end : ends) {
    const std::uint64_t length = end - start;
    ASSERT_LE(length, profile.max_bytes);
    if (end != bytes.size()) {
      ASSERT_GE(length, profile.min_bytes);
    }
    start = end;
  }
  ASSERT_EQ(start, bytes.size());
}

// Bytes behind the window are none of the rule's business, and a cut is a place to start again.
void CheckWindowAndRestart(const Chunker& chunker, Bytes bytes, const Ends& ends) {
  std::uint64_t start = 0;
  for (const std::uint64_t end : ends) {
    const std::size_t window =
        std::min<std::size_t>(chunker.max_chunk_bytes(), bytes.size() - start);
    ASSERT_EQ(chunker.NextCut(bytes.subspan(start, window)), end - start);
    start = end;
  }
  Random random(TestSeed());
  for (int round = 0; round < 4 && !ends.empty(); ++round) {
    const std::size_t index = random.Below(ends.size());
    const Ends again = CutAll(chunker, bytes.subspan(ends[index]));
    ASSERT_EQ(again.size(), ends.size() - index - 1);
    for (std::size_t next = 0; next < again.size(); ++next) {
      ASSERT_EQ(again[next] + ends[index], ends[index + 1 + next]);
    }
  }
}

// All chunks that end max_chunk_bytes before the end of a shorter input are those of the longer
// one.
void CheckPrefix(const Chunker& chunker, Bytes bytes, const Ends& ends) {
  Random random(TestSeed() + 1);
  for (int round = 0; round < 4; ++round) {
    const std::size_t size = random.Below(bytes.size() + 1);
    const Ends shorter = CutAll(chunker, bytes.first(size));
    for (std::size_t index = 0; index < shorter.size(); ++index) {
      const std::uint64_t start = index == 0 ? 0 : shorter[index - 1];
      if (start + chunker.max_chunk_bytes() > size) break;
      ASSERT_EQ(shorter[index], ends[index]) << "cut off at " << size;
    }
  }
}

// Slices of 1 to `max_slice` bytes, written in place or appended, into a buffer of that size.
Ends CutSliced(const Chunker& chunker, Bytes bytes, std::size_t max_slice,
               std::size_t buffer_bytes) {
  Random random(TestSeed() + max_slice);
  StreamCutter cutter(chunker, buffer_bytes);
  Ends ends;
  std::uint64_t offset = 0;
  const auto drain = [&] {
    while (const std::optional<StreamChunk> chunk = cutter.Next()) {
      EXPECT_EQ(chunk->offset_bytes, offset);
      EXPECT_TRUE(std::equal(chunk->bytes.begin(), chunk->bytes.end(),
                             bytes.begin() + static_cast<std::ptrdiff_t>(offset)));
      offset += chunk->bytes.size();
      ends.push_back(offset);
    }
  };
  std::size_t position = 0;
  while (position < bytes.size()) {
    const std::size_t want =
        std::min<std::size_t>(random.Between(1, max_slice), bytes.size() - position);
    if (random.OneIn(2)) {
      position += cutter.Append(bytes.subspan(position, want));
    } else {
      const std::size_t least = std::min(want, chunker.max_chunk_bytes());
      const std::span<std::uint8_t> room = cutter.WritableSpan(least);
      EXPECT_GE(room.size(), least);
      const std::size_t count = std::min(want, room.size());
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(position), count, room.begin());
      cutter.Commit(count);
      position += count;
    }
    drain();
    EXPECT_LT(cutter.pending_bytes(), chunker.max_chunk_bytes());
  }
  cutter.Finish();
  drain();
  EXPECT_EQ(cutter.pending_bytes(), 0u);
  return ends;
}

// The same as the server does it: chunks are gathered over many slices, and what is left is parked
// now and then.
Ends CutGathered(const Chunker& chunker, Bytes bytes, std::size_t max_slice,
                 std::size_t buffer_bytes) {
  Random random(TestSeed() + max_slice);
  StreamCutter cutter(chunker, buffer_bytes);
  Ends ends;
  std::vector<StreamChunk> gathered;
  const auto release = [&] {
    for (const StreamChunk& chunk : gathered) {
      EXPECT_TRUE(std::equal(chunk.bytes.begin(), chunk.bytes.end(),
                             bytes.begin() + static_cast<std::ptrdiff_t>(chunk.offset_bytes)));
    }
    gathered.clear();
    cutter.Release();
  };
  const auto drain = [&] {
    while (const std::optional<StreamChunk> chunk = cutter.Next()) {
      EXPECT_EQ(chunk->offset_bytes, ends.empty() ? 0 : ends.back());
      ends.push_back(chunk->offset_bytes + chunk->bytes.size());
      gathered.push_back(*chunk);
    }
  };
  // A release costs a buffer: at most some 128 of them a chunk, and of bytewise slices so many.
  const std::size_t slices_a_release =
      std::max<std::size_t>(64, chunker.max_chunk_bytes() / 256 / max_slice);
  std::size_t position = 0;
  while (position < bytes.size()) {
    const std::size_t want =
        std::min<std::size_t>(random.Between(1, max_slice), bytes.size() - position);
    const std::size_t taken = cutter.AppendBehind(bytes.subspan(position, want));
    position += taken;
    drain();
    if (taken > 0 && !random.OneIn(slices_a_release)) continue;
    release();
    if (random.OneIn(2)) {
      cutter.Park();
    } else {
      cutter.Compact();
    }
  }
  cutter.Finish();
  drain();
  release();
  EXPECT_EQ(cutter.pending_bytes(), 0u);
  return ends;
}

void CheckSlicing(const Chunker& chunker, Bytes bytes, const Ends& ends) {
  const std::size_t max_chunk = chunker.max_chunk_bytes();
  const Bytes short_part = bytes.first(std::min(bytes.size(), 3 * max_chunk + 17));
  ASSERT_EQ(CutSliced(chunker, short_part, 1, 2 * max_chunk), CutAll(chunker, short_part));
  ASSERT_EQ(CutSliced(chunker, bytes, 1000, 2 * max_chunk), ends);
  ASSERT_EQ(CutSliced(chunker, bytes, 3 * max_chunk, 2 * max_chunk + 1), ends);
  ASSERT_EQ(CutSliced(chunker, bytes, bytes.size() + 1, StreamCutter::BufferBytes(chunker)), ends);
  ASSERT_EQ(CutGathered(chunker, short_part, 1, 2 * max_chunk), CutAll(chunker, short_part));
  ASSERT_EQ(CutGathered(chunker, bytes, 1000, 2 * max_chunk), ends);
  ASSERT_EQ(CutGathered(chunker, bytes, 3 * max_chunk, StreamCutter::BufferBytes(chunker)), ends);
}

}  // namespace

std::vector<std::uint64_t> CutAll(const Chunker& chunker, std::span<const std::uint8_t> bytes) {
  Ends ends;
  std::size_t start = 0;
  while (start < bytes.size()) {
    start += chunker.NextCut(bytes.subspan(start));
    ends.push_back(start);
  }
  return ends;
}

std::string CutsDigest(std::span<const std::uint64_t> ends) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(ends.size() * sizeof(std::uint64_t));
  for (const std::uint64_t end : ends) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes.push_back(static_cast<std::uint8_t>(end >> shift));
    }
  }
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest;
  SHA256(bytes.data(), bytes.size(), digest.data());
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), 16});
}

void CheckChunkerConforms(const Chunker& chunker, const Profile& profile) {
  ASSERT_EQ(chunker.max_chunk_bytes(), profile.max_bytes);
  // Odd, so that the end of the input meets every parity rule; some chunks of the largest size.
  const std::size_t size_bytes =
      std::min<std::size_t>(kLargestChunks * std::size_t{profile.max_bytes}, 3 << 19) + 4097;
  for (const InputName& input : NastyInputs()) {
    SCOPED_TRACE(Cat(FormatProfile(profile), " on ", input.kind, " ", input.seed));
    const std::vector<std::uint8_t> bytes = MakeInput(input.kind, input.seed, size_bytes);
    const Ends ends = CutAll(chunker, bytes);
    ASSERT_NO_FATAL_FAILURE(CheckBounds(profile, bytes, ends));
    ASSERT_EQ(ends, CutByReference(profile, bytes));
    ASSERT_NO_FATAL_FAILURE(CheckWindowAndRestart(chunker, bytes, ends));
    ASSERT_NO_FATAL_FAILURE(CheckPrefix(chunker, bytes, ends));
    ASSERT_NO_FATAL_FAILURE(CheckSlicing(chunker, bytes, ends));
  }
}

}  // namespace kerf
