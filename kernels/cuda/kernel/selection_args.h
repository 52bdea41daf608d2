// What the kernels of the selection (SELECTION.md) hand from one to the next.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// Positions whose marks are counted together; 128 bytes of a mark vector.
inline constexpr std::uint32_t kRowPositions = 1024;

// Candidates that any piece may have beside those that its size allows.
inline constexpr std::uint32_t kSpareCandidates = 8;

// Nodes of a tile of the ranking, and in how many rounds one can jump over all of them.
inline constexpr unsigned kRankTileRounds = 11;
inline constexpr std::uint32_t kRankTileNodes = 1u << kRankTileRounds;

// In the place of a node:
// There is none: a chunk's end that is no candidate, or a piece that has come to its end.
inline constexpr std::uint32_t kNoNode = 0xFFFFFFFF;
// A walk was given up.
inline constexpr std::uint32_t kLostNode = 0xFFFFFFFE;
// A walk goes on.
inline constexpr std::uint32_t kNotYet = 0xFFFFFFFD;
// In the place of a rank: no chunk begins at the node.
inline constexpr std::uint32_t kUnreached = 0xFFFFFFFF;

// A position that is marked, and what for: to end chunks before the rule's avg_bytes, or from there
// on.
inline constexpr std::uint32_t kLooseCandidate = 1;
inline constexpr std::uint32_t kStrictCandidate = 2;
KERF_DEVICE_CODE std::uint32_t Candidate(std::uint32_t position, std::uint32_t classes) {
  return position << 2 | classes;
}
KERF_DEVICE_CODE std::uint32_t PositionOf(std::uint32_t candidate) { return candidate >> 2; }
static_assert((kMaxBatchBytes - 1) << 2 < std::size_t{1} << 32);

// Where a path leaves a tile, and how many chunks end on the way there.
struct alignas(8) Exit {
  std::uint32_t node;
  std::uint32_t chunk_count;
};

// A node is a place where a chunk may begin: the beginning of a piece, or a candidate's. Nodes
// of a piece stand together, in ascending order, and those of the pieces one behind the other.
struct SelectionArgs {
  // Input. Marks: bit p mod 32 of word p / 32 is position p; what is behind the batch's
  // size is nobody's.
  const BatchHeader* header;
  const std::uint8_t* bytes;
  const Piece* pieces;
  const std::uint32_t* marks;
  // BatchHeader::blocks_done.
  std::uint32_t* blocks_done;

  // What the memory is made for.
  std::uint32_t most_rows;
  std::uint32_t most_pieces;
  std::uint32_t most_nodes;

  // Marks of a piece count from first_bytes, and not in its last behind_bytes; at most one for
  // each 2^candidate_bytes_log2 bytes of it and kSpareCandidates, or it is given to the CPU.
  std::uint32_t first_bytes;
  std::uint32_t behind_bytes;
  std::uint32_t candidate_bytes_log2;

  // Marks by row; nodes by piece; chunks by piece.
  PrefixSums row_marks;
  PrefixSums piece_nodes;
  PrefixSums piece_chunks;
  // All nodes: the last of piece_nodes's sums, where it takes one load to find it.
  std::uint32_t* node_count;
  // By piece: marks of the batch in front of the first one that counts.
  std::uint32_t* marks_before;

  // By node: as Candidate says; nothing at the beginning of a piece.
  std::uint32_t* candidates;
  std::uint32_t* node_pieces;
  // The node at which the first chunk behind it ends that ends at one, and how many end on the way,
  // with that one; kNoNode, kLostNode.
  Exit* edges;
  Exit* exits;
  // Chunks of the piece in front of the node.
  std::uint32_t* ranks;
  // Nodes from which a walk is long, in no order; and how many there are of each piece.
  std::uint32_t* long_nodes;
  std::uint32_t* long_node_count;
  std::uint32_t* long_node_counts;

  // Output; the chunks of all pieces, and how many.
  Chunk* chunks;
  std::uint32_t* chunk_count;
  SelectedCuts* cuts;
};

KERF_DEVICE_CODE std::uint32_t CeilDivide(std::uint32_t value, std::uint32_t by) {
  return (value + by - 1) / by;
}

KERF_DEVICE_CODE std::uint32_t NodeCount(const SelectionArgs& args) { return *args.node_count; }

KERF_DEVICE_CODE std::uint32_t FirstNode(const SelectionArgs& args, std::uint32_t piece) {
  return args.piece_nodes.Before(piece, args.header->piece_count);
}

}  // namespace kerf::cuda
