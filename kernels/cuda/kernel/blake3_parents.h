// BLAKE3's parents: a launch for three levels of the trees of all chunks, a thread for each node
// that is left of up to eight.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/blake3_compress.h"
#include "kernels/cuda/kernel/blake3_tree.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A tree's left half is the largest power of two of its leaves, which is the same as: of each
// level, the nodes are taken two by two, and what is left over goes up as it is.
struct Blake3Parents {
  struct Args {
    const std::uint32_t* chunk_count;
    // Of the leaves by chunk.
    PrefixSums first_leaves;
    // Of blake3_tree.h: the level of what is made, 1 and up, and the nodes of the level before.
    unsigned level;
    const DigestWords* children;
    // What is made where a chunk has more than one node of the level.
    DigestWords* nodes;
    // One a chunk; here those of chunks whose last nodes are made.
    DigestWords* digests;
    // Of AddByMultiplying.
    std::uint32_t one = 1;
  };
  static constexpr unsigned kBlockThreads = 128;
  static constexpr int kPhaseCount = 1;
  struct Shared {
    // A column a thread: an array of its own that is indexed by what it knows at run time would
    // lie in local memory.
    std::uint32_t values[kTreeFan][8][kBlockThreads];
  };
  struct Local {};

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (PlaceCount(args) + kBlockThreads - 1) / kBlockThreads;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& /*shared*/,
                                     unsigned /*thread*/) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& /*local*/,
                                     unsigned tile, unsigned thread) {
    const std::uint32_t chunk_count = *args.chunk_count;
    const std::uint32_t place = tile * kBlockThreads + thread;
    if (place >= PlaceCount(args)) return;
    const std::uint32_t chunk = ChunkOfNode(args.first_leaves, chunk_count, place, args.level);
    const std::uint32_t first_leaf = args.first_leaves.Before(chunk, chunk_count);
    const std::uint32_t leaf_count = args.first_leaves.Before(chunk + 1, chunk_count) - first_leaf;
    const std::uint32_t child_count = NodeCount(leaf_count, args.level - 1);
    const std::uint32_t first_child = (place - FirstNode(first_leaf, chunk, args.level)) * kTreeFan;
    // A tree that is done, or a place that belongs to no node.
    if (child_count <= 1 || first_child >= child_count) return;
    const std::uint32_t rest = child_count - first_child;
    const unsigned own_count = rest < kTreeFan ? rest : kTreeFan;
    const DigestWords* children =
        args.children + FirstNode(first_leaf, chunk, args.level - 1) + first_child;
    for (unsigned child = 0; child < own_count; ++child) {
      const DigestWords value = children[child];
      KERF_UNROLL
      for (unsigned word = 0; word < 8; ++word) {
        shared.values[child][word][thread] = value.words[word];
      }
    }
    const bool is_root = child_count <= kTreeFan;
    Reduce(shared, thread, own_count, is_root, args.one);
    DigestWords result;
    KERF_UNROLL
    for (unsigned word = 0; word < 8; ++word) {
      result.words[word] = shared.values[0][word][thread];
    }
    if (is_root) {
      args.digests[chunk] = result;
    } else {
      args.nodes[place] = result;
    }
  }

 private:
  // Of the level, in all trees.
  KERF_DEVICE_CODE static std::uint32_t PlaceCount(const Args& args) {
    const std::uint32_t chunk_count = *args.chunk_count;
    return FirstNode(args.first_leaves.Before(chunk_count, chunk_count), chunk_count, args.level);
  }

  // Makes one node of `count` of them, in the place of the first.
  KERF_DEVICE_CODE static void Reduce(Shared& shared, unsigned thread, unsigned count,
                                      bool is_root, std::uint32_t one) {
    constexpr std::uint32_t kParentBytes = blake3::kBlockBytes;
    while (count > 1) {
      const std::uint32_t flags =
          is_root && count == 2 ? blake3::kParent | blake3::kRoot : blake3::kParent;
      for (unsigned pair = 0; pair < count / 2; ++pair) {
        std::uint32_t message[16];
        KERF_UNROLL
        for (unsigned word = 0; word < 8; ++word) {
          message[word] = shared.values[2 * pair][word][thread];
          message[8 + word] = shared.values[2 * pair + 1][word][thread];
        }
        std::uint32_t value[8];
        Blake3Start(value);
        Blake3Compress(value, message, 0, kParentBytes, flags, one);
        KERF_UNROLL
        for (unsigned word = 0; word < 8; ++word) shared.values[pair][word][thread] = value[word];
      }
      if (count % 2 == 1) {
        for (unsigned word = 0; word < 8; ++word) {
          shared.values[count / 2][word][thread] = shared.values[count - 1][word][thread];
        }
      }
      count = (count + 1) / 2;
    }
  }
};

}  // namespace kerf::cuda
