// No data makes cutting slow: it costs at most 20 times what random bytes cost by the same profile.
// KERF_CUT_COST_TABLE=1 prints what they cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/stream_cutter.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kInputBytes = 6u << 20;
// As the server appends.
constexpr std::size_t kSliceBytes = 64u << 10;
constexpr double kAllowed = 20;

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Nanoseconds for each byte that was cut; gives up after `limit` of them for each byte of all.
double Cost(const Chunker& chunker, const Bytes& bytes, double limit) {
  StreamCutter cutter(chunker);
  const double start = ThreadSeconds();
  const double allowed = limit * 1e-9 * static_cast<double>(bytes.size());
  std::size_t cut = 0;
  std::size_t count = 0;
  const auto drain = [&] {
    while (const std::optional<StreamChunk> chunk = cutter.Next()) {
      cut += chunk->bytes.size();
      if (++count % 64 == 0 && ThreadSeconds() - start > allowed) return false;
    }
    return true;
  };
  bool in_time = true;
  for (std::size_t position = 0; in_time && position < bytes.size();) {
    const std::span rest = std::span(bytes).subspan(position);
    position += cutter.Append(rest.first(std::min(rest.size(), kSliceBytes)));
    in_time = drain();
  }
  cutter.Finish();
  if (in_time) drain();
  return (ThreadSeconds() - start) * 1e9 / static_cast<double>(std::max<std::size_t>(cut, 1));
}

double BestCost(const Chunker& chunker, const Bytes& bytes, double limit) {
  double best = Cost(chunker, bytes, limit);
  // Others may have disturbed it.
  for (int round = 0; round < 2 && best > limit / 2; ++round) {
    best = std::min(best, Cost(chunker, bytes, limit));
  }
  return best;
}

// How many times the `usual` cost of `random` that of `bytes` is. Where that is too much both are
// measured again, one behind the other: others may have come to use the processor in between.
double BestRatio(const Chunker& chunker, const Bytes& random, const Bytes& bytes, double usual) {
  double best = BestCost(chunker, bytes, kAllowed * usual) / usual;
  for (int round = 0; round < 3 && best > kAllowed; ++round) {
    const double now = Cost(chunker, random, 1e6);
    best = std::min(best, Cost(chunker, bytes, 2 * kAllowed * now) / now);
  }
  return best;
}

Bytes Runs(std::uint64_t seed, std::size_t longest) {
  Random random(seed);
  Bytes bytes;
  while (bytes.size() < kInputBytes) {
    const auto byte = static_cast<std::uint8_t>(random.Next());
    bytes.resize(std::min(kInputBytes, bytes.size() + random.Between(1, longest)), byte);
  }
  return bytes;
}

Bytes Sawtooth(std::size_t step, bool falls) {
  Bytes bytes(kInputBytes);
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    const auto value = static_cast<std::uint8_t>(index / step);
    bytes[index] = falls ? static_cast<std::uint8_t>(~value) : value;
  }
  return bytes;
}

struct Input {
  std::string name;
  Bytes bytes;
};

std::vector<Input> Inputs() {
  std::vector<Input> inputs;
  // Of the bytes whose runs rules treat as something else, some.
  for (const std::uint64_t byte : {0, 32, 77, 128, 255}) {
    inputs.push_back({Cat("a run of ", byte), MakeInput("constant", byte, kInputBytes)});
  }
  for (const std::size_t longest : {100, 100'000}) {
    inputs.push_back({Cat("runs of up to ", longest), Runs(longest, longest)});
  }
  for (const std::size_t step : {1, 16, 16'384}) {
    inputs.push_back({Cat("sawtooth up by ", step), Sawtooth(step, false)});
    inputs.push_back({Cat("sawtooth down by ", step), Sawtooth(step, true)});
  }
  for (const std::uint64_t period : {65, 100, 4'099}) {
    inputs.push_back({Cat("a period of ", period), MakeInput("period", period, kInputBytes)});
  }
  inputs.push_back({"text", MakeInput("text", 1, kInputBytes)});
  inputs.push_back({"sparse", MakeInput("sparse", 1, kInputBytes)});
  return inputs;
}

std::vector<std::string> Profiles(const std::string& algorithm) {
  std::vector<std::string> profiles;
  for (const NamedProfile& named : NamedProfiles()) {
    if (ParseProfile(named.name)->algorithm == ParseProfile(Cat(algorithm, "-8k"))->algorithm) {
      profiles.emplace_back(named.name);
    }
  }
  const auto add = [&](const std::string& keys) { profiles.push_back(Cat(algorithm, ":", keys)); };
  if (algorithm == "mincdc" || algorithm == "maxcdc") {
    for (const char* const max : {"1023", "1024", "4096", "65536", "1048576", "4194304"}) {
      add(Cat("min=64,max=", max));
    }
    add("min=1000,max=4194304");
    add("min=65536,max=4194304");
  } else if (algorithm == "rabin" || algorithm == "tttd" || algorithm == "gear") {
    for (const char* const avg : {"256", "4096", "65536"}) {
      add(Cat("min=64,avg=", avg, ",max=4194304"));
      add(Cat("min=64,avg=", avg, ",max=", avg));
    }
    if (algorithm != "gear") add("min=64,avg=1048576,max=4194304");
  } else if (algorithm == "crc") {
    for (const char* const bits : {"6", "13", "22"}) {
      add(Cat("min=256,bits=", bits, ",max=4194304"));
    }
  } else if (algorithm.starts_with("fastcdc")) {
    for (const char* const avg : {"1024", "65536", "1048576"}) {
      add(Cat("min=64,avg=", avg, ",max=4194304,level=0"));
    }
    add("min=64,avg=1048576,max=4194304,level=3");
  } else if (algorithm == "seqcdc") {
    for (const char* const rest :
         {"length=1,trigger=1,skip=0", "length=255,trigger=65536,skip=0",
          "length=5,trigger=1,skip=1048576", "length=3,trigger=50,skip=256"}) {
      add(Cat("mode=increasing,", rest, ",min=64,max=4194304"));
      add(Cat("mode=decreasing,", rest, ",min=64,max=4194304"));
    }
  } else if (algorithm == "fixed") {
    add("size=64");
  } else {
    for (const char* const window : {"64", "1000", "65536", "1048576"}) {
      add(Cat("window=", window, ",max=4194304"));
    }
  }
  return profiles;
}

class CutCostTest : public testing::TestWithParam<const char*> {};

TEST_P(CutCostTest, NoDataCostsTwentyTimesTheUsual) {
  static const std::vector<Input> inputs = Inputs();
  static const Bytes random = MakeInput("random", 1, kInputBytes);
  const bool is_verbose = std::getenv("KERF_CUT_COST_TABLE") != nullptr;
  for (const std::string& text : Profiles(GetParam())) {
    const auto profile = ParseProfile(text);
    ASSERT_TRUE(profile.ok()) << profile.status();
    const std::unique_ptr<Chunker> chunker = MakeChunker(*profile);
    const double usual = std::min(Cost(*chunker, random, 1e6), Cost(*chunker, random, 1e6));
    double worst = 0;
    std::string worst_name;
    for (const Input& input : inputs) {
      const double ratio = BestRatio(*chunker, random, input.bytes, usual);
      EXPECT_LE(ratio, kAllowed) << text << " on " << input.name << ": so many times the usual "
                                 << usual << " ns a byte";
      if (ratio > worst) {
        worst = ratio;
        worst_name = input.name;
      }
    }
    if (!is_verbose) continue;
    std::printf("| `%s` | %.3f | %.3f | %.1f | %s |\n", text.c_str(), usual, worst * usual, worst,
                worst_name.c_str());
    std::fflush(stdout);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CutCostTest,
                         testing::Values("fixed", "rabin", "tttd", "gear", "crc", "fastcdc",
                                         "fastcdc2020", "ae-max", "ae-min", "ram", "maxp",
                                         "maxp-local", "seqcdc", "mincdc", "maxcdc"));

}  // namespace
}  // namespace kerf
