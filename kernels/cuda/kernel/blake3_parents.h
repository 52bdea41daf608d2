// BLAKE3's parents: a launch for three levels of the trees of all chunks, which leaves one node of
// up to eight.
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
  // A thread for each two children: of the first level's four pairs a warp each.
  static constexpr unsigned kTileNodes = 32;
  static constexpr unsigned kPairs = kTreeFan / 2;
  static constexpr unsigned kBlockThreads = kPairs * kTileNodes;
  static constexpr int kPhaseCount = 1;
  struct Shared {
    // By node of the tile. How many children: none of a place that nothing is to be made for.
    std::uint32_t child_counts[kTileNodes];
    std::uint32_t first_children[kTileNodes];
    std::uint32_t chunks[kTileNodes];
    bool is_root[kTileNodes];
    // What the first level has made, and behind it the second.
    std::uint32_t values[kPairs + kPairs / 2][8][kTileNodes];
  };
  struct Local {
    // Of the three; before them 0, when the nodes are looked up.
    std::uint32_t turn;
  };

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (PlaceCount(args) + kTileNodes - 1) / kTileNodes;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& /*shared*/,
                                     unsigned /*thread*/) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    const unsigned node = thread % kTileNodes;
    const unsigned pair = thread / kTileNodes;
    const std::uint32_t place = tile * kTileNodes + node;
    if (local.turn == 0) {
      if (pair == 0) LookUp(args, shared, place, node);
    } else {
      Combine(args, shared, local.turn, place, node, pair);
    }
    ++local.turn;
  }

  KERF_DEVICE_CODE static bool Again(const Args& /*args*/, const Local& local) {
    return local.turn <= kTreeFanLog2;
  }

 private:
  // Of the level, in all trees.
  KERF_DEVICE_CODE static std::uint32_t PlaceCount(const Args& args) {
    const std::uint32_t chunk_count = *args.chunk_count;
    return FirstNode(args.first_leaves.Before(chunk_count, chunk_count), chunk_count, args.level);
  }

  KERF_DEVICE_CODE static void LookUp(const Args& args, Shared& shared, std::uint32_t place,
                                      unsigned node) {
    shared.child_counts[node] = 0;
    if (place >= PlaceCount(args)) return;
    const std::uint32_t chunk_count = *args.chunk_count;
    const std::uint32_t chunk = ChunkOfNode(args.first_leaves, chunk_count, place, args.level);
    const std::uint32_t first_leaf = args.first_leaves.Before(chunk, chunk_count);
    const std::uint32_t leaf_count = args.first_leaves.Before(chunk + 1, chunk_count) - first_leaf;
    const std::uint32_t child_count = NodeCount(leaf_count, args.level - 1);
    const std::uint32_t first_child = (place - FirstNode(first_leaf, chunk, args.level)) * kTreeFan;
    // A tree that is done, or a place that belongs to no node.
    if (child_count <= 1 || first_child >= child_count) return;
    shared.child_counts[node] = Min(child_count - first_child, kTreeFan);
    shared.first_children[node] = FirstNode(first_leaf, chunk, args.level - 1) + first_child;
    shared.chunks[node] = chunk;
    shared.is_root[node] = child_count <= kTreeFan;
  }

  // Makes one of two, of those that `turn` - 1 turns have left of the node's children.
  KERF_DEVICE_CODE static void Combine(const Args& args, Shared& shared, unsigned turn,
                                       std::uint32_t place, unsigned node, unsigned pair) {
    const std::uint32_t child_count = shared.child_counts[node];
    const std::uint32_t count = (child_count + (1u << (turn - 1)) - 1) >> (turn - 1);
    if (2 * pair >= count) return;
    const bool has_right = 2 * pair + 1 < count;
    std::uint32_t message[16];
    if (turn == 1) {
      const DigestWords* const children = args.children + shared.first_children[node] + 2 * pair;
      const DigestWords left = children[0];
      const DigestWords right = children[has_right ? 1 : 0];
      KERF_UNROLL
      for (unsigned word = 0; word < 8; ++word) {
        message[word] = left.words[word];
        message[8 + word] = right.words[word];
      }
    } else {
      const unsigned first = (turn == 2 ? 0 : kPairs) + 2 * pair;
      KERF_UNROLL
      for (unsigned word = 0; word < 8; ++word) {
        message[word] = shared.values[first][word][node];
        message[8 + word] = shared.values[has_right ? first + 1 : first][word][node];
      }
    }
    DigestWords value;
    if (has_right) {
      const bool is_last = count == 2 && shared.is_root[node];
      Blake3Start(value.words);
      Blake3Compress(value.words, message, 0, blake3::kBlockBytes,
                     is_last ? blake3::kParent | blake3::kRoot : blake3::kParent, args.one);
    } else {
      KERF_UNROLL
      for (unsigned word = 0; word < 8; ++word) value.words[word] = message[word];
    }
    if (turn < kTreeFanLog2) {
      const unsigned made = (turn == 1 ? 0 : kPairs) + pair;
      KERF_UNROLL
      for (unsigned word = 0; word < 8; ++word) {
        shared.values[made][word][node] = value.words[word];
      }
    } else if (shared.is_root[node]) {
      args.digests[shared.chunks[node]] = value;
    } else {
      args.nodes[place] = value;
    }
  }
};

}  // namespace kerf::cuda
