// Batches of all kinds, and what the references make of them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/kernel/emulated_selection.h"
#include "kernels/profile.h"
#include "kernels/reference/reference.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {

// All chunks of the pieces that are their streams' ends are the reference's, and those of others
// are the first of it, as far as bytes are there.
inline void ExpectCutsOfReference(const Profile& profile, const Batch& batch,
                                  const Selected& selected) {
  for (std::size_t index = 0; index < batch.pieces.size(); ++index) {
    const Piece& piece = batch.pieces[index];
    const SelectedCuts& cuts = selected.cuts[index];
    ASSERT_EQ(cuts.needs_cpu, 0u);
    std::uint32_t offset = piece.offset;
    const std::uint32_t end = piece.offset + piece.size_bytes;
    for (std::uint32_t chunk = 0; chunk < cuts.chunk_count; ++chunk) {
      const Chunk& it = selected.chunks[cuts.first_chunk + chunk];
      ASSERT_EQ(it.offset, offset);
      ASSERT_EQ(
          it.size_bytes,
          ReferenceNextCut(
              profile, std::span<const std::uint8_t>(batch.bytes).subspan(offset, end - offset)));
      offset += it.size_bytes;
    }
    ASSERT_EQ(cuts.consumed_bytes, offset - piece.offset);
    if (piece.is_end != 0) {
      ASSERT_EQ(offset, end);
    } else {
      ASSERT_LT(end - offset, profile.max_bytes);
    }
  }
}

// Garbage in front of it, unless that is nothing, and behind it up to where the next may begin.
inline void Append(Batch& batch, std::span<const std::uint8_t> bytes, bool is_end, Random& random) {
  std::vector<std::uint8_t> garbage(random.OneIn(2) ? 0 : 16 * random.Below(20));
  random.Fill(garbage);
  batch.bytes.insert(batch.bytes.end(), garbage.begin(), garbage.end());
  batch.pieces.push_back({static_cast<std::uint32_t>(batch.bytes.size()),
                          static_cast<std::uint32_t>(bytes.size()), is_end ? 1u : 0u});
  batch.bytes.insert(batch.bytes.end(), bytes.begin(), bytes.end());
  while (batch.bytes.size() % kPieceAlignmentBytes != 0) {
    batch.bytes.push_back(static_cast<std::uint8_t>(random.Next()));
  }
}

inline void Close(Batch& batch) {
  batch.bytes.resize((batch.bytes.size() + kBatchAlignmentBytes - 1) / kBatchAlignmentBytes *
                     kBatchAlignmentBytes);
}

inline std::vector<std::uint8_t> AnyBytes(std::size_t size, Random& random) {
  const std::vector<InputName> names = NastyInputs();
  const InputName& name = names[random.OneIn(2) ? 1 : random.Below(names.size())];
  return MakeInput(name.kind, name.seed + (name.kind == "random" ? random.Next() : 0), size);
}

inline EmulatorOptions AnyOrder(Random& random) {
  EmulatorOptions options{.block_count = static_cast<unsigned>(random.Between(1, 5))};
  if (!random.OneIn(4)) options.order_seed = random.Next();
  return options;
}

}  // namespace kerf::cuda
