#include "kernels/reference/blake3.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "kernels/fingerprint/blake3_constants.h"

namespace kerf {
namespace {

using blake3::kBlockBytes;
using blake3::kLeafBytes;

using Bytes = std::span<const std::uint8_t>;
using State = std::array<std::uint32_t, 16>;
using Words = std::array<std::uint32_t, 16>;
using ChainingValue = std::array<std::uint32_t, 8>;

constexpr ChainingValue kInitial = std::to_array(blake3::kIv);

// One quarter of half a round: mixes two message words into a column or diagonal of the state.
void Mix(State& state, int a, int b, int c, int d, std::uint32_t x, std::uint32_t y) {
  state[a] = state[a] + state[b] + x;
  state[d] = std::rotr(state[d] ^ state[a], 16);
  state[c] = state[c] + state[d];
  state[b] = std::rotr(state[b] ^ state[c], 12);
  state[a] = state[a] + state[b] + y;
  state[d] = std::rotr(state[d] ^ state[a], 8);
  state[c] = state[c] + state[d];
  state[b] = std::rotr(state[b] ^ state[c], 7);
}

// The first half of the compression function's output: all that a 32-byte hash needs.
ChainingValue Compress(const ChainingValue& chaining_value, const Words& message,
                       std::uint64_t counter, std::uint32_t block_bytes, std::uint32_t flags) {
  State state{};
  std::copy(chaining_value.begin(), chaining_value.end(), state.begin());
  std::copy_n(std::begin(blake3::kIv), 4, state.begin() + 8);
  state[12] = static_cast<std::uint32_t>(counter);
  state[13] = static_cast<std::uint32_t>(counter >> 32);
  state[14] = block_bytes;
  state[15] = flags;
  for (const auto& words : blake3::kSchedule) {
    const auto m = [&](int place) { return message[words[place]]; };
    Mix(state, 0, 4, 8, 12, m(0), m(1));
    Mix(state, 1, 5, 9, 13, m(2), m(3));
    Mix(state, 2, 6, 10, 14, m(4), m(5));
    Mix(state, 3, 7, 11, 15, m(6), m(7));
    Mix(state, 0, 5, 10, 15, m(8), m(9));
    Mix(state, 1, 6, 11, 12, m(10), m(11));
    Mix(state, 2, 7, 8, 13, m(12), m(13));
    Mix(state, 3, 4, 9, 14, m(14), m(15));
  }
  ChainingValue output;
  for (std::size_t index = 0; index < 8; ++index) output[index] = state[index] ^ state[index + 8];
  return output;
}

// Little-endian, the rest zero.
Words LoadBlock(Bytes block) {
  Words words{};
  for (std::size_t index = 0; index < block.size(); ++index) {
    words[index / 4] |= std::uint32_t{block[index]} << (8 * (index % 4));
  }
  return words;
}

// The chaining value of one leaf; `flags` is kRoot if it is the whole tree.
ChainingValue HashLeaf(Bytes leaf, std::uint64_t counter, std::uint32_t flags) {
  ChainingValue chaining_value = kInitial;
  std::size_t start = 0;
  // An empty leaf still has one empty block.
  do {
    const Bytes block = leaf.subspan(start, std::min(kBlockBytes, leaf.size() - start));
    const bool last = start + block.size() == leaf.size();
    const std::uint32_t block_flags =
        (start == 0 ? blake3::kLeafStart : 0) | (last ? blake3::kLeafEnd | flags : 0);
    chaining_value = Compress(chaining_value, LoadBlock(block), counter,
                              static_cast<std::uint32_t>(block.size()), block_flags);
    start += block.size();
  } while (start < leaf.size());
  return chaining_value;
}

// The tree over `bytes`, whose first leaf has number `counter`: the left side is the largest power
// of two of whole leaves that leaves something for the right.
ChainingValue HashTree(Bytes bytes, std::uint64_t counter, std::uint32_t flags) {
  if (bytes.size() <= kLeafBytes) return HashLeaf(bytes, counter, flags);
  const std::size_t left_leaves = std::bit_floor((bytes.size() - 1) / kLeafBytes);
  const ChainingValue left = HashTree(bytes.first(left_leaves * kLeafBytes), counter, 0);
  const ChainingValue right =
      HashTree(bytes.subspan(left_leaves * kLeafBytes), counter + left_leaves, 0);
  Words message;
  std::copy(left.begin(), left.end(), message.begin());
  std::copy(right.begin(), right.end(), message.begin() + 8);
  return Compress(kInitial, message, 0, kBlockBytes, blake3::kParent | flags);
}

}  // namespace

std::array<std::uint8_t, 32> Blake3Reference(Bytes bytes) {
  const ChainingValue root = HashTree(bytes, 0, blake3::kRoot);
  std::array<std::uint8_t, 32> digest;
  for (std::size_t index = 0; index < digest.size(); ++index) {
    digest[index] = static_cast<std::uint8_t>(root[index / 4] >> (8 * (index % 4)));
  }
  return digest;
}

}  // namespace kerf
