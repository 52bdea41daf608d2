#include "client/lab/analyze/recommend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/strings.h"

namespace kerf::agent::analyze {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kTotal = std::uint64_t{1} << 30;

// `share` is that of cutting and fingerprinting of the speed of fingerprinting alone.
ProfileFigures Figures(const std::string& algorithm, std::uint64_t wanted, double savings,
                       double share) {
  ProfileFigures figures;
  figures.algorithm = algorithm;
  figures.profile = Cat(algorithm, ":", wanted);
  figures.wanted_bytes = wanted;
  figures.count.total_bytes = kTotal;
  figures.count.unique_bytes =
      static_cast<std::uint64_t>(std::lround((1 - savings) * static_cast<double>(kTotal)));
  figures.count.chunk_count = kTotal / wanted;
  figures.count.unique_chunk_count = figures.count.unique_bytes / wanted;
  figures.speed.ceiling_bytes_per_second = 20e9;
  figures.speed.fingerprint_bytes_per_second = 4e9;
  figures.speed.hashed_bytes_per_second = share * 4e9;
  figures.speed.cut_bytes_per_second = 1e9;
  return figures;
}

std::string Chosen(std::vector<ProfileFigures> all, const RecommendOptions& options = {}) {
  CompareAtEqualAverage(all);
  const Recommendation result = Recommend(all, options);
  EXPECT_FALSE(result.reasons.empty());
  return all[result.index].profile;
}

std::string Reasons(std::vector<ProfileFigures> all, const RecommendOptions& options = {}) {
  CompareAtEqualAverage(all);
  std::string text;
  for (const std::string& reason : Recommend(all, options).reasons) text += reason + "\n";
  return text;
}

TEST(Recommend, WhatSavesMost) {
  EXPECT_EQ(Chosen({Figures("a", 8192, 0.40, 0.5), Figures("b", 8192, 0.45, 0.55)}), "b:8192");
}

TEST(Recommend, NotWhatIsTooSlow) {
  std::vector<ProfileFigures> all = {Figures("a", 8192, 0.40, 0.5), Figures("b", 8192, 0.45, 0.49)};
  // Who cuts fast and fingerprints slowly is as slow as users see it.
  all[1].speed.cut_bytes_per_second = 19e9;
  EXPECT_EQ(Chosen(all), "a:8192");
  EXPECT_THAT(Reasons(all), HasSubstr("b would save 5.0 points more at equal average, but cuts and "
                                      "fingerprints at 0.49 of the speed of fingerprinting alone"));
  EXPECT_EQ(Chosen(all, {.min_share = 0.48}), "b:8192");
  // If all are too slow, that does not count.
  EXPECT_EQ(Chosen(all, {.min_share = 0.9}), "b:8192");
  EXPECT_THAT(Reasons(all, {.min_share = 0.9}), HasSubstr("no algorithm reaches"));
}

TEST(Recommend, OfEqualSavingsTheFastest) {
  EXPECT_EQ(Chosen({Figures("a", 8192, 0.450, 0.55), Figures("b", 8192, 0.448, 0.6)}), "b:8192");
  EXPECT_EQ(Chosen({Figures("a", 8192, 0.450, 0.55), Figures("b", 8192, 0.446, 0.6)}), "a:8192");
}

TEST(Recommend, OfEqualSavingsWhatChangesDisturbLeast) {
  ProfileFigures slow = Figures("a", 8192, 0.45, 0.55);
  slow.resync.mean_bytes = 9000;
  ProfileFigures fast = Figures("b", 8192, 0.45, 0.6);
  fast.resync.mean_bytes = 9800;
  EXPECT_EQ(Chosen({slow, fast}), "b:8192") << "as good as the same";
  fast.resync.mean_bytes = 10'000;
  EXPECT_EQ(Chosen({slow, fast}), "a:8192");
  EXPECT_EQ(Chosen({fast, slow}), "a:8192");
  // Savings go before that.
  fast.count.unique_bytes -= fast.count.unique_bytes / 50;
  EXPECT_EQ(Chosen({slow, fast}), "b:8192");
}

TEST(Recommend, FixedOnlyIfThereIsNothingElse) {
  EXPECT_EQ(Chosen({Figures("fixed", 8192, 0.9, 50), Figures("b", 8192, 0.1, 0.4)}), "b:8192");
  EXPECT_EQ(Chosen({Figures("fixed", 8192, 0.9, 50)}), "fixed:8192");
}

TEST(Recommend, SmallerChunksIfTheySaveEnough) {
  // A point of bookkeeping lies between these averages.
  EXPECT_EQ(Chosen({Figures("a", 8192, 0.45, 0.5), Figures("a", 16384, 0.40, 0.5)}), "a:8192");
  EXPECT_EQ(Chosen({Figures("a", 8192, 0.45, 0.5), Figures("a", 16384, 0.44, 0.5)}), "a:16384");
  // Nothing to be saved: the largest.
  EXPECT_EQ(
      Chosen({Figures("a", 4096, 0, 0.5), Figures("a", 8192, 0, 0.5), Figures("a", 65536, 0, 0.5)}),
      "a:65536");
}

TEST(Recommend, TheIndexMustFit) {
  const std::vector<ProfileFigures> all = {
      Figures("a", 4096, 0.3, 0.5), Figures("a", 8192, 0.2, 0.5), Figures("a", 16384, 0.1, 0.5)};
  // 0.8 TiB / 8 KiB * 65.5 bytes.
  EXPECT_NEAR(all[1].index_memory_bytes_per_tib(), 0.8 * 134217728 * 65.5, 1e6);
  EXPECT_EQ(Chosen(all, {.max_index_bytes_per_tib = kTiB}), "a:4096");
  EXPECT_EQ(Chosen(all, {.max_index_bytes_per_tib = 7 * kGiB}), "a:8192");
  EXPECT_EQ(Chosen(all, {.max_index_bytes_per_tib = 1}), "a:16384");
  EXPECT_THAT(Reasons(all, {.max_index_bytes_per_tib = 1}), HasSubstr("every average here needs"));
}

TEST(Recommend, ProfilesNamedByHandAndStraysDoNotCompete) {
  ProfileFigures named = Figures("c", 8192, 0.9, 0.9);
  named.wanted_bytes = 0;
  ProfileFigures stray = Figures("d", 8192, 0.8, 0.9);
  stray.count.chunk_count *= 4;
  std::vector<ProfileFigures> all = {named, stray, Figures("a", 8192, 0.4, 0.5),
                                     Figures("b", 8192, 0.3, 0.5)};
  EXPECT_EQ(Chosen(all), "a:8192");
}

TEST(Recommend, TellsTheBestAtEachAverage) {
  std::vector<ProfileFigures> all = {Figures("a", 8192, 0.4, 0.5), Figures("b", 8192, 0.3, 0.5),
                                     Figures("a", 4096, 0.5, 0.5), Figures("b", 4096, 0.6, 0.5)};
  CompareAtEqualAverage(all);
  EXPECT_THAT(Recommend(all, {}).best_at_each_average, ElementsAre(3, 0));
}

TEST(Savings, AreReadOffTheLineOverTheLogarithm) {
  const std::vector<SavingsPoint> points = {{16384, 0.3}, {4096, 0.5}, {8192, 0.45}};
  EXPECT_DOUBLE_EQ(*SavingsAt(points, 8192), 0.45);
  EXPECT_NEAR(*SavingsAt(points, 4096 * std::sqrt(2)), 0.475, 1e-12);
  EXPECT_NEAR(*SavingsAt(points, 8192 * std::sqrt(2)), 0.375, 1e-12);
  // Beyond the ends there is no line, but what is as good as at the end counts.
  EXPECT_EQ(SavingsAt(points, 4070), 0.5);
  EXPECT_FALSE(SavingsAt(points, 4000).has_value());
  EXPECT_FALSE(SavingsAt(points, 17000).has_value());
  EXPECT_FALSE(SavingsAt({}, 1000).has_value());
  EXPECT_EQ(SavingsAt({{1000, 0.2}, {1000, 0.2}}, 1000), 0.2);
  EXPECT_EQ(SavingsAt({{1000, 0.2}}, 1005), 0.2);
  EXPECT_FALSE(SavingsAt({{1000, 0.2}}, 1020).has_value());
}

// One average was asked for, on files that end where they end: each algorithm has one point, and
// none of them lies where the others do. Which saves most says no single figure of the table.
TEST(Recommend, AllAreComparedWhereOneAverageWasAskedFor) {
  std::vector<ProfileFigures> all = {
      Figures("maxp", 8192, 0.441, 0.9), Figures("mincdc", 8192, 0.595, 0.8),
      Figures("maxcdc", 8192, 0.600, 0.7), Figures("gear", 8192, 0.560, 0.8),
      Figures("ram", 8192, 0.430, 0.9)};
  const double averages[] = {6000, 4800, 4700, 5300, 6100};
  for (std::size_t index = 0; index < all.size(); ++index) {
    all[index].count.chunk_count =
        static_cast<std::uint64_t>(static_cast<double>(kTotal) / averages[index]);
  }
  CompareAtEqualAverage(all);
  std::vector<LinePoint> more;
  EXPECT_FALSE(all[1].savings_at_equal_average.has_value()) << "nobody knows yet";
  for (const LineGap& gap : FindLineGaps(all, more)) {
    // What was made for 8 KiB had other averages: where to aim follows from that.
    if (gap.algorithm == "maxp") {
      EXPECT_NEAR(gap.aimed_bytes, 8192 * 5300.0 / 6000 / 1.05, 2);
    }
    if (gap.algorithm == "mincdc") {
      EXPECT_NEAR(gap.aimed_bytes, 8192 * 5300.0 / 4800 * 1.05, 2);
    }
    const bool goes_up = gap.algorithm == "mincdc" || gap.algorithm == "maxcdc";
    const std::map<std::string, double> there = {
        {"maxp", 0.455}, {"mincdc", 0.580}, {"maxcdc", 0.590}, {"ram", 0.445}};
    more.push_back(
        {gap.algorithm, gap.aimed_bytes, {goes_up ? 5400.0 : 5200.0, there.at(gap.algorithm)}});
  }
  EXPECT_EQ(more.size(), 4u) << "the median needs none";
  CompareAtEqualAverage(all, more);
  EXPECT_THAT(FindLineGaps(all, more), ::testing::IsEmpty());
  for (const ProfileFigures& figures : all) {
    EXPECT_TRUE(figures.savings_at_equal_average.has_value()) << figures.algorithm;
    EXPECT_FALSE(figures.equal_is_bound);
  }
  EXPECT_EQ(all[Recommend(all, {}).index].algorithm, "maxcdc");
}

TEST(Recommend, WhatCannotBecomeSoSmallSavesAtLeastWhatItSaves) {
  std::vector<ProfileFigures> all = {Figures("a", 1024, 0.4, 0.9), Figures("b", 1024, 0.3, 0.9),
                                     Figures("large", 1024, 0.5, 0.9)};
  all[2].count.chunk_count /= 2;
  CompareAtEqualAverage(all);
  EXPECT_TRUE(all[2].equal_is_bound);
  EXPECT_EQ(all[2].savings_at_equal_average, all[2].count.savings());
  EXPECT_EQ(all[Recommend(all, {}).index].algorithm, "large")
      << "with larger chunks it saves more than the others";
}

TEST(Recommend, NamesWhatCannotBeCompared) {
  std::vector<ProfileFigures> all = {Figures("a", 8192, 0.4, 0.9), Figures("b", 8192, 0.3, 0.9),
                                     Figures("small", 8192, 0.8, 0.9)};
  all[2].count.chunk_count *= 4;
  EXPECT_THAT(Reasons(all), HasSubstr("Not compared: small, whose chunks never become as large as "
                                      "8.0 KiB on this data."));
}

TEST(Savings, AreComparedAtTheMedianOfTheAverages) {
  std::vector<ProfileFigures> all = {Figures("a", 8192, 0.40, 0.5), Figures("b", 8192, 0.42, 0.5),
                                     Figures("c", 8192, 0.44, 0.5), Figures("b", 16384, 0.32, 0.5)};
  // Its chunks are smaller than wanted, which is why it saves so much.
  all[1].count.chunk_count = kTotal / 8000;
  CompareAtEqualAverage(all);
  EXPECT_DOUBLE_EQ(all[0].compared_at_bytes, 8192);
  EXPECT_LT(*all[1].savings_at_equal_average, 0.42);
  EXPECT_GT(*all[1].savings_at_equal_average, 0.41);
  // One point has no line, but lies there.
  EXPECT_NEAR(*all[2].savings_at_equal_average, 0.44, 1e-9);
}

TEST(Savings, BookkeepingIsTakenOff) {
  const ProfileFigures figures = Figures("a", 8192, 0.5, 0.5);
  EXPECT_NEAR(figures.net_savings(), 0.5 - (34 + 0.5 * 44) / 8192, 1e-6);
}

}  // namespace
}  // namespace kerf::agent::analyze
