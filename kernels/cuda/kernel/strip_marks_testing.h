// Holds K1's marks, made in the emulator, equal to those of kernels/twostage.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "kernels/cuda/kernel/strip_marks.h"
#include "kernels/cuda/launch/emulator.h"
#include "kernels/testing/guarded_bytes.h"
#include "kernels/testing/inputs.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {

using MarkedWords = std::vector<std::uint64_t>;

// Of kernels/twostage, loose ones; `bytes` has a size that a batch can have.
inline MarkedWords ScalarMarks(const Marker& marker, std::span<const std::uint8_t> bytes) {
  MarkedWords loose(bytes.size() / kWordPositions);
  MarkedWords strict(loose.size());
  marker.Mark(bytes, 0, bytes.size(), {loose, strict});
  return loose;
}

// `bytes` lies at a multiple of 16.
template <class Rule, unsigned kThreads>
MarkedWords EmulatedMarks(const typename Rule::Args& rule, std::span<const std::uint8_t> bytes,
                          std::uint32_t strip_bytes, const EmulatorOptions& options) {
  using Kernel = StripMarks<Rule, kThreads>;
  const auto size_bytes = static_cast<std::uint32_t>(bytes.size());
  // What is not written shows.
  std::vector<Vector16> marks(bytes.size() / 128, Vector16{{1, 2, 3, 4}});
  typename Kernel::Args args{};
  args.bytes = bytes.data();
  args.size_bytes = &size_bytes;
  args.marks = marks.empty() ? nullptr : marks.front().words;
  args.strip_bytes = strip_bytes;
  args.rule = rule;
  Emulate<Kernel>(args, options);
  MarkedWords words;
  for (const Vector16& vector : marks) {
    for (int half = 0; half < 2; ++half) {
      words.push_back(std::uint64_t{vector.words[2 * half + 1]} << 32 | vector.words[2 * half]);
    }
  }
  return words;
}

// Nasty inputs of all sizes between guards, each in strips of some length, by some number of blocks
// in some order.
template <class Rule>
void ExpectScalarMarks(const typename Rule::Args& rule, const Marker& marker, std::uint64_t seed) {
  Random random(seed);
  constexpr std::size_t kMaxUnits = 300;
  GuardedBytes guarded(kMaxUnits * kBatchAlignmentBytes);
  for (const InputName& input : NastyInputs()) {
    const std::size_t units = random.OneIn(2) ? random.Below(20) : random.Below(kMaxUnits + 1);
    const std::vector<std::uint8_t> bytes =
        MakeInput(input.kind, input.seed, units * kBatchAlignmentBytes);
    const auto strip_bytes = static_cast<std::uint32_t>(random.Below(6)) * kStripAlignmentBytes;
    const EmulatorOptions options{.block_count = static_cast<unsigned>(random.Between(1, 5)),
                                  .order_seed = random.Next()};
    SCOPED_TRACE(Cat(input.kind, " ", input.seed, ", ", bytes.size(), " bytes, strips of ",
                     strip_bytes, ", ", options.block_count, " blocks"));
    const MarkedWords wanted = ScalarMarks(marker, bytes);
    ASSERT_EQ((EmulatedMarks<Rule, 64>(rule, guarded.CopyToEnd(bytes), strip_bytes, options)),
              wanted);
    ASSERT_EQ((EmulatedMarks<Rule, 64>(rule, guarded.CopyToStart(bytes), strip_bytes, options)),
              wanted);
  }
}

// Every size to some strips, with a thread of the system for each of a block's, as the thread
// sanitizer wants them, and with the blocks of the released kernel.
template <class Rule>
void ExpectScalarMarksOfEveryShape(const typename Rule::Args& rule, const Marker& marker,
                                   std::uint64_t seed) {
  for (std::size_t size = 0; size <= 12 * kBatchAlignmentBytes; size += kBatchAlignmentBytes) {
    const std::vector<std::uint8_t> bytes = MakeInput("random", seed + size, size);
    const MarkedWords wanted = ScalarMarks(marker, bytes);
    for (const std::uint32_t strip_bytes : {0u, 128u, 256u, 384u, 1024u, kMaxStripBytes}) {
      SCOPED_TRACE(Cat(size, " bytes, strips of ", strip_bytes));
      ASSERT_EQ((EmulatedMarks<Rule, 32>(rule, bytes, strip_bytes, {})), wanted);
    }
  }
  const std::vector<std::uint8_t> bytes = MakeInput("text", seed, 80 * kBatchAlignmentBytes);
  const MarkedWords wanted = ScalarMarks(marker, bytes);
  ASSERT_EQ((EmulatedMarks<Rule, 32>(rule, bytes, 128, {.has_real_threads = true})), wanted);
  ASSERT_EQ((EmulatedMarks<Rule, 1024>(rule, bytes, 128, {.block_count = 1})), wanted);
}

}  // namespace kerf::cuda
