#include "client/lab/bench/report.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/strings.h"
#include "base/units.h"
#include "base/version.h"

namespace kerf::bench {
namespace {

using nlohmann::json;

// What kerfd may cost, as a multiple of the raw stream and of cutting and hashing together.
constexpr double kGoalRatio = 1.25;

// Of the rate straight to kerfd, what must come through a front.
constexpr double kFrontGoalShare = 0.85;

// CPU seconds a GB that client and server together may take where the client cuts.
constexpr double kLocalCutGoal = 0.6;
constexpr double kSharedGoalGain = 2.5;

json Optional(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

struct GroupFigures {
  RowFigures kernels;
  RowFigures raw;
  RowFigures kerfd;
  std::optional<RowFigures> front;
  std::optional<double> front_share;
  std::optional<RowFigures> shared;
  std::optional<double> shared_gain;
  std::optional<RowFigures> local_cut;
  std::vector<double> ratios;
  std::optional<double> ratio;
  Wall wall = Wall::kUnknown;
};

GroupFigures FiguresOf(const StreamGroup& group, const Machine& machine) {
  GroupFigures figures;
  figures.kernels = Summarize(group.costs.kernels);
  figures.raw = Summarize(group.costs.raw);
  figures.kerfd = Summarize(group.costs.kerfd);
  if (!group.costs.front.empty()) {
    figures.front = Summarize(group.costs.front);
    figures.front_share = Median(FrontShares(group.costs));
  }
  if (!group.costs.shared.empty()) figures.shared = Summarize(group.costs.shared);
  const std::vector<double> gains = SharedGains(group.costs);
  if (!gains.empty()) figures.shared_gain = Median(gains);
  if (!group.costs.local_cut.empty()) figures.local_cut = Summarize(group.costs.local_cut);
  figures.ratios = CostRatios(group.costs);
  if (!figures.ratios.empty()) figures.ratio = Median(figures.ratios);
  figures.wall = FindWall({.kernels = figures.kernels,
                           .raw = figures.raw,
                           .kerfd = figures.kerfd,
                           .stream_count = group.stream_count,
                           .core_count = machine.core_count});
  return figures;
}

json RowJson(std::string_view what, const RowFigures& row, const std::vector<PassCost>& passes) {
  json rounds = json::array();
  for (const PassCost& pass : passes) {
    rounds.push_back({{"seconds", pass.seconds},
                      {"client_cpu_seconds", pass.client_cpu_seconds},
                      {"server_cpu_seconds", Optional(pass.server_cpu_seconds)}});
  }
  return {{"what", std::string(what)},
          {"bytes", passes.front().bytes},
          {"seconds", row.seconds},
          {"mb_per_second", row.mb_per_second},
          {"client_cpu_seconds_per_gb", row.client_cpu_per_gb},
          {"server_cpu_seconds_per_gb", Optional(row.server_cpu_per_gb)},
          {"cpu_seconds_per_gb", Optional(row.cpu_per_gb)},
          {"rounds", std::move(rounds)}};
}

json GroupJson(const StreamGroup& group, const Machine& machine) {
  const GroupFigures figures = FiguresOf(group, machine);
  const StreamPass& upload = group.last_upload;
  json rows = json::array({RowJson("cut_and_hash", figures.kernels, group.costs.kernels),
                           RowJson("raw", figures.raw, group.costs.raw),
                           RowJson("kerfd", figures.kerfd, group.costs.kerfd)});
  if (figures.front) rows.push_back(RowJson("front", *figures.front, group.costs.front));
  if (figures.shared) {
    rows.push_back(RowJson("shared_memory", *figures.shared, group.costs.shared));
  }
  if (figures.local_cut) {
    rows.push_back(RowJson("local_cut", *figures.local_cut, group.costs.local_cut));
  }
  return {{"streams", group.stream_count},
          {"kernel_threads", group.thread_count},
          {"rows", std::move(rows)},
          {"front_share", Optional(figures.front_share)},
          {"front_shares", FrontShares(group.costs)},
          {"shared_gain", Optional(figures.shared_gain)},
          {"shared_gains", SharedGains(group.costs)},
          {"ratio", Optional(figures.ratio)},
          {"ratios", figures.ratios},
          {"goal_met", figures.ratio ? json(*figures.ratio <= kGoalRatio) : json(nullptr)},
          {"wall", std::string(WallName(figures.wall))},
          {"chunks", upload.chunk_count},
          {"duplicate_chunks", upload.duplicate_chunk_count},
          {"answer_messages", upload.answer_message_count},
          {"answer_bytes", upload.answer_bytes}};
}

json MemoryJson(const MemoryFigures& memory) {
  json object = {{"empty_bytes", memory.empty_bytes}};
  if (memory.idle_streams > 0) {
    object["idle"] = {{"streams", memory.idle_streams},
                      {"resident_bytes", memory.idle_bytes},
                      {"bytes_per_stream", memory.idle_bytes_per_stream()}};
  }
  if (memory.busy_streams > 0) {
    object["busy"] = {{"streams", memory.busy_streams},
                      {"peak_resident_bytes", memory.busy_peak_bytes},
                      {"bytes_per_stream", memory.busy_bytes_per_stream()}};
  }
  return object;
}

std::string Transport(const ServiceOptions& options) {
  if (!options.server.empty()) return options.server;
  return options.tcp ? "loopback TCP" : "unix socket";
}

std::string IndexName(const ServiceOptions& options) {
  return options.server.empty() ? "rocksdb" : "the server's";
}

std::string Number(const std::optional<double>& value) {
  return value ? absl::StrFormat("%.3f", *value) : "unknown";
}

std::string RowLine(std::uint32_t streams, std::string_view what, const RowFigures& row,
                    bool has_server) {
  return absl::StrFormat("%7d  %-13s %8.0f %9.3f %9s %9s", streams, ToAbsl(what), row.mb_per_second,
                         row.client_cpu_per_gb, has_server ? Number(row.server_cpu_per_gb) : "-",
                         Number(row.cpu_per_gb));
}

std::string WallText(Wall wall) {
  std::string name(WallName(wall));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

void AddMemoryLines(const MemoryFigures& memory, std::vector<std::string>& lines) {
  lines.push_back("");
  lines.push_back(
      Cat("resident memory of kerfd: ", FormatByteSize(memory.empty_bytes), " without streams"));
  if (memory.idle_streams > 0) {
    lines.push_back(absl::StrFormat("%7d  idle streams  %s, %s each", memory.idle_streams,
                                    FormatByteSize(memory.idle_bytes),
                                    FormatByteSize(memory.idle_bytes_per_stream())));
  }
  if (memory.busy_streams > 0) {
    lines.push_back(absl::StrFormat("%7d  busy streams  %s at most, %s each", memory.busy_streams,
                                    FormatByteSize(memory.busy_peak_bytes),
                                    FormatByteSize(memory.busy_bytes_per_stream())));
  }
}

}  // namespace

json ReportJson(const ServiceOptions& options, const ServiceResult& result) {
  json groups = json::array();
  for (const StreamGroup& group : result.groups) groups.push_back(GroupJson(group, result.machine));
  return {{"benchmark", "service"},
          {"version", std::string(kVersion)},
          {"date", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone())},
          {"machine",
           {{"cpu", result.machine.cpu_model},
            {"cores", result.machine.core_count},
            {"load", result.machine.load}}},
          {"settings",
           {{"profile", FormatProfile(options.profile)},
            {"digest", std::string(DigestAlgorithmName(options.digest))},
            {"bytes_per_pass", options.pass_bytes},
            {"rounds", options.rounds},
            {"message_bytes", options.message_bytes},
            {"duplicate_percent", options.duplicate_percent},
            {"transport", Transport(options)},
            {"index", IndexName(options)},
            {"seed", options.seed}}},
          {"streams", std::move(groups)},
          {"goal_ratio", kGoalRatio},
          {"front_goal_share", kFrontGoalShare},
          {"shared_goal_gain", kSharedGoalGain},
          {"local_cut_goal", kLocalCutGoal},
          {"checked_chunks", result.checked_chunk_count},
          {"memory", result.memory ? MemoryJson(*result.memory) : json(nullptr)}};
}

std::vector<std::string> ReportLines(const ServiceOptions& options, const ServiceResult& result) {
  std::vector<std::string> lines;
  lines.push_back(absl::StrFormat("%s, %d cores, load %.1f", result.machine.cpu_model,
                                  result.machine.core_count, result.machine.load));
  lines.push_back(
      absl::StrFormat("%s, %s, %s a pass, %d%% duplicate, medians of %d rounds, %s, index: %s",
                      FormatProfile(options.profile), ToAbsl(DigestAlgorithmName(options.digest)),
                      FormatByteSize(options.pass_bytes), options.duplicate_percent, options.rounds,
                      Transport(options), IndexName(options)));
  lines.push_back("");
  lines.push_back("                                   CPU seconds per GB");
  lines.push_back("streams  what              MB/s    client    server     total");
  for (const StreamGroup& group : result.groups) {
    const GroupFigures figures = FiguresOf(group, result.machine);
    lines.push_back(RowLine(group.stream_count, "cut and hash", figures.kernels, false));
    lines.push_back(RowLine(group.stream_count, "raw gRPC", figures.raw, true));
    lines.push_back(RowLine(group.stream_count, "kerfd", figures.kerfd, true));
    if (figures.front) {
      lines.push_back(RowLine(group.stream_count, "through front", *figures.front, true));
      lines.push_back(
          absl::StrFormat("         rate through the front / straight: %.2f (goal %.2f)",
                          *figures.front_share, kFrontGoalShare));
    }
    if (figures.shared) {
      lines.push_back(RowLine(group.stream_count, "shared memory", *figures.shared, true));
      lines.push_back(
          Cat("         bytes a CPU second of the transport / the raw stream's: ",
              figures.shared_gain
                  ? absl::StrFormat("%.2f (goal %.2f)", *figures.shared_gain, kSharedGoalGain)
                  : "unknown"));
    }
    if (figures.local_cut) {
      lines.push_back(RowLine(group.stream_count, "local cut", *figures.local_cut, true));
      lines.push_back(absl::StrFormat("         CPU seconds per GB of a local cut: %s (goal %.2f)",
                                      Number(figures.local_cut->cpu_per_gb), kLocalCutGoal));
    }
    lines.push_back(Cat(
        "         kerfd / (raw gRPC + cut and hash): ",
        figures.ratio ? absl::StrFormat("%.2f (goal %.2f)", *figures.ratio, kGoalRatio) : "unknown",
        "; the wall: ", WallText(figures.wall)));
  }
  if (result.memory.has_value()) AddMemoryLines(*result.memory, lines);
  return lines;
}

}  // namespace kerf::bench
