// `kerf analyze` on small trees: figures that can be told beforehand, and what goes wrong.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "e2e/world.h"
#include "gmock/gmock.h"

namespace kerf::e2e {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kOk = 0;
constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kPartial = 3;
constexpr int kInterrupted = 130;

constexpr std::size_t kVersionBytes = 600'000;

class Analyze : public ::testing::Test {
 protected:
  // The second version of the file has a byte more in front.
  void MakeVersions() {
    std::string content(kVersionBytes, '\0');
    Random(1).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    std::filesystem::create_directories(world_ / "tree/v1");
    std::filesystem::create_directories(world_ / "tree/v2");
    WriteText(world_ / "tree/v1/data", content);
    WriteText(world_ / "tree/v2/data", "x" + content);
    WriteText(world_ / "tree/v1/same", "the same in both");
    WriteText(world_ / "tree/v2/same", "the same in both");
  }

  // Quick: two algorithms, one average.
  static std::vector<std::string> Small(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"analyze", "--algorithm", "fixed,mincdc", "--average",
                                          "4K"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  World world_;
};

TEST_F(Analyze, FindsWhatChunkingSaves) {
  MakeVersions();
  const JsonRun run = world_.KerfJson(Small({"--average", "8K,16K", "--plot", "out.html", "tree"}));
  ASSERT_EQ(run.exit_code, kOk);
  std::map<std::string, int> figure_counts;
  for (const json& figure : run.Of("figure")) {
    const std::string algorithm = figure["algorithm"];
    ++figure_counts[algorithm];
    EXPECT_EQ(figure["total_bytes"], 2 * kVersionBytes + 33);
    EXPECT_DOUBLE_EQ(figure["savings"].get<double>(), 1 - figure["unique_bytes"].get<double>() /
                                                              figure["total_bytes"].get<double>());
    if (algorithm == "fixed") {
      EXPECT_LT(figure["savings"], 0.01);
    } else {
      EXPECT_GT(figure["savings"], 0.4);
      EXPECT_LT(figure["resync"]["mean_chunks"], 4);
    }
    EXPECT_GT(figure["share_of_ceiling"], 0);
    EXPECT_NEAR(figure["index_memory_bytes_per_tib"].get<double>(),
                65.5 * 1099511627776.0 * figure["unique_chunks"].get<double>() /
                    figure["total_bytes"].get<double>(),
                1e3);
  }
  EXPECT_EQ(figure_counts, (std::map<std::string, int>{{"fixed", 3}, {"mincdc", 3}}));
  const std::vector<json> parts = run.Of("part");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0]["part"], "v1");
  EXPECT_EQ(parts[0]["new_bytes"], parts[0]["bytes"]);
  EXPECT_LT(parts[1]["new_bytes"].get<double>(), 0.2 * kVersionBytes);
  // Its profile is one that `kerf chunk` takes.
  const std::string profile = run.Only("recommendation")["profile"];
  EXPECT_THAT(profile, ::testing::StartsWith("mincdc:"));
  EXPECT_EQ(world_.Kerf({"chunk", "tree/v1/data", "--profile", profile}).exit_code, kOk);
  const json summary = run.Only("summary");
  EXPECT_EQ(summary["figures"], 6);
  EXPECT_EQ(summary["files"], 4);
  EXPECT_EQ(summary["sample"], false);
  EXPECT_THAT(ReadText(world_ / "out.html"), AllOf(HasSubstr("<svg "), HasSubstr(profile)));
}

TEST_F(Analyze, TheTableIsForPeople) {
  MakeVersions();
  const Completed run = world_.Kerf(Small({"tree/v1", "tree/v2", "--plot", "out.svg"}));
  EXPECT_EQ(run.exit_code, kOk) << run.err;
  for (const char* text : {"4 files, 1.1 MiB, in 2 parts", "Made for chunks of 4.0 KiB", "saved %",
                           "fixed:size=4096", "Recommended: --profile mincdc:", "tree/v2"}) {
    EXPECT_THAT(run.out, HasSubstr(text));
  }
  EXPECT_THAT(ReadText(world_ / "out.svg"), HasSubstr("</svg>"));
}

TEST_F(Analyze, ASampleIsSaidToBeOne) {
  MakeVersions();
  const JsonRun run = world_.KerfJson(Small({"tree", "--max-bytes", "256K"}));
  ASSERT_EQ(run.exit_code, kOk);
  const json summary = run.Only("summary");
  EXPECT_EQ(summary["sample"], true);
  EXPECT_EQ(summary["found_bytes"], 2 * kVersionBytes + 33);
  EXPECT_LE(summary["total_bytes"], 256 << 10);
  EXPECT_EQ(summary["shortened_files"], 2);
  EXPECT_THAT(world_.Kerf(Small({"tree", "--max-bytes", "256K"})).out, HasSubstr("SAMPLE"));
}

TEST_F(Analyze, WhatIsMissingIsSkippedAndSaid) {
  MakeVersions();
  const JsonRun run = world_.KerfJson(Small({"tree", "none"}));
  EXPECT_EQ(run.exit_code, kPartial);
  EXPECT_EQ(run.Only("warning")["code"], "NOT_FOUND");
  EXPECT_EQ(run.Only("summary")["files"], 4);
  world_.DropPrivileges();
  std::filesystem::permissions(world_ / "tree/v1/data", std::filesystem::perms::none);
  const JsonRun refused = world_.KerfJson(Small({"tree"}));
  EXPECT_EQ(refused.exit_code, kPartial);
  EXPECT_EQ(refused.Only("warning")["code"], "PERMISSION_DENIED");
  EXPECT_EQ(refused.Only("summary")["files"], 3);
}

TEST_F(Analyze, WhatIsWrongIsSaid) {
  MakeVersions();
  std::filesystem::create_directory(world_ / "empty");
  const Completed empty = world_.Kerf(Small({"empty", "--plot", "out.svg"}));
  EXPECT_EQ(empty.exit_code, kFailure);
  EXPECT_THAT(empty.err, HasSubstr("nothing to analyze"));
  EXPECT_FALSE(std::filesystem::exists(world_ / "out.svg"));
  EXPECT_EQ(world_.Kerf(Small({"none"})).exit_code, kFailure);
  const Completed plot = world_.Kerf(Small({"tree", "--plot", "none/out.svg"}));
  EXPECT_EQ(plot.exit_code, kFailure);
  EXPECT_THAT(plot.err, AllOf(HasSubstr("--plot"), HasSubstr("none/out.svg")));
  EXPECT_THAT(plot.out, Not(HasSubstr("Recommended")));
  const std::vector<std::vector<std::string>> wrong = {
      {"analyze"},
      {"analyze", "tree", "--algorithm", "nonsense"},
      {"analyze", "tree", "--average", "1"},
      {"analyze", "tree", "--average", "much"},
      {"analyze", "tree", "--profile", "mincdc:min=1"},
      {"analyze", "tree", "--digest", "md5"},
      {"analyze", "tree", "--backend", "none"},
      {"analyze", "tree", "--max-bytes", "0"},
      {"analyze", "tree", "--plot", "out.pdf"},
      {"analyze", "tree", "--plot", "out.png"}};
  for (const std::vector<std::string>& arguments : wrong) {
    const Completed run = world_.Kerf(arguments);
    EXPECT_EQ(run.exit_code, kUsage) << arguments.back() << ": " << run.err;
    EXPECT_THAT(run.err, HasSubstr("kerf: "));
  }
  EXPECT_THAT(world_.Kerf({"analyze", "tree", "--algorithm", "nonsense"}).err, HasSubstr("maxcdc"));
}

TEST_F(Analyze, AnInterruptEndsItAndLeavesNoPicture) {
  MakeVersions();
  const auto run = world_.Start({"analyze", "tree", "--plot", "out.svg"});
  while (!std::filesystem::exists(world_ / "out.svg") && !run->HasEnded()) {
    std::this_thread::yield();
  }
  run->Signal(SIGINT);
  EXPECT_EQ(run->Wait().exit_code, kInterrupted);
  EXPECT_FALSE(std::filesystem::exists(world_ / "out.svg"));
}

}  // namespace
}  // namespace kerf::e2e
