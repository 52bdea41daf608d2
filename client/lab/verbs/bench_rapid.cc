#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/cli/cut_flags.h"
#include "client/lab/analyze/corpus_reader.h"
#include "client/lab/bench/process_costs.h"
#include "client/lab/bench/rapid/rapid_bench.h"
#include "client/lab/bench/rapid/rapid_report.h"
#include "client/lab/verbs/lab_runs.h"

namespace kerf::agent {
namespace {

using bench::RapidOptions;
using bench::Series;

constexpr std::uint64_t kMinSizeBytes = 64 * kKiB;
constexpr std::uint64_t kMaxSizeBytes = 4 * kGiB;
constexpr std::uint64_t kMaxMaxBytes = kTiB;
constexpr std::uint64_t kMaxEdits = 1'000'000;

struct NamedProfile {
  std::string name;
  Profile profile;
};

struct RapidInput {
  std::vector<NamedProfile> profiles;
  RapidOptions options;
  std::uint64_t size_bytes = 0;
  std::uint64_t max_bytes = 0;
};

absl::StatusOr<RapidInput> ReadInput(const RapidFlags& flags) {
  RapidInput input;
  for (const std::string& name : flags.profiles) {
    KERF_ASSIGN_OR_RETURN(const Profile profile, ParseProfile(name));
    input.profiles.push_back({name, profile});
  }
  KERF_ASSIGN_OR_RETURN(input.options.digest, ParseDigestFlag(flags.digest));
  input.options.rounds = flags.rounds;
  KERF_ASSIGN_OR_RETURN(input.size_bytes,
                        ParseSizeFlag("--size", flags.size, kMinSizeBytes, kMaxSizeBytes));
  KERF_ASSIGN_OR_RETURN(input.max_bytes,
                        ParseSizeFlag("--max-bytes", flags.max_bytes, kMinSizeBytes, kMaxMaxBytes));
  for (const std::uint64_t edits : flags.edits) {
    if (edits <= kMaxEdits) continue;
    return absl::InvalidArgumentError(
        Cat("--edits is ", edits, ": it must be at most ", kMaxEdits));
  }
  return input;
}

EditKinds ParseKinds(const std::string& text) {
  if (text == "overwrite") return EditKinds::kOverwrite;
  return text == "insert-delete" ? EditKinds::kInsertDelete : EditKinds::kMixed;
}

// Prints what it measures as soon as it is there.
class RapidRun {
 public:
  RapidRun(Context& context, const RapidFlags& flags, const RapidInput& input)
      : context_(context), flags_(flags), input_(input) {}

  std::uint64_t figure_count() const { return figure_count_; }
  std::uint64_t series_count() const { return series_count_; }

  absl::Status MeasureMade() {
    for (std::size_t index = 0; index < flags_.edits.size(); ++index) {
      KERF_RETURN_IF_ERROR(MeasureEdits(flags_.edits[index], 1.0, index == 0));
    }
    if (flags_.cluster_percent == 0) return absl::OkStatus();
    return MeasureEdits(flags_.edits[0], flags_.cluster_percent / 100.0, false);
  }

  absl::Status MeasureVersions() {
    analyze::ReadOptions read;
    read.paths = flags_.versions;
    read.max_bytes = input_.max_bytes;
    read.on_warning = [this](const std::string& path, const absl::Status& status) {
      has_warnings_ = true;
      context_.reporter.Warning(path, status);
    };
    analyze::ReadProgress progress;
    KERF_ASSIGN_OR_RETURN(const analyze::Corpus corpus,
                          analyze::ReadCorpus(read, context_.cancelled, progress));
    if (corpus.is_sample()) {
      return absl::InvalidArgumentError(
          Cat("the versions have ", FormatByteSize(corpus.found_bytes),
              ", and all of it is held in ", "memory: name less, or set --max-bytes higher"));
    }
    Series series;
    series.versions.resize(corpus.parts.size());
    for (const analyze::CorpusFile& file : corpus.files) {
      series.versions[file.part].push_back(corpus.BytesOf(file));
    }
    std::erase_if(series.versions, [](const auto& files) { return files.empty(); });
    if (series.versions.size() < 2) {
      return absl::InvalidArgumentError(
          "there is only one version with content: name two or more, or a folder that holds them");
    }
    series.name = absl::StrFormat("%d versions, %s in all", series.versions.size(),
                                  FormatByteSize(series.TotalBytes()));
    return Measure(series, true);
  }

  // Something could not be read.
  bool has_warnings() const { return has_warnings_; }

 private:
  absl::Status MeasureEdits(std::uint64_t edits, double spread, bool has_extras) {
    bench::SeriesRule rule;
    rule.size_bytes = input_.size_bytes;
    rule.version_count = flags_.version_count;
    rule.edits = {.edit_count = edits,
                  .min_edit_bytes = flags_.edit_bytes,
                  .max_edit_bytes = flags_.edit_bytes,
                  .kinds = ParseKinds(flags_.kinds),
                  .spread = spread};
    rule.seed = flags_.seed;
    const std::vector<std::vector<std::uint8_t>> versions = bench::MakeVersions(rule);
    Series series;
    const std::string where =
        spread == 1.0 ? "everywhere" : absl::StrFormat("in the first %.0f %%", 100 * spread);
    series.name = absl::StrFormat("%d versions of %s, %d edits each (%s, %d bytes) %s",
                                  versions.size(), FormatByteSize(rule.size_bytes), edits,
                                  flags_.kinds, flags_.edit_bytes, where);
    for (const std::vector<std::uint8_t>& version : versions) {
      series.versions.push_back({bench::Bytes(version)});
    }
    return Measure(series, has_extras);
  }

  absl::Status Measure(const Series& series, bool has_extras) {
    Reporter& reporter = context_.reporter;
    RapidOptions options = input_.options;
    options.has_extras = has_extras;
    ++series_count_;
    for (const auto& [name, profile] : input_.profiles) {
      if (reporter.shows_progress() && reporter.live_progress()) {
        reporter.Progress(Cat("bench rapid: ", name, ", ", series.name));
      }
      const auto figures = RunRapidBench(options, series, profile, context_.cancelled);
      reporter.Progress("");
      if (!figures.ok()) return Annotate(figures.status(), Cat(name, ", ", series.name));
      for (const bench::ModeFigures& mode : *figures) {
        reporter.Json("figure", bench::RapidFigureJson(series, name, profile, mode));
        ++figure_count_;
      }
      for (const std::string& line : bench::RapidTable(series, name, *figures)) {
        reporter.Result(line);
      }
    }
    return absl::OkStatus();
  }

  Context& context_;
  const RapidFlags& flags_;
  const RapidInput& input_;
  bool has_warnings_ = false;
  std::uint64_t figure_count_ = 0;
  std::uint64_t series_count_ = 0;
};

}  // namespace

ExitCode RunBenchRapid(Context& context, const RapidFlags& flags) {
  const absl::StatusOr<RapidInput> input = ReadInput(flags);
  if (!input.ok()) return FailUsage(context, input.status());
  Reporter& reporter = context.reporter;
  // Before the first figure: the load that others cause.
  const bench::Machine machine = bench::DescribeMachine();
  reporter.Result(bench::RapidRunLine(machine, input->options));
  RapidRun run(context, flags, *input);
  const absl::Status status = flags.versions.empty() ? run.MeasureMade() : run.MeasureVersions();
  if (context.cancelled) return ExitCode::kInterrupted;
  if (absl::IsInvalidArgument(status)) return FailUsage(context, status);
  if (!status.ok()) return FailWith(context, status);
  nlohmann::json summary = bench::RapidRunJson(machine);
  summary["figures"] = run.figure_count();
  summary["series"] = run.series_count();
  summary["settings"] = {{"digest", flags.digest},
                         {"rounds", flags.rounds},
                         {"made", flags.versions.empty()},
                         {"seed", flags.seed}};
  reporter.Json("summary", std::move(summary));
  return run.has_warnings() ? ExitCode::kPartial : ExitCode::kOk;
}

}  // namespace kerf::agent
