// Every way in which chunks can be wrong is a difference, and none in which they are right.
#include "kernels/cuda/pipeline/cpu_comparison.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;

class CpuComparisonTest : public ::testing::Test {
 protected:
  ComparedPiece Piece(bool is_end) {
    const auto plan =
        MakeBatchPlan(*ParseProfile("gear:min=256,avg=512,max=2048"), DigestAlgorithm::kSha256);
    return {plan, bytes_, is_end,
            CutPieceOnCpu(*plan->chunker, plan->digest_algorithm, bytes_, is_end)};
  }

  const std::vector<std::uint8_t> bytes_ = MakeInput("random", TestSeed(), 20'000);
};

TEST_F(CpuComparisonTest, WhatTheCpuMakesIsRight) {
  for (const bool is_end : {false, true}) {
    EXPECT_EQ(DifferenceOf(Piece(is_end)), "");
    EXPECT_EQ(DifferenceOf({Piece(is_end).plan, {}, is_end, {}}), "");
  }
}

// A device sees that a chunk ends at a mark, however little is behind it.
TEST_F(CpuComparisonTest, MoreThanTheCpuDecidesIsRightWhereItIs) {
  ComparedPiece piece = Piece(/*is_end=*/false);
  const ComparedPiece whole = Piece(/*is_end=*/true);
  ASSERT_LT(piece.cuts.chunks.size(), whole.cuts.chunks.size());
  while (piece.cuts.chunks.size() + 1 < whole.cuts.chunks.size()) {
    piece.cuts.chunks.push_back(whole.cuts.chunks[piece.cuts.chunks.size()]);
    EXPECT_EQ(DifferenceOf(piece), "");
  }
}

TEST_F(CpuComparisonTest, EveryMistakeIsADifference) {
  using Chunks = std::vector<PieceChunk>;
  const std::function<void(Chunks&)> mistakes[] = {
      [](Chunks& chunks) { chunks.erase(chunks.begin(), chunks.end() - 1); },
      [](Chunks& chunks) { chunks.resize(chunks.size() - 8); },
      [](Chunks& chunks) { chunks.clear(); },
      [](Chunks& chunks) { ++chunks[3].size_bytes; },
      [](Chunks& chunks) { chunks[0].size_bytes = 0; },
      [](Chunks& chunks) { chunks.back().size_bytes += 1'000'000; },
      [](Chunks& chunks) { chunks[5].digest.bytes[31] ^= 1; },
      [](Chunks& chunks) { std::swap(chunks[1].digest, chunks[2].digest); },
      [](Chunks& chunks) { chunks.insert(chunks.end(), 30, chunks.back()); },
  };
  for (const bool is_end : {false, true}) {
    for (const auto& make_mistake : mistakes) {
      std::vector<ComparedPiece> pieces(7, Piece(is_end));
      make_mistake(pieces[4].cuts.chunks);
      EXPECT_NE(DifferenceOf(pieces[4]), "");
      EXPECT_THAT(DifferenceOfAny(pieces), HasSubstr("piece 4: gear:min=256,avg=512,max=2048"));
    }
    EXPECT_EQ(DifferenceOfAny(std::vector<ComparedPiece>(7, Piece(is_end))), "");
  }
  ComparedPiece last = Piece(/*is_end=*/true);
  last.cuts.chunks.pop_back();
  EXPECT_THAT(DifferenceOf(last), HasSubstr("is missing"));
}

}  // namespace
}  // namespace kerf::cuda
