// `kerf bench`, small: what it says must be whole and must fit together.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "e2e/world.h"
#include "gmock/gmock.h"

namespace kerf::e2e {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kOk = 0;
constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;
// The average over all 8 KiB chunks of random data lies between these.
constexpr double kMinChunkBytes = 4'000;
constexpr double kMaxChunkBytes = 16'000;

class Bench : public ::testing::Test {
 protected:
  Bench() {
    std::filesystem::create_directory(world_ / "scratch");
    // Relative: a socket's path may only be short.
    world_.SetEnvironment("TMPDIR", "scratch");
  }

  std::vector<std::string> Service(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"bench", "service", "--kerfd",
                                          BuiltProgram("server/kerfd")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  std::vector<std::string> Small(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments =
        Service({"--size", "2M", "--rounds", "1", "--idle-streams", "0", "--busy-streams", "0"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  void ExpectNothingLeft() {
    EXPECT_TRUE(std::filesystem::is_empty(world_ / "scratch")) << "files are left behind";
  }

  World world_;
};

void ExpectPositive(const json& object, const std::string& key) {
  ASSERT_TRUE(object.contains(key)) << key;
  ASSERT_TRUE(object[key].is_number()) << key << ": " << object[key];
  EXPECT_GT(object[key].get<double>(), 0) << key;
}

// A row about one measured pass.
void ExpectRow(const json& row, const std::string& what, bool has_server) {
  EXPECT_EQ(row["what"], what);
  EXPECT_EQ(row["bytes"], 2 << 20);
  for (const char* key : {"seconds", "mb_per_second", "client_cpu_seconds_per_gb"}) {
    ExpectPositive(row, key);
  }
  const json& client = row["client_cpu_seconds_per_gb"];
  const json& server = row["server_cpu_seconds_per_gb"];
  if (has_server) {
    ExpectPositive(row, "server_cpu_seconds_per_gb");
    EXPECT_NEAR(row["cpu_seconds_per_gb"].get<double>(),
                client.get<double>() + server.get<double>(), 1e-9);
  } else {
    EXPECT_TRUE(server.is_null());
    EXPECT_EQ(row["cpu_seconds_per_gb"], client);
  }
  ASSERT_EQ(row["rounds"].size(), 1u);
  EXPECT_NEAR(row["mb_per_second"].get<double>(), 2.097152 / row["seconds"].get<double>(), 1e-6);
}

TEST_F(Bench, ServiceReportIsWholeAndConsistent) {
  const JsonRun run = world_.KerfJson(Small({"--seed", "7"}));
  ASSERT_EQ(run.exit_code, kOk);
  const json summary = run.Only("summary");
  EXPECT_EQ(summary["benchmark"], "service");
  EXPECT_FALSE(summary["machine"]["cpu"].get<std::string>().empty());
  ExpectPositive(summary["machine"], "cores");
  EXPECT_THAT(summary["date"].get<std::string>(), ::testing::ContainsRegex("^20.*T.*Z$"));
  EXPECT_EQ(summary["settings"]["bytes_per_pass"], 2 << 20);
  EXPECT_EQ(summary["settings"]["index"], "rocksdb");
  EXPECT_EQ(summary["settings"]["seed"], 7);
  EXPECT_TRUE(summary["memory"].is_null());
  std::uint64_t chunks = 0;
  ASSERT_EQ(summary["streams"].size(), 2u);
  for (const std::size_t index : {0, 1}) {
    const json& group = summary["streams"][index];
    EXPECT_EQ(group["streams"], index == 0 ? 1 : 8);
    ASSERT_EQ(group["rows"].size(), 3u);
    EXPECT_TRUE(group["front_share"].is_null());
    ExpectRow(group["rows"][0], "cut_and_hash", false);
    ExpectRow(group["rows"][1], "raw", true);
    ExpectRow(group["rows"][2], "kerfd", true);
    const auto cost = [&](int row) {
      return group["rows"][row]["cpu_seconds_per_gb"].get<double>();
    };
    EXPECT_NEAR(group["ratio"].get<double>(), cost(2) / (cost(0) + cost(1)), 1e-9);
    EXPECT_THAT(group["wall"].get<std::string>(),
                ::testing::AnyOf("transport", "cut_and_hash", "index_and_answers", "waiting"));
    EXPECT_EQ(group["goal_met"],
              group["ratio"].get<double>() <= summary["goal_ratio"].get<double>());
    EXPECT_EQ(group["duplicate_chunks"], 0);
    ExpectPositive(group, "answer_bytes");
    const double average = 2097152.0 / group["chunks"].get<double>();
    EXPECT_GT(average, kMinChunkBytes);
    EXPECT_LT(average, kMaxChunkBytes);
    chunks += group["chunks"].get<std::uint64_t>();
  }
  // Both groups were sent twice: the first time is not measured, but checked.
  EXPECT_GT(summary["checked_chunks"].get<std::uint64_t>(), chunks);
  ExpectNothingLeft();
}

TEST_F(Bench, DuplicatesAreFound) {
  const json summary =
      world_.KerfJson(Small({"--duplicate", "100", "--streams", "2", "--tcp"})).Only("summary");
  const json& group = summary["streams"][0];
  EXPECT_EQ(group["duplicate_chunks"], group["chunks"]);
  EXPECT_EQ(summary["settings"]["transport"], "loopback TCP");
  ExpectNothingLeft();
}

TEST_F(Bench, AFrontIsMeasuredBesideKerfd) {
  const json summary = world_.KerfJson(Small({"--front", "--streams", "2"})).Only("summary");
  const json& group = summary["streams"][0];
  ASSERT_EQ(group["rows"].size(), 4u);
  ExpectRow(group["rows"][3], "front", true);
  ExpectPositive(group, "front_share");
  EXPECT_EQ(group["front_shares"].size(), summary["settings"]["rounds"].get<std::size_t>());
  // Warmed up and measured, straight and through the front: four times about as many.
  EXPECT_GT(summary["checked_chunks"], 3 * group["chunks"].get<std::uint64_t>());
  EXPECT_EQ(group["duplicate_chunks"], 0);
  ExpectNothingLeft();
}

TEST_F(Bench, ALocalCutIsMeasuredBesideKerfd) {
  const json summary = world_.KerfJson(Small({"--local-cut", "--streams", "1,8"})).Only("summary");
  for (const json& group : summary["streams"]) {
    ASSERT_EQ(group["rows"].size(), 4u);
    ExpectRow(group["rows"][3], "local_cut", true);
    EXPECT_EQ(group["duplicate_chunks"], 0);
  }
  EXPECT_EQ(summary["local_cut_goal"], 0.6);
  ExpectNothingLeft();
}

TEST_F(Bench, MemoryOfIdleAndBusyStreams) {
  const json memory =
      world_
          .KerfJson(Service({"--size", "64K", "--rounds", "1", "--streams", "1", "--idle-streams",
                             "20", "--busy-streams", "3", "--busy-size", "2M"}))
          .Only("summary")["memory"];
  ExpectPositive(memory, "empty_bytes");
  EXPECT_EQ(memory["idle"]["streams"], 20);
  EXPECT_GT(memory["idle"]["resident_bytes"], memory["empty_bytes"]);
  EXPECT_EQ(memory["busy"]["streams"], 3);
  EXPECT_GT(memory["busy"]["peak_resident_bytes"], memory["empty_bytes"]);
  ExpectPositive(memory["busy"], "bytes_per_stream");
  ExpectNothingLeft();
}

TEST_F(Bench, TheTableHasTheRowsAndTheRatio) {
  const Completed run = world_.Kerf(Small({}));
  EXPECT_EQ(run.exit_code, kOk) << run.err;
  for (const char* text : {"cut and hash", "raw gRPC", "kerfd", "goal 1.25", "the wall: "}) {
    EXPECT_THAT(run.out, HasSubstr(text));
  }
}

TEST_F(Bench, ARunningServerOnAUnixSocketIsKnown) {
  world_.StartServer();
  const json summary =
      world_.KerfJson(Small({"--server", world_.address(), "--streams", "1"})).Only("summary");
  EXPECT_TRUE(summary["streams"][0]["ratio"].is_number());
  EXPECT_EQ(summary["settings"]["transport"], world_.address());
  EXPECT_TRUE(summary["memory"].is_null());
  world_.StopServer();
}

TEST_F(Bench, KernelsAreShownAsSharesOfReading) {
  const JsonRun run = world_.KerfJson({"bench", "kernels", "--algorithm", "ram", "blake3",
                                       "mincdc:min=4096,max=12288", "--size", "1M", "--rounds", "1",
                                       "--data", "random,zeros"});
  ASSERT_EQ(run.exit_code, kOk);
  std::map<std::string, int> plain_counts;
  for (const json& figure : run.Of("figure")) {
    ExpectPositive(figure, "bytes_per_second");
    ExpectPositive(figure, "ceiling_bytes_per_second");
    EXPECT_DOUBLE_EQ(figure["share_of_ceiling"].get<double>(),
                     figure["bytes_per_second"].get<double>() /
                         figure["ceiling_bytes_per_second"].get<double>());
    EXPECT_EQ(figure["checked"], true);
    EXPECT_THAT(std::string(figure["source"]), AnyOf("dram", "l2"));
    const std::string algorithm = figure["algorithm"];
    if (algorithm == "blake3") {
      EXPECT_EQ(figure["average_chunk_bytes"], 8192);
    } else if (figure["data"] == "random") {
      EXPECT_GT(figure["average_chunk_bytes"], kMinChunkBytes);
      EXPECT_LT(figure["average_chunk_bytes"], kMaxChunkBytes);
    }
    if (figure["backend"] == "plain") ++plain_counts[algorithm];
  }
  // From memory and from the cache, random and zeros.
  EXPECT_EQ(plain_counts.size(), 2u);
  for (const auto& [algorithm, count] : plain_counts) EXPECT_EQ(count, 4) << algorithm;
  EXPECT_EQ(run.Only("summary")["figures"], run.Of("figure").size());
  const std::vector<std::string> only = {"bench", "kernels",  "--algorithm", "ram",       "--size",
                                         "1M",    "--rounds", "1",           "--backend", "plain"};
  EXPECT_EQ(world_.KerfJson(only).Of("figure").size(), 2u);
}

const json& FigureOf(const std::vector<json>& figures, const std::string& mode,
                     const std::string& hints, bool all_fail) {
  static const json none;
  for (const json& figure : figures) {
    if (figure["mode"] == mode && figure["hints"] == hints && figure["all_fail"] == all_fail &&
        (figure["list_length"].is_null() || figure["list_length"] == 2)) {
      return figure;
    }
  }
  ADD_FAILURE() << "no figure of " << mode << ", " << hints << ", all fail: " << all_fail;
  return none;
}

void ExpectRapidFigure(const json& figure) {
  for (const char* speed : {"cut", "cut_hash_look_up"}) {
    for (const char* key : {"bytes_per_second", "times_regular", "series_times_regular"}) {
      ExpectPositive(figure[speed], key);
    }
  }
  EXPECT_EQ(figure["checked"], true);
  EXPECT_DOUBLE_EQ(figure["deduplication_ratio"].get<double>(),
                   figure["total_bytes"].get<double>() / figure["unique_bytes"].get<double>());
}

// What is true of every machine.
void ExpectRapidTruth(const std::vector<json>& figures) {
  const json& regular = figures[0];
  EXPECT_EQ(regular["mode"], "regular");
  EXPECT_EQ(regular["later_scanned_share"], 1.0);
  EXPECT_EQ(regular["hints_accepted"], 0);
  for (const std::string hints : {"runs", "sizes"}) {
    const json& exact = FigureOf(figures, "exact", hints, false);
    EXPECT_EQ(exact["deduplication_ratio"], regular["deduplication_ratio"]);
    EXPECT_LT(exact["later_scanned_share"].get<double>(), 0.3);
    EXPECT_GT(exact["hints_accepted"].get<int>(), 0);
    const json& worst = FigureOf(figures, "exact", hints, true);
    EXPECT_EQ(worst["hints_accepted"], 0);
    EXPECT_GT(worst["hints_rejected"].get<int>(), 0);
    EXPECT_EQ(worst["later_scanned_share"], 1.0);
    EXPECT_EQ(worst["deduplication_ratio"], regular["deduplication_ratio"]);
    FigureOf(figures, "ff", hints, false);
    FigureOf(figures, "ff+rwt", hints, false);
    FigureOf(figures, "ff+mt", hints, false);
    FigureOf(figures, "ff+rwt+fpt", hints, false);
  }
  const json& by_lists = FigureOf(figures, "ff+rwt", "sizes", false);
  EXPECT_GT(by_lists["hits_by_position"][0].get<int>(), 0);
  EXPECT_EQ(by_lists["hits_by_position"][2], 0);
  std::vector<int> lengths;
  for (const json& figure : figures) {
    if (figure["mode"] == "ff+rwt" && figure["hints"] == "sizes" && figure["all_fail"] == false) {
      lengths.push_back(figure["list_length"]);
    }
  }
  EXPECT_THAT(lengths, ::testing::UnorderedElementsAre(1, 2, 3, 4));
}

TEST_F(Bench, RapidCdcOnMadeVersions) {
  const JsonRun run = world_.KerfJson({"bench", "rapid", "--profile", "rabin-8k", "--profile",
                                       "ram:window=1024,max=16384", "--size", "1M", "--edits",
                                       "5,20", "--rounds", "1", "--seed", "7"});
  ASSERT_EQ(run.exit_code, kOk);
  std::map<std::string, std::vector<json>> figures;
  std::map<std::string, int> series;
  for (const json& figure : run.Of("figure")) {
    ExpectRapidFigure(figure);
    ++series[figure["series"]];
    const std::string text = figure["series"];
    if (text.find(" 5 edits each") != std::string::npos &&
        text.find("everywhere") != std::string::npos) {
      figures[figure["name"]].push_back(figure);
    }
  }
  EXPECT_EQ(series.size(), 3u) << "two numbers of edits, one of them also clustered";
  ASSERT_EQ(figures.size(), 2u);
  for (const auto& [name, of_profile] : figures) {
    SCOPED_TRACE(name);
    ExpectRapidTruth(of_profile);
    EXPECT_GT(of_profile[0]["later_duplicate_share"].get<double>(), 0.7);
  }
  const json summary = run.Only("summary");
  EXPECT_EQ(summary["benchmark"], "rapid");
  EXPECT_EQ(summary["figures"], run.Of("figure").size());
  EXPECT_EQ(summary["series"], 3);
  ExpectPositive(summary["machine"], "cores");
  EXPECT_TRUE(summary["machine"]["load"].is_number());
}

TEST_F(Bench, RapidCdcOnVersionsThatAreThere) {
  // Two versions of two files; one file differs in its last bytes.
  std::string text;
  for (int line = 0; line < 20'000; ++line) text += Cat(line * 7919 % 10'007, "\n");
  for (const std::string version : {"old", "new"}) {
    std::filesystem::create_directory(world_ / version);
    WriteText(world_ / (version + "/same"), text);
    WriteText(world_ / (version + "/other"), text.substr(5) + version);
  }
  const std::vector<std::string> arguments = {
      "bench",    "rapid", "--profile", "gear:min=256,avg=1024,max=4096",
      "--rounds", "1",     "old",       "new"};
  const JsonRun run = world_.KerfJson(arguments);
  ASSERT_EQ(run.exit_code, kOk);
  ExpectRapidTruth(run.Of("figure"));
  EXPECT_EQ(run.Of("figure")[0]["total_bytes"], 4 * text.size() - 2 * 5 + 6);
  EXPECT_GT(run.Of("figure")[0]["deduplication_ratio"].get<double>(), 1.9);

  const Completed table = world_.Kerf(arguments);
  for (const char* shown : {"regular", "exact", "ff+rwt+fpt", "all fail", "load", "duplicates"}) {
    EXPECT_THAT(table.out, HasSubstr(shown));
  }
  EXPECT_EQ(world_.Kerf({"bench", "rapid", "old/same"}).exit_code, kUsage) << "one version";
  EXPECT_EQ(world_.Kerf({"bench", "rapid", "none", "gone"}).exit_code, kFailure);
  EXPECT_EQ(world_.Kerf({"bench", "rapid", "old", "new", "--max-bytes", "64K"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "rapid", "--profile", "none"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "rapid", "--size", "much"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "rapid", "--kinds", "other"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "rapid", "--versions", "1"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "rapid", "--edits", "1000001"}).exit_code, kUsage);
}

TEST_F(Bench, WhatIsNotThereIsSaid) {
  const Completed missing =
      world_.Kerf({"bench", "service", "--kerfd", world_ / "no-such-program"});
  EXPECT_NE(missing.exit_code, kOk);
  EXPECT_THAT(missing.err, HasSubstr("no-such-program"));
  world_.SetEnvironment("TMPDIR", world_ / ("scratch/" + std::string(100, 'x')));
  std::filesystem::create_directory(world_ / ("scratch/" + std::string(100, 'x')));
  EXPECT_THAT(world_.Kerf(Small({})).err, HasSubstr("--tcp"));
  std::filesystem::remove(world_ / ("scratch/" + std::string(100, 'x')));
  EXPECT_EQ(world_.Kerf({"bench"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "kernels", "--size", "1"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "kernels", "--size", "1M", "--algorithm", "x"}).exit_code,
            kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "kernels", "--size", "1M", "--backend", "x"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "kernels", "--size", "1M", "--data", "x"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "service", "--size", "much"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "service", "--profile", "none"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"bench", "service", "--message", "5M"}).exit_code, kUsage);
  ExpectNothingLeft();
}

TEST_F(Bench, AnInterruptLeavesNothingBehind) {
  const auto bench = world_.Start(Service({"--rounds", "1000"}));
  // It works once its folders are there.
  while (std::filesystem::is_empty(world_ / "scratch") && !bench->HasEnded()) {
    std::this_thread::yield();
  }
  bench->Signal(SIGINT);
  EXPECT_EQ(bench->Wait().exit_code, kInterrupted);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace kerf::e2e
