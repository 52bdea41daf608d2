// SHA-256 of chunks, two threads each. A chunk's blocks are a chain that no two threads can share,
// and the longest chunk decides how long a batch takes; but only a block's rounds are of that
// chain. So one thread does the rounds of a block while another makes the message schedule of the
// next.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/block_reader.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/kernel/sha256_compress.h"
#include "kernels/cuda/kernel/sha256_order.h"
#include "kernels/cuda/kernel/sha256_padding.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// Chunks that a block works on at a time: neighbours of OrderPlaces' order.
inline constexpr unsigned kSha256Lanes = 64;
// Blocks of each chunk from barrier to barrier.
inline constexpr unsigned kSha256StepBlocks = 2;

// A tile is not a group of chunks but as many of them as a block comes to: what one has ended, it
// takes the next, so that the block with the longest chunks has few others to do.
struct Sha256Chunks {
  struct Args {
    const std::uint8_t* bytes;
    const Chunk* chunks;
    const std::uint32_t* chunk_count;
    // OrderPlaces'.
    const std::uint32_t* order;
    std::uint32_t* next_group;
    // One a chunk, in the order of `chunks`.
    DigestWords* digests;
    // Of AddByMultiplying.
    std::uint32_t one = 1;
  };
  struct Shared {
    // Of one step and the next by turns; a column a lane.
    Vector16 schedules[2][kSha256StepBlocks][16][kSha256Lanes];
    std::uint32_t group;
    // Of the group's longest chunk.
    std::uint32_t block_count;
  };
  // What a group goes through; the same for all threads of a block.
  enum class State : std::uint32_t { kTake, kBegin, kHash, kEnd };
  struct Local {
    State state;
    // The blocks that are expanded, while those of the step before go through their rounds.
    std::uint32_t step;
    std::uint32_t last_step;
    std::uint32_t index;
    std::uint32_t size_bytes;
    std::uint32_t own_block_count;
    // Of a lane's first thread.
    std::uint32_t value[8];
    // Of its second: the bytes of the block to be expanded are on their way.
    BlockReader<ByteOrder::kBigEndian> reader;
    Vector16 loaded[4];
  };
  // Two warps of rounds and two of schedules, each of which has a scheduler of the multiprocessor
  // to itself: a second block would slow down the longest chunks, and the batch with them.
  static constexpr unsigned kBlockThreads = 2 * kSha256Lanes;
  static constexpr unsigned kMostProcessorBlocks = 1;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (*args.chunk_count + kSha256Lanes - 1) / kSha256Lanes;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& shared, unsigned thread) {
    if (thread == 0) shared.group = 0;
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local,
                                     unsigned /*tile*/, unsigned thread) {
    const unsigned lane = thread % kSha256Lanes;
    const bool is_expander = thread >= kSha256Lanes;
    if (local.state == State::kHash) {
      if (is_expander) {
        Expand(shared, local, lane);
      } else {
        Hash(args, shared, local, lane);
      }
      if (local.step == 0) {
        local.last_step = (shared.block_count + kSha256StepBlocks - 1) / kSha256StepBlocks;
      }
      if (local.step == local.last_step) local.state = State::kTake;
      ++local.step;
      return;
    }
    if (local.state == State::kTake) {
      if (thread == 0) {
        // The tiles behind the one that met the end of the groups need not ask again.
        if (shared.group < TileCount(args)) shared.group = AtomicAdd(args.next_group, 1);
        shared.block_count = 0;
      }
      local.state = State::kBegin;
      return;
    }
    BeginGroup(args, shared, local, lane, is_expander);
  }

  KERF_DEVICE_CODE static bool Again(const Args& /*args*/, const Local& local) {
    return local.state != State::kEnd;
  }

 private:
  KERF_DEVICE_CODE static void BeginGroup(const Args& args, Shared& shared, Local& local,
                                          unsigned lane, bool is_expander) {
    if (shared.group >= TileCount(args)) {
      local.state = State::kEnd;
      return;
    }
    local.state = State::kHash;
    local.step = 0;
    local.own_block_count = 0;
    const std::uint32_t place = shared.group * kSha256Lanes + lane;
    if (place >= *args.chunk_count) return;
    local.index = args.order[place];
    const Chunk chunk = args.chunks[local.index];
    local.size_bytes = chunk.size_bytes;
    local.own_block_count = Sha256BlockCount(chunk.size_bytes);
    if (is_expander) {
      AtomicMax(&shared.block_count, local.own_block_count);
      local.reader = {args.bytes, chunk.offset, chunk.size_bytes};
      local.reader.Load(local.loaded);
    } else {
      Sha256Start(local.value);
    }
  }

  KERF_DEVICE_CODE static void Expand(Shared& shared, Local& local, unsigned lane) {
    const std::uint32_t first = local.step * kSha256StepBlocks;
    for (unsigned index = 0; index < kSha256StepBlocks; ++index) {
      const std::uint32_t block = first + index;
      if (block >= local.own_block_count) return;
      std::uint32_t words[16];
      local.reader.Place(local.loaded, words);
      local.reader.Load(local.loaded);
      if (block >= local.size_bytes / 64) Sha256Pad(words, local.size_bytes, block);
      Sha256Expand(words, &shared.schedules[local.step % 2][index][0][lane], kSha256Lanes);
    }
  }

  KERF_DEVICE_CODE static void Hash(const Args& args, const Shared& shared, Local& local,
                                    unsigned lane) {
    // Of the step before; in the first one, of none.
    const std::uint32_t first = (local.step - 1) * kSha256StepBlocks;
    for (unsigned index = 0; index < kSha256StepBlocks; ++index) {
      const std::uint32_t block = first + index;
      if (local.step == 0 || block >= local.own_block_count) return;
      Sha256Rounds(local.value, &shared.schedules[(local.step - 1) % 2][index][0][lane],
                   kSha256Lanes, args.one);
      if (block + 1 == local.own_block_count) args.digests[local.index] = Digest(local.value);
    }
  }

  KERF_DEVICE_CODE static DigestWords Digest(const std::uint32_t (&value)[8]) {
    DigestWords result;
    KERF_UNROLL
    for (unsigned word = 0; word < 8; ++word) {
      result.words[word] = PermuteBytes(value[word], 0, 0x0123);
    }
    return result;
  }
};

}  // namespace kerf::cuda
