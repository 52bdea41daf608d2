#include "server/metrics/page.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace kerf::metrics {
namespace {

constexpr std::array<std::uint64_t, 3> kBounds = {10, 100, 1000};
constexpr Label kLabels[] = {{"a", "any"}, {"b", "any"}};
const Metric kPlain{"kerf_plain", Type::kGauge, Where::kEverywhere, "Is plain."};
const Metric kOdd{"kerf_odd_total", Type::kCounter, Where::kEverywhere, "A \\ and\na \"line\".",
                  kLabels};
const Metric kSeconds{"kerf_seconds", Type::kHistogram, Where::kEverywhere, "Times.",
                      std::span(kLabels).first(1)};

TEST(PageTest, IsInPrometheusTextFormat) {
  Page page;
  page.Add(kPlain, std::numeric_limits<std::uint64_t>::max());
  page.Add(kOdd, 1, {"q\"b\\n\n", ""});
  page.Add(kOdd, 2, {"x", "y"});
  EXPECT_EQ(page.text(),
            "# HELP kerf_plain Is plain.\n"
            "# TYPE kerf_plain gauge\n"
            "kerf_plain 18446744073709551615\n"
            "# HELP kerf_odd_total A \\\\ and\\na \"line\".\n"
            "# TYPE kerf_odd_total counter\n"
            "kerf_odd_total{a=\"q\\\"b\\\\n\\n\",b=\"\"} 1\n"
            "kerf_odd_total{a=\"x\",b=\"y\"} 2\n");
}

TEST(PageTest, AHistogramIsSummedUpAndHasAllOfItInItsLastBucket) {
  Histogram histogram(kBounds);
  for (const std::uint64_t value : {0, 10, 11, 100, 1000, 1001, 5000}) histogram.Observe(value);
  Page page;
  page.AddHistogram(kSeconds, histogram, 1000, {"x"});
  EXPECT_EQ(page.text(),
            "# HELP kerf_seconds Times.\n"
            "# TYPE kerf_seconds histogram\n"
            "kerf_seconds_bucket{a=\"x\",le=\"0.01\"} 2\n"
            "kerf_seconds_bucket{a=\"x\",le=\"0.1\"} 4\n"
            "kerf_seconds_bucket{a=\"x\",le=\"1\"} 5\n"
            "kerf_seconds_bucket{a=\"x\",le=\"+Inf\"} 7\n"
            "kerf_seconds_sum{a=\"x\"} 7.122\n"
            "kerf_seconds_count{a=\"x\"} 7\n");
}

TEST(PageTest, WritesNumbersThatAreNone) {
  Page page;
  page.AddReal(kOdd, std::nan(""), {"x", "1"});
  page.AddReal(kOdd, std::numeric_limits<double>::infinity(), {"x", "2"});
  page.AddReal(kOdd, -std::numeric_limits<double>::infinity(), {"x", "3"});
  page.AddReal(kOdd, 1e-9, {"x", "4"});
  EXPECT_NE(page.text().find("\"1\"} NaN\n"), std::string::npos) << page.text();
  EXPECT_NE(page.text().find("\"2\"} +Inf\n"), std::string::npos) << page.text();
  EXPECT_NE(page.text().find("\"3\"} -Inf\n"), std::string::npos) << page.text();
  EXPECT_NE(page.text().find("\"4\"} 1e-09\n"), std::string::npos) << page.text();
}

TEST(PageDeathTest, RefusesWhatWouldBeNoPage) {
  Page page;
  page.Add(kOdd, 1, {"x", "y"});
  page.Add(kPlain, 1);
  EXPECT_DEATH(page.Add(kOdd, 1, {"z", "y"}), "begun_");
  EXPECT_DEATH(Page().Add(kOdd, 1, {"x"}), "labels");
}

TEST(CountersTest, LoseNothingAmongThreads) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kRounds = 10'000;
  Histogram histogram(kBounds);
  Counter counter;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&] {
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        histogram.Observe(round % 2 == 0 ? 1 : 10'000);
        counter.Add(3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), kThreads * kRounds * 3);
  const HistogramCounts counts = histogram.counts();
  EXPECT_EQ(counts.buckets[0], kThreads * kRounds / 2);
  EXPECT_EQ(counts.buckets[3], kThreads * kRounds / 2);
  EXPECT_EQ(counts.sum, kThreads * kRounds / 2 * 10'001);
}

// What Prometheus and its linter ask of names.
TEST(CatalogTest, NamesAreAsPrometheusWantsThem) {
  std::set<std::string_view> names;
  const auto is_name = [](std::string_view name) {
    return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") ==
                                std::string_view::npos;
  };
  for (const Metric* metric : AllMetrics()) {
    EXPECT_TRUE(names.insert(metric->name).second) << metric->name << " is there twice";
    EXPECT_TRUE(is_name(metric->name)) << metric->name;
    EXPECT_TRUE(metric->name.starts_with("kerf_") || metric->name.starts_with("process_"))
        << metric->name;
    EXPECT_EQ(metric->name.ends_with("_total"), metric->type == Type::kCounter) << metric->name;
    EXPECT_FALSE(metric->help.empty()) << metric->name;
    for (const Label& label : metric->labels) {
      EXPECT_TRUE(is_name(label.name)) << metric->name << " " << label.name;
      EXPECT_NE(label.name, "le") << metric->name;
    }
  }
}

TEST(CatalogTest, TheReferencePageIsUpToDate) {
  std::ifstream file("docs/metrics.md");
  const std::string written((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(written, ReferencePage()) << "run: kerfd --print-metrics > docs/metrics.md";
}

}  // namespace
}  // namespace kerf::metrics
