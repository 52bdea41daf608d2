// The benchmark of a GPU on an emulated one: every figure is there, none of wrong results.
#include "kernels/cuda/bench/gpu_bench.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/bench/gpu_report.h"
#include "kernels/cuda/plugin/emulated_source.h"

namespace kerf::cuda {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;

GpuBenchOptions SmallOptions() {
  GpuBenchOptions options;
  options.profiles = {"fastcdc:min=256,avg=1024,max=4096,level=2",
                      "maxp-local:window=300,max=2000"};
  options.kernel_bytes = {64 << 10};
  options.batch_bytes = {16 << 10, 32 << 10};
  options.varied_batch_bytes = 16 << 10;
  options.copy_bytes = {100, 4096};
  options.strip_bytes = {0, 512};
  options.rounds = 1;
  options.round_time = std::chrono::microseconds(1);
  options.timeout = std::chrono::minutes(2);
  options.seed = TestSeed();
  return options;
}

absl::Status RunBench(const OpenDevice& open, const GpuBenchOptions& options,
                      std::vector<GpuFigure>& figures) {
  const std::atomic<bool> cancelled{false};
  return RunGpuBench(open, options, cancelled,
                     [&](const GpuFigure& figure) { figures.push_back(figure); })
      .status();
}

TEST(GpuBenchTest, EveryFigureIsThere) {
  std::vector<GpuFigure> figures;
  const absl::Status status = RunBench(EmulatedSource(TestSeed()), SmallOptions(), figures);
  ASSERT_TRUE(status.ok()) << status;
  std::map<std::string, int> counts;
  std::set<std::uint32_t> strips;
  std::map<std::string, int> varied;
  for (const GpuFigure& figure : figures) {
    if (figure.what == "end-to-end") {
      ++varied[Cat(figure.data, " ", figure.stream_count, " ", figure.size_bytes)];
    } else if (figure.what != "latency") {
      ++counts[figure.what];
      EXPECT_EQ(figure.data, "random");
      EXPECT_EQ(figure.stream_count, 1u);
    }
    strips.insert(figure.strip_bytes);
    EXPECT_GT(figure.seconds, 0) << figure.what;
    EXPECT_GT(figure.size_bytes, 0u) << figure.what;
    EXPECT_EQ(figure.share_of_copy > 0, figure.what == "end-to-end");
    EXPECT_TRUE(figure.strip_bytes == 0 ||
                (figure.what == "marks" && figure.profile.starts_with("fastcdc")));
  }
  const std::map<std::string, int> expected = {{"copy-in", 2},
                                               {"copy-out", 2},
                                               {"copy-both", 2},
                                               // Strips of one of the two.
                                               {"marks", 3},
                                               {"cuts", 2},
                                               {"marks+cuts", 2},
                                               {"digests", 2},
                                               {"cpu", 6}};
  EXPECT_EQ(counts, expected);
  // Four batches each; of text, as far as it is not given to the CPU, and of three streams in those
  // of one size alone.
  EXPECT_THAT(varied["text 1 65536"], AllOf(Gt(0), Le(6)));
  varied.erase("text 1 65536");
  const std::map<std::string, int> expected_varied = {
      {"random 1 65536", 6}, {"random 1 131072", 6}, {"random 3 65536", 6}};
  EXPECT_EQ(varied, expected_varied);
  EXPECT_EQ(strips, (std::set<std::uint32_t>{0, 512}));
}

TEST(GpuBenchTest, NoFigureOfWrongResults) {
  GpuBenchOptions options = SmallOptions();
  options.profiles.resize(1);
  // The copies' device, that of the kernels, that of the batches. The first calls of each are of
  // what is checked.
  const std::pair<std::uint64_t, std::uint64_t> faults[] = {{0, 6}, {1, 3}, {2, 12}};
  for (const auto& [device, call] : faults) {
    std::vector<GpuFigure> figures;
    const absl::Status status = RunBench(
        EmulatedSource(TestSeed(), {Fault::Kind::kWrongBits, call}, device), options, figures);
    EXPECT_FALSE(status.ok()) << "device " << device;
    const std::string_view never[] = {"copy-in", "marks", "latency"};
    for (const GpuFigure& figure : figures) EXPECT_NE(figure.what, never[device]);
  }
}

TEST(GpuBenchTest, SaysWhatItCannotDo) {
  std::vector<GpuFigure> figures;
  GpuBenchOptions options = SmallOptions();
  options.profiles = {"ram-8k"};
  const absl::Status none = RunBench(EmulatedSource(TestSeed()), options, figures);
  EXPECT_TRUE(absl::IsInvalidArgument(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("no kernels for the profile ram-8k"));
  options.profiles = {"none"};
  EXPECT_TRUE(absl::IsInvalidArgument(RunBench(EmulatedSource(TestSeed()), options, figures)));
  options = SmallOptions();
  options.timeout = std::chrono::milliseconds(300);
  const absl::Status silent =
      RunBench(EmulatedSource(TestSeed(), {Fault::Kind::kSilent, 0}), options, figures);
  EXPECT_TRUE(absl::IsDeadlineExceeded(silent)) << silent;
  EXPECT_TRUE(figures.empty());
  const std::atomic<bool> cancelled{true};
  EXPECT_TRUE(absl::IsCancelled(
      RunGpuBench(EmulatedSource(TestSeed()), SmallOptions(), cancelled, [](const GpuFigure&) {
      }).status()));
}

TEST(GpuReportTest, SaysWhatIsKnown) {
  GpuFigure figure;
  figure.what = "copy-in";
  figure.size_bytes = 4'000;
  figure.seconds = 1e-6;
  EXPECT_EQ(GpuFigureLine(figure).size(), GpuFigureHeading().size());
  EXPECT_THAT(GpuFigureLine(figure), HasSubstr("1.0 us     4.00 GB/s"));
  nlohmann::json json = GpuFigureJson(figure);
  EXPECT_TRUE(json["profile"].is_null() && json["digest"].is_null());
  EXPECT_TRUE(json["strip_bytes"].is_null() && json["share_of_copy"].is_null());
  EXPECT_DOUBLE_EQ(json["bytes_per_second"], 4e9);
  figure.profile = "gear-8k";
  figure.share_of_copy = 0.5;
  EXPECT_THAT(GpuFigureLine(figure), HasSubstr("50 % of copy-in"));
  json = GpuFigureJson(figure);
  EXPECT_EQ(json["profile"], "gear-8k");
  EXPECT_EQ(json["share_of_copy"], 0.5);
  EXPECT_EQ(json["data"], "random");
  EXPECT_EQ(json["streams"], 1);
  figure.data = "text";
  figure.stream_count = 3;
  EXPECT_THAT(GpuFigureLine(figure), HasSubstr("GB/s  text  3 streams  50 % of copy-in"));
  json = GpuFigureJson(figure);
  EXPECT_EQ(json["data"], "text");
  EXPECT_EQ(json["streams"], 3);
}

}  // namespace
}  // namespace kerf::cuda
