// K1 of maxp-local against the scalar marker.
#include "kernels/cuda/kernel/peak_marks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/cuda/launch/emulator.h"
#include "kernels/profile.h"
#include "kernels/testing/guarded_bytes.h"
#include "kernels/testing/inputs.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::vector<std::uint64_t> ScalarMarks(std::uint32_t window_bytes, Bytes bytes) {
  const Profile profile = *ParseProfile(Cat("maxp-local:window=", window_bytes, ",max=4000000"));
  std::vector<std::uint64_t> loose(bytes.size() / kWordPositions);
  std::vector<std::uint64_t> strict(loose.size());
  MakeScalarMarker(profile)->Mark(bytes, 0, bytes.size(), {loose, strict});
  return loose;
}

std::vector<std::uint64_t> EmulatedMarks(std::uint32_t window_bytes, Bytes bytes,
                                         const EmulatorOptions& options) {
  const auto size_bytes = static_cast<std::uint32_t>(bytes.size());
  const std::size_t group_count = bytes.size() / kGroupBytes;
  std::vector<std::uint8_t> fine(group_count);
  std::vector<std::uint8_t> coarse((group_count + kCoarseGroups - 1) / kCoarseGroups);
  // What is not written shows.
  std::vector<std::uint32_t> marks(group_count, 42);
  const ByteMaxima::Args maxima = {bytes.data(), &size_bytes, fine.data(), coarse.data()};
  Emulate<ByteMaxima>(maxima, options);
  Emulate<PeakMarks>({maxima, marks.data(), window_bytes}, options);
  std::vector<std::uint64_t> words;
  for (std::size_t index = 0; index < group_count; index += 2) {
    words.push_back(std::uint64_t{marks[index + 1]} << 32 | marks[index]);
  }
  return words;
}

constexpr std::uint32_t kWindows[] = {64, 65, 94, 95, 96, 127, 448, 1024, 1087, 3000, 9000};

void ExpectScalarMarks(Bytes bytes, Random& random) {
  GuardedBytes guarded(bytes.size());
  for (const std::uint32_t window_bytes : kWindows) {
    const EmulatorOptions options{.block_count = static_cast<unsigned>(random.Between(1, 3)),
                                  .order_seed = random.Next()};
    SCOPED_TRACE(Cat(bytes.size(), " bytes, window ", window_bytes));
    const std::vector<std::uint64_t> wanted = ScalarMarks(window_bytes, bytes);
    ASSERT_EQ(EmulatedMarks(window_bytes, guarded.CopyToEnd(bytes), options), wanted);
    ASSERT_EQ(EmulatedMarks(window_bytes, guarded.CopyToStart(bytes), options), wanted);
  }
}

TEST(PeakMarksTest, AreTheScalarMarkersOfNastyInputs) {
  Random random(TestSeed());
  for (const InputName& input : NastyInputs()) {
    SCOPED_TRACE(Cat(input.kind, " ", input.seed));
    ExpectScalarMarks(MakeInput(input.kind, input.seed, random.Below(300) * kBatchAlignmentBytes),
                      random);
  }
}

// Peaks above a floor, as far apart as windows reach, or a byte less or more.
TEST(PeakMarksTest, AreTheScalarMarkersOfLonePeaks) {
  Random random(TestSeed());
  for (int round = 0; round < 30; ++round) {
    std::vector<std::uint8_t> bytes(random.Between(1, 300) * kBatchAlignmentBytes);
    if (random.OneIn(2)) {
      for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.Below(4));
    }
    for (std::size_t place = random.Below(200); place < bytes.size();) {
      bytes[place] = static_cast<std::uint8_t>(random.Between(5, 7));
      place += kWindows[random.Below(std::size(kWindows))] + random.Below(3);
    }
    ExpectScalarMarks(bytes, random);
  }
}

TEST(PeakMarksTest, EverySize) {
  Random random(TestSeed());
  for (std::size_t size = 0; size <= 40 * kBatchAlignmentBytes; size += kBatchAlignmentBytes) {
    ExpectScalarMarks(MakeInput("random", random.Next(), size), random);
  }
}

// As the thread sanitizer wants them.
TEST(PeakMarksTest, InThreads) {
  const std::vector<std::uint8_t> bytes =
      MakeInput("random", TestSeed(), 200 * kBatchAlignmentBytes);
  EXPECT_EQ(EmulatedMarks(64, bytes, {.block_count = 1, .has_real_threads = true}),
            ScalarMarks(64, bytes));
}

}  // namespace
}  // namespace kerf::cuda
