// What kernels hand to each other: the pieces of a batch and the chunks that were found in it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::cuda {

// A batch is one buffer: pieces of many streams, each beginning at a multiple of
// kPieceAlignmentBytes; what lies between two of them is of no meaning. The buffer begins at a
// multiple of 256 and its size is a multiple of kBatchAlignmentBytes. Positions are bytes from its
// start; they and two flags fit 32 bits.
inline constexpr std::size_t kPieceAlignmentBytes = 16;
inline constexpr std::size_t kBatchAlignmentBytes = 128;
inline constexpr std::size_t kMaxBatchBytes = std::size_t{1} << 30;

// The sizes of a batch in device memory, so that launches that were recorded once serve every
// batch.
struct BatchHeader {
  std::uint32_t size_bytes;
  std::uint32_t piece_count;
  // Which is written to: launches of the selection count their blocks here, each in a word of its
  // own, and leave it as it was.
  std::uint32_t blocks_done[3] = {};
};

// A piece of one stream; a batch's pieces are in ascending order, an empty one in front of the one
// that has its offset. It begins where a chunk of the stream begins, so that no cut depends on
// what lies before it: marks may be made of the whole buffer, across pieces, since no rule asks for
// one whose window begins before the chunk (kernels/twostage/README.md).
struct Piece {
  std::uint32_t offset;
  std::uint32_t size_bytes;
  // The stream ends with it: what is left behind the last cut is a chunk too. Else a chunk whose
  // end the bytes at hand do not decide is left for the batch in which the stream goes on.
  std::uint32_t is_end;
};

// A chunk, by its place in the buffer.
struct Chunk {
  std::uint32_t offset;
  std::uint32_t size_bytes;
};

// What the selection says of a piece: its chunks are chunk_count of the batch's, from
// first_chunk, one behind the other; what is behind consumed_bytes is left for the batch in which
// the stream goes on. If needs_cpu is not 0 there are none, and the piece is to be cut
// elsewhere.
struct SelectedCuts {
  std::uint32_t first_chunk;
  std::uint32_t chunk_count;
  std::uint32_t consumed_bytes;
  std::uint32_t needs_cpu;
};

}  // namespace kerf::cuda
