#include "client/lab/bench/rapid/rapid_report.h"

#include <numeric>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/strings.h"
#include "base/units.h"
#include "base/version.h"

namespace kerf::bench {
namespace {

using nlohmann::json;

std::string_view HintKindName(HintKind kind) {
  switch (kind) {
    case HintKind::kNone:
      return "none";
    case HintKind::kSizes:
      return "sizes";
    case HintKind::kRuns:
      return "runs";
  }
  return "none";
}

json SpeedJson(const Speed& speed) {
  return {{"bytes_per_second", speed.bytes_per_second},
          {"times_regular", speed.times_regular},
          {"series_times_regular", speed.series_times_regular}};
}

// "98.1 1.2", shares of all hits by size lists in percent; "-" where there are no lists.
std::string Hits(const ModeFigures& figures) {
  const auto& hits = figures.facts.counters.hits_by_position;
  const std::uint64_t sum = std::accumulate(hits.begin(), hits.end(), std::uint64_t{0});
  if (sum == 0) return "-";
  std::string text;
  for (std::size_t position = 0; position < figures.mode.list_length; ++position) {
    const double share = static_cast<double>(hits[position]) / static_cast<double>(sum);
    text += absl::StrFormat("%s%.2f", position == 0 ? "" : " ", 100 * share);
  }
  return text;
}

std::string Label(const RapidMode& mode) {
  return Cat(mode.name, mode.is_worst_case ? ", all fail" : "");
}

}  // namespace

json RapidFigureJson(const Series& series, const std::string& profile_name, const Profile& profile,
                     const ModeFigures& figures) {
  const RapidCounters& counters = figures.facts.counters;
  const bool has_lists = figures.mode.hints == HintKind::kSizes;
  return {{"series", series.name},
          {"name", profile_name},
          {"profile", FormatProfile(profile)},
          {"mode", figures.mode.name},
          {"hints", std::string(HintKindName(figures.mode.hints))},
          {"list_length", has_lists ? json(figures.mode.list_length) : json(nullptr)},
          {"all_fail", figures.mode.is_worst_case},
          {"cut", SpeedJson(figures.cut)},
          {"cut_hash_look_up", SpeedJson(figures.all)},
          {"total_bytes", figures.facts.total_bytes},
          {"unique_bytes", figures.facts.unique_bytes},
          {"deduplication_ratio", figures.deduplication_ratio()},
          {"chunks", figures.facts.chunk_count},
          {"later_bytes", figures.facts.later_bytes},
          {"later_duplicate_share", figures.later_duplicate_share()},
          {"later_scanned_share", figures.later_scanned_share()},
          {"hints_accepted", counters.hints_accepted},
          {"hints_rejected", counters.hints_rejected},
          {"hints_absent", counters.hints_absent},
          {"hits_by_position", counters.hits_by_position},
          {"checked", true}};
}

std::vector<std::string> RapidTable(const Series& series, const std::string& profile_name,
                                    const std::vector<ModeFigures>& all_figures) {
  std::vector<std::string> lines;
  lines.push_back("");
  lines.push_back(absl::StrFormat("%s, %s; %.2f %% of later versions are duplicates", profile_name,
                                  series.name, 100 * all_figures[0].later_duplicate_share()));
  lines.push_back("                          cutting alone         cut, hash, look up");
  lines.push_back(
      "mode                  hints     GB/s  times  series   GB/s  times  series   ratio  scanned "
      "%  hits by place %");
  for (const ModeFigures& figures : all_figures) {
    const bool has_lists = figures.mode.hints == HintKind::kSizes;
    const std::string hints =
        Cat(HintKindName(figures.mode.hints), has_lists ? Cat(" ", figures.mode.list_length) : "");
    lines.push_back(absl::StrFormat(
        "%-21s %-8s %6.1f %6.2f %7.2f %6.2f %6.2f %7.2f %7.3f %10.2f  %s", Label(figures.mode),
        hints, figures.cut.bytes_per_second / 1e9, figures.cut.times_regular,
        figures.cut.series_times_regular, figures.all.bytes_per_second / 1e9,
        figures.all.times_regular, figures.all.series_times_regular, figures.deduplication_ratio(),
        100 * figures.later_scanned_share(), Hits(figures)));
  }
  return lines;
}

json RapidRunJson(const Machine& machine) {
  return {{"benchmark", "rapid"},
          {"version", std::string(kVersion)},
          {"date", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone())},
          {"machine",
           {{"cpu", machine.cpu_model}, {"cores", machine.core_count}, {"load", machine.load}}}};
}

std::string RapidRunLine(const Machine& machine, const RapidOptions& options) {
  return absl::StrFormat("%s, %d cores, load %.1f; %s, medians of %d rounds; one thread",
                         machine.cpu_model, machine.core_count, machine.load,
                         ToAbsl(DigestAlgorithmName(options.digest)), options.rounds);
}

}  // namespace kerf::bench
