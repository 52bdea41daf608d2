// BLAKE3's leaves, one a thread. They are nearly all of its work: sixteen compressions a KiB, where
// the parents need one.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/blake3_compress.h"
#include "kernels/cuda/kernel/blake3_tree.h"
#include "kernels/cuda/kernel/block_reader.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

struct Blake3Leaves {
  struct Args {
    const std::uint8_t* bytes;
    const Chunk* chunks;
    const std::uint32_t* chunk_count;
    // Of the leaves by chunk.
    PrefixSums first_leaves;
    // The leaves of chunks that have several, level 0 of blake3_tree.h.
    DigestWords* nodes;
    // One a chunk; here those of chunks of one leaf.
    DigestWords* digests;
    // Of AddByMultiplying.
    std::uint32_t one = 1;
  };
  struct Shared {};
  struct Local {};
  // No more than needed to fill a processor: the smaller the pieces, the more evenly the last ones
  // are spread over the processors.
  static constexpr unsigned kBlockThreads = 64;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    const std::uint32_t count = *args.chunk_count;
    return (args.first_leaves.Before(count, count) + kBlockThreads - 1) / kBlockThreads;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& /*shared*/,
                                     unsigned /*thread*/) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& /*shared*/, Local& /*local*/,
                                     unsigned tile, unsigned thread) {
    const std::uint32_t node = tile * kBlockThreads + thread;
    const std::uint32_t chunk_count = *args.chunk_count;
    if (node >= args.first_leaves.Before(chunk_count, chunk_count)) return;
    const std::uint32_t index = ChunkOfNode(args.first_leaves, chunk_count, node, 0);
    const Chunk chunk = args.chunks[index];
    constexpr std::uint32_t kLeafBytes = blake3::kLeafBytes;
    const std::uint32_t leaf = node - args.first_leaves.Before(index, chunk_count);
    const std::uint32_t begin = leaf * kLeafBytes;
    const std::uint32_t rest = chunk.size_bytes - begin;
    const bool is_only_leaf = leaf == 0 && rest <= kLeafBytes;
    DigestWords result;
    Hash(args.bytes, chunk.offset + begin, rest < kLeafBytes ? rest : kLeafBytes, leaf,
         is_only_leaf ? blake3::kRoot : 0, args.one, result.words);
    if (is_only_leaf) {
      args.digests[index] = result;
    } else {
      args.nodes[node] = result;
    }
  }

 private:
  KERF_DEVICE_CODE static void Hash(const std::uint8_t* bytes, std::uint32_t offset,
                                    std::uint32_t size_bytes, std::uint32_t counter,
                                    std::uint32_t last_flags, std::uint32_t one,
                                    std::uint32_t (&value)[8]) {
    constexpr std::uint32_t kBlockBytes = blake3::kBlockBytes;
    Blake3Start(value);
    BlockReader<ByteOrder::kLittleEndian> reader(bytes, offset, size_bytes);
    std::uint32_t flags = blake3::kLeafStart;
    std::uint32_t rest = size_bytes;
    // What the next block needs is on its way meanwhile.
    Vector16 loaded[4];
    reader.Load(loaded);
    while (true) {
      std::uint32_t message[16];
      reader.Place(loaded, message);
      reader.Load(loaded);
      if (rest < kBlockBytes) ClearFrom(message, rest);
      const bool is_last = rest <= kBlockBytes;
      if (is_last) flags |= blake3::kLeafEnd | last_flags;
      Blake3Compress(value, message, counter, rest < kBlockBytes ? rest : kBlockBytes, flags, one);
      if (is_last) return;
      rest -= kBlockBytes;
      flags = 0;
    }
  }

  // Sets the bytes from the given one on to zero.
  KERF_DEVICE_CODE static void ClearFrom(std::uint32_t (&message)[16], std::uint32_t first_byte) {
    KERF_UNROLL
    for (unsigned word = 0; word < 16; ++word) {
      const std::uint32_t kept = first_byte > 4 * word ? first_byte - 4 * word : 0;
      message[word] &= kept < 4 ? (1u << 8 * (kept & 3)) - 1 : 0xFFFFFFFF;
    }
  }
};

}  // namespace kerf::cuda
