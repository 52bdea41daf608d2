#include "client/lab/analyze/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/cli/progress_display.h"
#include "client/cli/reporter.h"
#include "kernels/profile.h"

namespace kerf::agent::analyze {
namespace {

using nlohmann::json;

// Longer lists of parts are cut in the middle.
constexpr std::size_t kShownParts = 24;

// "7.9K": narrow, for columns.
std::string Narrow(double bytes) {
  if (bytes < 1024) return absl::StrFormat("%.0f", bytes);
  if (bytes < 10 * 1024) return absl::StrFormat("%.1fK", bytes / 1024);
  if (bytes < 1024 * 1024) return absl::StrFormat("%.0fK", bytes / 1024);
  return absl::StrFormat("%.1fM", bytes / (1024 * 1024));
}

std::string Size(double bytes) { return FormatByteSize(static_cast<std::uint64_t>(bytes)); }

// The name that the profile has of its own; empty if it has none.
std::string NameOf(const std::string& canonical) {
  for (const NamedProfile& named : NamedProfiles()) {
    if (named.parameters == canonical) return std::string(named.name);
  }
  return "";
}

// Chunks that a small edit sends anew, in averages of the profile.
double ResyncChunks(const ProfileFigures& figures) {
  const double average = figures.count.average_bytes();
  return average == 0 ? 0 : figures.resync.mean_bytes / average;
}

std::string TableLine(const ProfileFigures& figures) {
  const SizeDistribution& sizes = figures.count.sizes;
  const std::string equal = figures.savings_at_equal_average.has_value()
                                ? absl::StrFormat("%s%.2f", figures.equal_is_bound ? ">" : "",
                                                  100 * *figures.savings_at_equal_average)
                                : "-";
  // It looks at no byte: a speed would only mislead.
  const bool is_fixed = figures.algorithm == "fixed";
  return absl::StrFormat(
      "%-14s %7.2f %6s %6s %7s %6s %6s %6s %5s %7.1f %5s %9s %6.2f  %s", figures.algorithm,
      100 * figures.count.savings(), equal,
      figures.wanted_bytes == 0 ? "-" : Narrow(figures.calibrated_bytes),
      Narrow(figures.count.average_bytes()), Narrow(sizes.p5_bytes), Narrow(sizes.p50_bytes),
      Narrow(sizes.p95_bytes),
      is_fixed ? "-" : absl::StrFormat("%.1f", figures.speed.cut_bytes_per_second / 1e9),
      figures.speed.hashed_bytes_per_second / 1e9,
      is_fixed ? "-" : absl::StrFormat("%.2f", figures.speed.share_of_fingerprint()),
      Size(figures.index_memory_bytes_per_tib()), ResyncChunks(figures), figures.profile);
}

void AddTable(const std::vector<ProfileFigures>& all, std::uint64_t wanted, std::string_view digest,
              std::vector<std::string>& lines) {
  std::vector<const ProfileFigures*> rows;
  for (const ProfileFigures& figures : all) {
    if (figures.wanted_bytes == wanted) rows.push_back(&figures);
  }
  if (rows.empty()) return;
  lines.emplace_back();
  if (wanted == 0) {
    lines.emplace_back("Profiles that you named:");
  } else {
    lines.push_back(Cat("Made for chunks of ", FormatByteSize(wanted), "; `equal`: savings at ",
                        Size(rows.front()->compared_at_bytes), ", the median of what they are:"));
  }
  lines.push_back(absl::StrFormat("%-14s %7s %6s %6s %7s %6s %6s %6s %5s %7s %5s %9s %6s  %s",
                                  "algorithm", "saved %", "equal", "stream", "average", "5%", "50%",
                                  "95%", "GB/s", Cat("+", digest.substr(0, 6)), "share",
                                  "index/TiB", "resent", "profile"));
  // Equal ones as they are in `all`; std::stable_sort does not compile with clang here.
  const auto key = [](const ProfileFigures* row) {
    return std::pair(-row->savings_at_equal_average.value_or(-1), row);
  };
  std::sort(rows.begin(), rows.end(),
            [&](const auto* left, const auto* right) { return key(left) < key(right); });
  for (const ProfileFigures* row : rows) lines.push_back(TableLine(*row));
}

void AddWhatWasRead(const Corpus& corpus, const Analysis& analysis,
                    std::vector<std::string>& lines) {
  lines.push_back(Cat(FormatCounted(corpus.files.size(), "file"), ", ",
                      FormatByteSize(corpus.size_bytes), ", in ",
                      FormatCounted(corpus.parts.size(), "part")));
  if (corpus.is_sample()) {
    lines.push_back(Cat("This is a SAMPLE of ", FormatCounted(corpus.found_file_count, "file"),
                        ", ", FormatByteSize(corpus.found_bytes),
                        ": --max-bytes allows no more. Savings of all data may differ."));
    if (corpus.shortened_file_count > 0) {
      lines.push_back(Cat("Of ", FormatCounted(corpus.shortened_file_count, "file"),
                          " only the front is in it."));
    }
  }
  lines.push_back(absl::StrFormat("Equal whole files alone save %.2f %%.",
                                  100 * analysis.whole_files.savings()));
}

void AddParts(const Corpus& corpus, const Analysis& analysis, std::vector<std::string>& lines) {
  if (corpus.parts.size() < 2) return;
  lines.emplace_back();
  lines.emplace_back("What each part adds to those before it, with the recommended profile:");
  lines.push_back(absl::StrFormat("%12s %12s %7s  %s", "bytes", "new", "new %", "part"));
  for (std::size_t part = 0; part < corpus.parts.size(); ++part) {
    if (corpus.parts.size() > kShownParts && part >= kShownParts / 2 &&
        part < corpus.parts.size() - kShownParts / 2) {
      if (part == kShownParts / 2) lines.emplace_back("         ... (all with --json)");
      continue;
    }
    const json object = PartJson(corpus, analysis, part);
    const auto bytes = object["bytes"].get<std::uint64_t>();
    const auto new_bytes = object["new_bytes"].get<std::uint64_t>();
    const double share =
        bytes == 0 ? 0 : 100 * static_cast<double>(new_bytes) / static_cast<double>(bytes);
    lines.push_back(absl::StrFormat("%12s %12s %7.2f  %s", FormatByteSize(bytes),
                                    FormatByteSize(new_bytes), share,
                                    Printable(corpus.parts[part])));
  }
}

}  // namespace

std::vector<std::string> ReportLines(const Corpus& corpus, const AnalysisOptions& options,
                                     const Analysis& analysis) {
  std::vector<std::string> lines;
  AddWhatWasRead(corpus, analysis, lines);
  for (const std::uint64_t wanted : options.averages) {
    AddTable(analysis.figures, wanted, DigestAlgorithmName(options.digest), lines);
  }
  AddTable(analysis.figures, 0, DigestAlgorithmName(options.digest), lines);
  AddParts(corpus, analysis, lines);
  const ProfileFigures& chosen = analysis.figures[analysis.recommendation.index];
  const std::string name = NameOf(chosen.profile);
  lines.emplace_back();
  lines.push_back(
      Cat("Recommended: --profile ", chosen.profile, name.empty() ? "" : Cat("  (", name, ")")));
  for (const std::string& reason : analysis.recommendation.reasons) {
    lines.push_back(Cat("  ", reason));
  }
  return lines;
}

json FigureJson(const ProfileFigures& figures) {
  const CountFigures& count = figures.count;
  json histogram = json::array();
  for (const SizeDistribution::Step& step : count.sizes.histogram) {
    histogram.push_back({{"up_to_bytes", step.up_to_bytes}, {"chunks", step.chunk_count}});
  }
  json object = {
      {"algorithm", figures.algorithm},
      {"profile", figures.profile},
      {"wanted_average_bytes", figures.wanted_bytes},
      {"average_chunk_bytes", count.average_bytes()},
      {"stream_average_bytes", figures.calibrated_bytes},
      {"total_bytes", count.total_bytes},
      {"unique_bytes", count.unique_bytes},
      {"chunks", count.chunk_count},
      {"unique_chunks", count.unique_chunk_count},
      {"savings", count.savings()},
      {"net_savings", figures.net_savings()},
      {"compared_at_bytes", figures.compared_at_bytes},
      {"savings_at_equal_average", nullptr},
      {"equal_is_bound", figures.equal_is_bound},
      {"sizes",
       {{"min", count.sizes.min_bytes},
        {"p5", count.sizes.p5_bytes},
        {"p25", count.sizes.p25_bytes},
        {"p50", count.sizes.p50_bytes},
        {"p75", count.sizes.p75_bytes},
        {"p95", count.sizes.p95_bytes},
        {"max", count.sizes.max_bytes}}},
      {"histogram", std::move(histogram)},
      {"backend", figures.speed.backend},
      {"bytes_per_second", figures.speed.cut_bytes_per_second},
      {"hashed_bytes_per_second", figures.speed.hashed_bytes_per_second},
      {"ceiling_bytes_per_second", figures.speed.ceiling_bytes_per_second},
      {"share_of_ceiling", figures.speed.share_of_ceiling()},
      {"fingerprint_bytes_per_second", figures.speed.fingerprint_bytes_per_second},
      {"share_of_fingerprint", figures.speed.share_of_fingerprint()},
      {"index_memory_bytes_per_tib", figures.index_memory_bytes_per_tib()},
      {"memory_index_bytes_per_tib", figures.BytesPerTib(kMemoryIndexBytesPerChunk)},
      {"resync",
       {{"edits", figures.resync.edit_count},
        {"insert_bytes", figures.resync.insert_bytes},
        {"delete_bytes", figures.resync.delete_bytes},
        {"overwrite_bytes", figures.resync.overwrite_bytes},
        {"mean_bytes", figures.resync.mean_bytes},
        {"mean_chunks", ResyncChunks(figures)}}},
  };
  if (figures.savings_at_equal_average.has_value()) {
    object["savings_at_equal_average"] = *figures.savings_at_equal_average;
  }
  return object;
}

json RecommendationJson(const Analysis& analysis) {
  json best = json::array();
  for (const std::size_t index : analysis.recommendation.best_at_each_average) {
    best.push_back({{"wanted_average_bytes", analysis.figures[index].wanted_bytes},
                    {"profile", analysis.figures[index].profile}});
  }
  const ProfileFigures& chosen = analysis.figures[analysis.recommendation.index];
  return {{"profile", chosen.profile},
          {"wanted_average_bytes", chosen.wanted_bytes},
          {"reasons", analysis.recommendation.reasons},
          {"best_at_each_average", std::move(best)}};
}

json PartJson(const Corpus& corpus, const Analysis& analysis, std::size_t part) {
  std::uint64_t bytes = 0;
  std::uint64_t file_count = 0;
  for (const CorpusFile& file : corpus.files) {
    if (file.part != part) continue;
    bytes += file.length_bytes;
    ++file_count;
  }
  const ProfileFigures& chosen = analysis.figures[analysis.recommendation.index];
  json object = {
      {"files", file_count}, {"bytes", bytes}, {"new_bytes", chosen.count.new_bytes_by_part[part]}};
  PutBytes(object, "part", corpus.parts[part]);
  return object;
}

json SummaryJson(const Corpus& corpus, const Analysis& analysis) {
  return {{"figures", analysis.figures.size()},
          {"files", corpus.files.size()},
          {"total_bytes", corpus.size_bytes},
          {"parts", corpus.parts.size()},
          {"sample", corpus.is_sample()},
          {"found_files", corpus.found_file_count},
          {"found_bytes", corpus.found_bytes},
          {"shortened_files", corpus.shortened_file_count},
          {"whole_file_savings", analysis.whole_files.savings()}};
}

}  // namespace kerf::agent::analyze
