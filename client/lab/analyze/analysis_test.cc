#include "client/lab/analyze/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/lab/analyze/report.h"

namespace kerf::agent::analyze {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::atomic<bool> kNotCancelled{false};
constexpr std::size_t kVersionBytes = 1 << 19;

// Two versions of a file; the second has 16 inserted bytes.
Corpus TwoVersions() {
  Corpus corpus;
  corpus.parts = {"old", "new\n"};
  corpus.size_bytes = corpus.found_bytes = 2 * kVersionBytes + 16;
  corpus.found_file_count = 2;
  corpus.content = std::make_unique<std::uint8_t[]>(corpus.size_bytes);
  Random(1).Fill(std::span(corpus.content.get(), kVersionBytes));
  auto* end = corpus.content.get() + kVersionBytes;
  for (int block = 0; block < 16; ++block) {
    const std::size_t size = kVersionBytes / 16;
    end = std::copy_n(corpus.content.get() + block * size, size, end);
    *end++ = static_cast<std::uint8_t>(block);
  }
  corpus.files = {{0, kVersionBytes, 0}, {kVersionBytes, kVersionBytes + 16, 1}};
  return corpus;
}

AnalysisOptions SmallOptions() {
  AnalysisOptions options;
  options.variants = {"fixed", "mincdc", "fastcdc2020"};
  options.averages = {4096, 8192};
  options.profiles = {*ParseProfile("mincdc-8k")};
  options.round_bytes = 1;
  return options;
}

TEST(Analyze, MeasuresEveryAlgorithmAtEveryAverage) {
  const Corpus corpus = TwoVersions();
  const AnalysisOptions options = SmallOptions();
  AnalysisProgress progress;
  const auto analysis = Analyze(corpus, options, kNotCancelled, progress);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->figures.size(), 7u);
  EXPECT_EQ(ProfileCount(options), 7u);
  EXPECT_EQ(progress.counted_profiles, 7 + analysis->line_points.size());
  EXPECT_EQ(progress.planned_profiles, progress.counted_profiles);
  EXPECT_EQ(progress.timed_profiles, 7 * kTimingSweeps);
  EXPECT_EQ(progress.counted_bytes, progress.counted_profiles * corpus.size_bytes);
  for (const ProfileFigures& figures : analysis->figures) {
    EXPECT_EQ(figures.count.total_bytes, corpus.size_bytes);
    EXPECT_THAT(figures.profile, StartsWith(figures.algorithm + ":"));
    EXPECT_TRUE(ParseProfile(figures.profile).ok());
    EXPECT_GT(figures.speed.cut_bytes_per_second, 0);
    EXPECT_EQ(figures.resync.edit_count, 3 * kEditsOfEachKind);
    if (figures.algorithm == "fixed") {
      EXPECT_LT(figures.count.savings(), 0.05);
    } else {
      EXPECT_GT(figures.count.savings(), 0.3) << figures.profile;
    }
    if (figures.wanted_bytes > 0) {
      EXPECT_NEAR(figures.count.average_bytes(), static_cast<double>(figures.wanted_bytes),
                  0.2 * static_cast<double>(figures.wanted_bytes));
    }
  }
  EXPECT_EQ(analysis->figures.back().profile, "mincdc:min=4096,max=12288");
  EXPECT_EQ(analysis->figures.back().wanted_bytes, 0u);
  EXPECT_EQ(analysis->whole_files.savings(), 0);
  EXPECT_THAT(analysis->figures[analysis->recommendation.index].algorithm, ::testing::Ne("fixed"));
}

// Small files: what is made for 8 KiB has half of that on average, and each algorithm another half.
TEST(Analyze, ComparesAllAtOneAverageOfManyFiles) {
  constexpr std::size_t kFileBytes = 12'000;
  constexpr std::size_t kFileCount = 60;
  Corpus corpus;
  corpus.parts = {"all"};
  corpus.size_bytes = corpus.found_bytes = kFileBytes * kFileCount;
  corpus.found_file_count = kFileCount;
  corpus.content = std::make_unique<std::uint8_t[]>(corpus.size_bytes);
  Random(1).Fill(std::span(corpus.content.get(), corpus.size_bytes));
  for (std::size_t file = 0; file < kFileCount; ++file) {
    corpus.files.push_back({file * kFileBytes, kFileBytes, 0});
  }
  AnalysisOptions options;
  options.variants = {"rabin", "gear", "fastcdc", "maxp", "ram", "ae-max", "mincdc", "maxcdc"};
  options.averages = {8192};
  options.round_bytes = 1;
  AnalysisProgress progress;
  const auto analysis = Analyze(corpus, options, kNotCancelled, progress);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_FALSE(analysis->line_points.empty());
  for (const ProfileFigures& figures : analysis->figures) {
    EXPECT_TRUE(figures.savings_at_equal_average.has_value())
        << figures.algorithm << " " << figures.count.average_bytes() << " of "
        << figures.compared_at_bytes;
  }
}

TEST(Analyze, FiguresDoNotDependOnThreads) {
  const Corpus corpus = TwoVersions();
  AnalysisOptions options = SmallOptions();
  std::vector<std::uint64_t> unique_bytes[2];
  for (const unsigned threads : {1u, 4u}) {
    options.thread_count = threads;
    AnalysisProgress progress;
    const auto analysis = Analyze(corpus, options, kNotCancelled, progress);
    ASSERT_TRUE(analysis.ok());
    for (const ProfileFigures& figures : analysis->figures) {
      unique_bytes[threads / 4].push_back(figures.count.unique_bytes);
      unique_bytes[threads / 4].push_back(static_cast<std::uint64_t>(figures.resync.mean_bytes));
    }
  }
  EXPECT_EQ(unique_bytes[0], unique_bytes[1]);
}

TEST(Analyze, AnInterruptEndsIt) {
  const std::atomic<bool> cancelled{true};
  AnalysisProgress progress;
  EXPECT_EQ(Analyze(TwoVersions(), SmallOptions(), cancelled, progress).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(Report, SaysWhatWasFound) {
  const Corpus corpus = TwoVersions();
  const AnalysisOptions options = SmallOptions();
  AnalysisProgress progress;
  const auto analysis = Analyze(corpus, options, kNotCancelled, progress);
  ASSERT_TRUE(analysis.ok());
  const std::vector<std::string> lines = ReportLines(corpus, options, *analysis);
  EXPECT_EQ(lines[0], "2 files, 1.0 MiB, in 2 parts");
  EXPECT_THAT(lines, Contains(StartsWith("Made for chunks of 8.0 KiB")));
  EXPECT_THAT(lines, Contains(HasSubstr("  mincdc:min=4096,max=12288")));
  EXPECT_THAT(lines, Contains(StartsWith("Recommended: --profile ")));
  EXPECT_THAT(lines, Contains(HasSubstr("  new\\x0a"))) << "control characters are escaped";
  EXPECT_EQ(PartJson(corpus, *analysis, 0)["new_bytes"], kVersionBytes);
  EXPECT_LT(PartJson(corpus, *analysis, 1)["new_bytes"], kVersionBytes / 2);
  EXPECT_EQ(SummaryJson(corpus, *analysis)["sample"], false);
  const nlohmann::json figure = FigureJson(analysis->figures[1]);
  EXPECT_EQ(figure["algorithm"], "mincdc");
  EXPECT_EQ(figure["wanted_average_bytes"], 4096);
  std::uint64_t chunks = 0;
  for (const nlohmann::json& step : figure["histogram"]) {
    chunks += step["chunks"].get<std::uint64_t>();
  }
  EXPECT_EQ(figure["chunks"], chunks);
}

TEST(Report, ASampleIsCalledOne) {
  Corpus corpus = TwoVersions();
  corpus.found_bytes = 100 * kVersionBytes;
  corpus.found_file_count = 300;
  corpus.shortened_file_count = 1;
  AnalysisOptions options = SmallOptions();
  options.averages = {8192};
  AnalysisProgress progress;
  const auto analysis = Analyze(corpus, options, kNotCancelled, progress);
  ASSERT_TRUE(analysis.ok());
  const std::vector<std::string> lines = ReportLines(corpus, options, *analysis);
  EXPECT_THAT(lines[1], HasSubstr("SAMPLE of 300 files, 50.0 MiB"));
  EXPECT_THAT(lines[2], HasSubstr("1 file only the front"));
}

}  // namespace
}  // namespace kerf::agent::analyze
