#include "kernels/cuda/check/check_program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/version.h"
#include "kernels/cuda/bench/gpu_bench.h"
#include "kernels/cuda/bench/gpu_report.h"
#include "kernels/cuda/check/device_fuzz.h"
#include "kernels/cuda/check/device_vectors.h"
#include "kernels/cuda/check/golden_vectors.h"
#include "kernels/cuda/check/red_zones.h"
#include "kernels/cuda/check/time_limit.h"
#include "kernels/cuda/device/open_device.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/pipeline/kernel_loading.h"
#include "kernels/cuda/pipeline/left_out_plans.h"

namespace kerf::cuda {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kFooter[] =
    "Parts, one after another; without any, the first three:\n"
    "  self-test  a megabyte of each algorithm, against the CPU\n"
    "  vectors    the golden vectors of the repository\n"
    "  fuzz       seeded batches and streams, against the CPU, for --seconds\n"
    "  bench      how fast the GPU is, beside one core; results are compared first\n\n"
    "Examples:\n"
    "  gpu_check\n"
    "  gpu_check fuzz --seconds 3600\n"
    "  gpu_check fuzz --seed 1234 --rounds 1                  replays a round\n"
    "  gpu_check bench --json gpu.json\n"
    "  compute-sanitizer gpu_check self-test fuzz --small --rounds 20\n\n"
    "Exit codes: 0 all is well, 1 failure, 2 usage, 5 there is no GPU that can be used,\n"
    "6 the GPU differs from the CPU";

struct Settings {
  std::vector<std::string> parts;
  std::uint32_t device = 0;
  std::uint64_t seconds = 180;
  std::uint64_t seed = 0;
  std::uint64_t rounds = 0;
  bool is_small = false;
  std::string json;
  GpuBenchOptions bench;
};

// Batches of --small: for checkers under which a GPU is a hundred times slower.
constexpr SlotLimits kSmallSlot{.batch_bytes = 256 << 10, .piece_count = 64};

class Program {
 public:
  Program(Settings settings, OpenDevice open, std::ostream& out)
      : settings_(std::move(settings)),
        open_(settings_.is_small ? WithRedZones(std::move(open)) : std::move(open)),
        out_(out) {}

  CheckExit Run() {
    if (const CheckExit code = Greet(); code != CheckExit::kOk) return code;
    for (const std::string& part : settings_.parts) {
      const auto start = std::chrono::steady_clock::now();
      const absl::StatusOr<std::string> result = RunPart(part);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      if (!result.ok()) return Fail(part, result.status());
      out_ << absl::StrFormat("%s: ok%s (%.1f s)\n", part, *result, time.count());
      out_.flush();
    }
    return CheckExit::kOk;
  }

 private:
  // Says what there is.
  CheckExit Greet() {
    const TimeLimit limit("opening the GPU", seconds(60) + LoadLimits().most);
    const auto start = std::chrono::steady_clock::now();
    const auto device = OpenLoaded(open_);
    if (!device.ok()) {
      std::cerr << Cat("gpu_check: there is no GPU that can be used: ", MessageOf(device.status()),
                       "\n");
      return CheckExit::kNoDevice;
    }
    info_ = (*device)->info();
    out_ << absl::StrFormat("gpu_check %s: %s, %.1f GiB\n", ToAbsl(kVersion), info_.name,
                            static_cast<double>(info_.memory_bytes) / (1 << 30));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    if (time > LoadLimits().unnoticed) {
      out_ << absl::StrFormat("opening it and loading its kernels took %.1f s\n", time.count());
    }
    out_.flush();
    return CheckExit::kOk;
  }

  absl::StatusOr<std::string> RunPart(const std::string& part) {
    if (part == "self-test") return SelfTest();
    if (part == "vectors") return Vectors();
    if (part == "fuzz") return Fuzz();
    return RunBench();
  }

  CheckExit Fail(const std::string& part, const absl::Status& status) {
    out_ << absl::StrFormat("%s: FAILED: %s\n", part, status.message());
    if (part == "fuzz") {
      const char* const small = settings_.is_small ? " --small" : "";
      out_ << absl::StrFormat(
          "replay the round: gpu_check fuzz%s --seed %d --rounds 1\n"
          "all of them:      gpu_check fuzz%s --seed %d --rounds %d\n",
          small, settings_.seed + counters_.round_count, small, settings_.seed,
          counters_.round_count + 1);
    }
    out_.flush();
    return absl::IsDataLoss(status) ? CheckExit::kDiffers : CheckExit::kFailed;
  }

  GpuCutterOptions CutterOptions() const {
    GpuCutterOptions options;
    if (settings_.is_small) options.slot = kSmallSlot;
    options.batch_timeout = BatchTimeout();
    options.audit_period = 0;
    options.min_piece_bytes = 0;
    return options;
  }

  // That of kerfd, which would lose the GPU.
  milliseconds BatchTimeout() const {
    return settings_.is_small ? seconds(120) : GpuCutterOptions().batch_timeout;
  }

  absl::StatusOr<std::string> SelfTest() {
    const TimeLimit limit("self-test", seconds(settings_.is_small ? 300 : 60));
    auto device = open_();
    if (!device.ok()) return device.status();
    GpuCutterOptions options = CutterOptions();
    // What kerfd would measure.
    if (!settings_.is_small) options.min_piece_bytes = std::nullopt;
    const auto cutter = GpuCutter::Start(*std::move(device), options);
    if (!cutter.ok()) return cutter.status();
    const std::string left_out = LeftOutText((*cutter)->left_out());
    if (settings_.is_small) return left_out;
    const std::size_t from_bytes = (*cutter)->min_piece_bytes();
    if (from_bytes == SIZE_MAX) {
      return Cat(", a core of the CPU is faster for pieces of any size", left_out);
    }
    return Cat(", faster than a core of the CPU for pieces from ", from_bytes, " bytes", left_out);
  }

  static std::string LeftOutText(const LeftOutPlans& left_out) {
    return left_out.is_empty() ? "" : Cat(", left to the CPU: ", left_out.Text());
  }

  absl::StatusOr<std::string> Vectors() {
    const TimeLimit limit("vectors", seconds(120));
    GpuCutterOptions options = CutterOptions();
    // Of the golden inputs the largest must fit.
    options.slot.batch_bytes = std::max<std::size_t>(options.slot.batch_bytes, 2 << 20);
    const auto count = CheckDeviceVectors(open_, options, GoldenVectors());
    if (!count.ok()) return count.status();
    return Cat(", ", *count, " cases");
  }

  absl::StatusOr<std::string> Fuzz() {
    FuzzOptions options;
    options.seed = settings_.seed;
    options.batch_timeout = BatchTimeout();
    options.max_time = seconds(settings_.seconds);
    if (settings_.rounds > 0) options.max_round_count = settings_.rounds;
    if (settings_.is_small) options.slot = kSmallSlot;
    const TimeLimit limit("fuzz", options.max_time + 2 * options.batch_timeout + seconds(60));
    const absl::Status status = RunDeviceFuzz(open_, options, counters_);
    if (!status.ok()) return status;
    return Cat(", ", counters_.round_count, " rounds from seed ", options.seed, ", ",
               counters_.piece_count, " pieces, ",
               absl::StrFormat("%.3f GB", static_cast<double>(counters_.byte_count) / 1e9), "; ",
               counters_.cpu_piece_count, " pieces were left to the CPU");
  }

  absl::StatusOr<std::string> RunBench() {
    const TimeLimit limit("bench", seconds(settings_.is_small ? 120 : 240));
    GpuBenchOptions options = settings_.bench;
    if (settings_.is_small) {
      options.timeout = BatchTimeout();
      options.kernel_bytes = {64 << 10};
      options.batch_bytes = {64 << 10};
      options.copy_bytes = {64 << 10};
      options.rounds = 1;
      options.round_time = std::chrono::microseconds(1);
    }
    nlohmann::json figures = nlohmann::json::array();
    out_ << GpuFigureHeading() << "\n";
    const std::atomic<bool> cancelled{false};
    const auto left_out = RunGpuBench(open_, options, cancelled, [&](const GpuFigure& figure) {
      out_ << GpuFigureLine(figure) << std::endl;
      figures.push_back(GpuFigureJson(figure));
      if (!settings_.json.empty()) WriteFigures(figures, /*is_whole=*/false);
    });
    if (!left_out.ok()) return left_out.status();
    if (settings_.json.empty()) return LeftOutText(*left_out);
    if (!WriteFigures(figures, /*is_whole=*/true)) {
      return absl::UnknownError(Cat(settings_.json, " cannot be written"));
    }
    return Cat(", ", settings_.json, " is written", LeftOutText(*left_out));
  }

  // All that there are so far: of a run that is ended, or loses its GPU, they stay. In the place of
  // what was there, so that there is never half a file.
  bool WriteFigures(const nlohmann::json& figures, bool is_whole) const {
    const nlohmann::json all = {{"benchmark", "gpu"},   {"version", kVersion},
                                {"device", info_.name}, {"device_memory_bytes", info_.memory_bytes},
                                {"is_whole", is_whole}, {"figures", figures}};
    const std::string made = settings_.json + ".new";
    std::ofstream file(made);
    file << all.dump(1) << std::endl;
    return file && std::rename(made.c_str(), settings_.json.c_str()) == 0;
  }

  const Settings settings_;
  const OpenDevice open_;
  std::ostream& out_;
  DeviceInfo info_;
  FuzzCounters counters_;
};

}  // namespace

CheckExit RunCheckProgram(int argc, const char* const* argv, const OpenNumber& open,
                          std::ostream& out) {
  CLI::App app("Holds the GPU of this machine against the CPU", "gpu_check");
  Settings settings;
  settings.parts = {"self-test", "vectors", "fuzz"};
  app.add_option("parts", settings.parts)
      ->check(CLI::IsMember({"self-test", "vectors", "fuzz", "bench"}))
      ->type_name("PART");
  app.add_option("--device", settings.device, "Its number")->capture_default_str();
  app.add_option("--seconds", settings.seconds, "How long to fuzz")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds, "End the fuzzing behind so many rounds; 0: never");
  const auto* const seed = app.add_option("--seed", settings.seed, "Else another one each time");
  app.add_flag("--small", settings.is_small,
               "Small batches, for slow checkers, and memory between arrays that stays as it is");
  app.add_option("--json", settings.json, "Where the figures of bench go too")->type_name("FILE");
  app.add_option("--profiles", settings.bench.profiles, "What bench measures")
      ->type_name("PROFILE")
      ->delimiter(',');
  app.add_option("--kernel-sizes", settings.bench.kernel_bytes,
                 "Bytes of batches for kernels alone")
      ->delimiter(',');
  app.add_option("--batch-sizes", settings.bench.batch_bytes, "Bytes of batches, copies included")
      ->delimiter(',');
  app.add_option("--copy-sizes", settings.bench.copy_bytes, "Bytes of copies")->delimiter(',');
  app.set_version_flag("--version", Cat("gpu_check ", kVersion));
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? CheckExit::kOk : CheckExit::kUsage;
  }
  if (seed->count() == 0) settings.seed = std::random_device()();
  const std::uint32_t number = settings.device;
  return Program(std::move(settings), [&open, number] { return open(number); }, out).Run();
}

}  // namespace kerf::cuda
