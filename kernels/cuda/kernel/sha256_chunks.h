// SHA-256, a chunk a thread: its blocks are a chain that no two threads can share.
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

struct Sha256Chunks {
  struct Args {
    const std::uint8_t* bytes;
    const Chunk* chunks;
    const std::uint32_t* chunk_count;
    // OrderPlaces'.
    const std::uint32_t* order;
    // One a chunk, in the order of `chunks`.
    DigestWords* digests;
  };
  struct Shared {};
  struct Local {};
  // A warp: there are few of them for the schedulers of a GPU, so each goes where there is room.
  static constexpr unsigned kBlockThreads = 32;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (*args.chunk_count + kBlockThreads - 1) / kBlockThreads;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& /*shared*/,
                                     unsigned /*thread*/) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& /*shared*/, Local& /*local*/,
                                     unsigned tile, unsigned thread) {
    const std::uint32_t place = tile * kBlockThreads + thread;
    if (place >= *args.chunk_count) return;
    const std::uint32_t index = args.order[place];
    const Chunk chunk = args.chunks[index];
    DigestWords result;
    Sha256Start(result.words);
    BlockReader<ByteOrder::kBigEndian> reader(args.bytes, chunk.offset, chunk.size_bytes);
    const std::uint32_t block_count = Sha256BlockCount(chunk.size_bytes);
    for (std::uint32_t block = 0; block < block_count; ++block) {
      std::uint32_t words[16];
      reader.Next(words);
      if (block >= chunk.size_bytes / 64) Sha256Pad(words, chunk.size_bytes, block);
      Sha256Compress(result.words, words);
    }
    KERF_UNROLL
    for (unsigned word = 0; word < 8; ++word) {
      result.words[word] = PermuteBytes(result.words[word], 0, 0x0123);
    }
    args.digests[index] = result;
  }
};

}  // namespace kerf::cuda
