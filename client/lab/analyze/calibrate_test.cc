#include "client/lab/analyze/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"

namespace kerf::agent::analyze {
namespace {

using ::testing::ElementsAre;

const std::atomic<bool> kNotCancelled{false};

TEST(Ladder, EveryVariantHasAnAlgorithmAndEveryAlgorithmAVariant) {
  for (const std::string_view algorithm : AlgorithmNames()) {
    EXPECT_TRUE(VariantsOf(std::string(algorithm)).ok()) << algorithm;
  }
  EXPECT_THAT(*VariantsOf("seqcdc"), ElementsAre("seqcdc", "seqcdc-falling"));
  EXPECT_THAT(*VariantsOf("seqcdc-falling"), ElementsAre("seqcdc-falling"));
  EXPECT_EQ(VariantsOf("none").status().code(), absl::StatusCode::kInvalidArgument);
}

// LaddersFor stops the process on text that is no valid profile.
TEST(Ladder, EndsAreValidProfilesOfTheAlgorithm) {
  for (const std::string_view variant : VariantNames()) {
    for (const std::uint64_t wanted :
         {std::uint64_t{1} << 10, std::uint64_t{5000}, std::uint64_t{12} << 10,
          std::uint64_t{1} << 16, std::uint64_t{1} << 20}) {
      for (const Ladder& ladder : LaddersFor(variant, wanted)) {
        for (const std::uint32_t rung : {0u, ladder.rung_count / 2, ladder.rung_count - 1}) {
          const std::string text = FormatProfile(ladder.at(rung));
          EXPECT_TRUE(std::string(variant).starts_with(text.substr(0, text.find(':')))) << text;
        }
      }
    }
  }
}

TEST(Calibrate, ReachesTheWantedAverageOnRandomData) {
  std::vector<std::uint8_t> data(4 << 20);
  Random(1).Fill(data);
  const std::vector<Bytes> pieces = {data};
  for (const std::string_view variant : VariantNames()) {
    const Calibrated found = Calibrate(LaddersFor(variant, 8192), 8192, pieces, kNotCancelled);
    // The normalised ones have masks of powers of two only, and an average that hardly moves.
    const double tolerance = variant.starts_with("fastcdc") ? 0.2 : 0.025;
    EXPECT_NEAR(found.average_bytes, 8192, tolerance * 8192) << variant;
    EXPECT_EQ(found.average_bytes, AverageChunkBytes(*MakeChunker(found.profile), pieces));
  }
}

TEST(Calibrate, OfTwoLaddersTheFirstThatIsNearEnough) {
  const std::vector<std::uint8_t> data(1 << 20);
  const std::vector<Bytes> pieces = {data};
  const auto fixed = [](std::uint32_t size) {
    return Ladder{
        1, [size](std::uint32_t) { return *ParseProfile("fixed:size=" + std::to_string(size)); }};
  };
  const auto size_of = [&](const std::vector<Ladder>& ladders) {
    return Calibrate(ladders, 1000, pieces, kNotCancelled).profile.max_bytes;
  };
  EXPECT_EQ(size_of({fixed(1010), fixed(1000)}), 1010u);
  EXPECT_EQ(size_of({fixed(1100), fixed(1000)}), 1000u);
  EXPECT_EQ(size_of({fixed(1100), fixed(1200)}), 1100u);
}

TEST(Calibrate, TheNearestRungIsTaken) {
  const std::vector<std::uint8_t> data(1 << 20);
  const std::vector<Bytes> pieces = {data};
  const Ladder ladder{100, [](std::uint32_t rung) {
                        return *ParseProfile("fixed:size=" + std::to_string(100 + 10 * rung));
                      }};
  const std::vector<Ladder> ladders = {ladder};
  for (const std::uint32_t wanted : {100u, 104u, 106u, 500u, 1089u, 5000u}) {
    const std::uint32_t nearest = wanted > 1090 ? 1090 : (wanted + 5) / 10 * 10;
    EXPECT_EQ(Calibrate(ladders, wanted, pieces, kNotCancelled).profile.max_bytes, nearest);
  }
}

TEST(AverageChunk, TheEndOfAPieceDoesNotCount) {
  const std::vector<std::uint8_t> data(1000);
  const auto chunker = MakeChunker(*ParseProfile("fixed:size=300"));
  EXPECT_EQ(AverageChunkBytes(*chunker, std::vector<Bytes>{data, data}), 300);
  EXPECT_EQ(AverageChunkBytes(*chunker, std::vector<Bytes>{Bytes(data).first(100)}), 100);
  EXPECT_EQ(AverageChunkBytes(*chunker, {}), 0);
}

TEST(CalibrationPiecesTest, HoldEnoughChunks) {
  const std::vector<std::uint8_t> data(100 << 20);
  for (const std::uint64_t wanted : {1u << 12, 1u << 14, 1u << 16}) {
    std::uint64_t bytes = 0;
    for (const Bytes piece : CalibrationPieces(data, wanted)) {
      EXPECT_GE(piece.size(), 64 * wanted);
      bytes += piece.size();
    }
    EXPECT_GE(bytes, 1000 * wanted);
    EXPECT_LE(bytes, 64u << 20);
  }
}

}  // namespace
}  // namespace kerf::agent::analyze
