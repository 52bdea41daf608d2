#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>

#include "base/status.h"
#include "base/strings.h"
#include "base/unfinished_paths.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "client/cli/cut_flags.h"
#include "client/cli/progress_display.h"
#include "client/lab/analyze/analysis.h"
#include "client/lab/analyze/corpus_reader.h"
#include "client/lab/analyze/ladder.h"
#include "client/lab/analyze/plot.h"
#include "client/lab/analyze/report.h"
#include "client/lab/verbs/lab_runs.h"
#include "client/store/format/durable_file.h"
#include "kernels/profile.h"
#include "kernels/registry.h"

namespace kerf::agent {
namespace {

using analyze::Analysis;
using analyze::AnalysisOptions;
using analyze::Corpus;

constexpr std::uint64_t kMinMaxBytes = 64 * kKiB;
constexpr std::uint64_t kMaxMaxBytes = kTiB;

absl::StatusOr<std::vector<std::string>> ReadVariants(const AnalyzeFlags& flags) {
  std::vector<std::string> variants;
  const auto add = [&variants](std::string_view name) {
    if (std::find(variants.begin(), variants.end(), name) == variants.end()) {
      variants.emplace_back(name);
    }
  };
  if (flags.algorithms.empty()) {
    for (const std::string_view name : analyze::VariantNames()) add(name);
  }
  for (const std::string& algorithm : flags.algorithms) {
    const auto names = analyze::VariantsOf(algorithm);
    if (!names.ok()) return Annotate(names.status(), "--algorithm");
    for (const std::string& name : *names) add(name);
  }
  return variants;
}

absl::StatusOr<AnalysisOptions> ReadOptions(const AnalyzeFlags& flags) {
  AnalysisOptions options;
  KERF_ASSIGN_OR_RETURN(options.variants, ReadVariants(flags));
  for (const std::string& text : flags.averages) {
    KERF_ASSIGN_OR_RETURN(
        const std::uint64_t bytes,
        ParseSizeFlag("--average", text, analyze::kMinWantedBytes, analyze::kMaxWantedBytes));
    options.averages.push_back(bytes);
  }
  std::sort(options.averages.begin(), options.averages.end());
  options.averages.erase(std::unique(options.averages.begin(), options.averages.end()),
                         options.averages.end());
  for (const std::string& text : flags.profiles) {
    KERF_ASSIGN_OR_RETURN(const Profile profile, ParseProfile(text));
    options.profiles.push_back(profile);
  }
  KERF_ASSIGN_OR_RETURN(options.digest, ParseDigestFlag(flags.digest));
  options.seed = flags.seed;
  options.recommend.min_share = flags.min_share;
  KERF_ASSIGN_OR_RETURN(options.recommend.max_index_bytes_per_tib,
                        ParseSizeFlag("--index-memory", flags.index_memory, 1, kTiB));
  if (const absl::Status backend = SetDefaultBackend(flags.backend); !backend.ok()) {
    return Annotate(backend, "--backend");
  }
  return options;
}

// The file of the picture: opened before the work begins, so that nobody waits for a picture that
// cannot be written, and taken away again if nothing came of it.
class PlotFile {
 public:
  static absl::StatusOr<PlotFile> Open(const std::string& path) {
    PlotFile file;
    file.path_ = path;
    KERF_ASSIGN_OR_RETURN(file.format_, analyze::PlotFormatOf(path));
    file.is_new_ = access(path.c_str(), F_OK) != 0;
    file.fd_ = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (file.is_new_ && file.fd_.valid()) AddUnfinishedPath(path);
    if (!file.fd_.valid()) return Annotate(ErrnoStatus(errno, path), "--plot");
    return file;
  }
  ~PlotFile() {
    if (fd_.valid() && is_new_ && !written_) unlink(path_.c_str());
  }
  PlotFile(PlotFile&&) = default;
  PlotFile& operator=(PlotFile&&) = delete;

  absl::Status Write(const Corpus& corpus, const AnalysisOptions& options,
                     const Analysis& analysis) {
    const std::string picture = analyze::Plot(corpus, options, analysis, format_);
    if (ftruncate(fd_.get(), 0) != 0 && errno != EINVAL) return ErrnoStatus(errno, path_);
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(picture.data()), picture.size());
    KERF_RETURN_IF_ERROR(PWriteExactly(fd_.get(), bytes, 0, path_));
    // Not for ever, but some file systems tell only then that there is no room. A pipe has nothing
    // to sync.
    struct stat info{};
    if (fstat(fd_.get(), &info) == 0 && S_ISREG(info.st_mode)) {
      KERF_RETURN_IF_ERROR(SyncFile(fd_.get(), path_));
    }
    written_ = true;
    ForgetUnfinishedPath(path_);
    return absl::OkStatus();
  }

 private:
  PlotFile() = default;

  std::string path_;
  analyze::PlotFormat format_ = analyze::PlotFormat::kSvg;
  UniqueFd fd_;
  bool is_new_ = false;
  bool written_ = false;
};

absl::StatusOr<Corpus> ReadWithProgress(Context& context, const analyze::ReadOptions& options) {
  analyze::ReadProgress progress;
  const ProgressDisplay display(context.reporter, "analyze", [&progress] {
    ProgressState state;
    state.done_files = progress.done_files;
    state.total_files = progress.found_files;
    state.done_bytes = progress.done_bytes;
    state.total_bytes = progress.found_bytes;
    state.counting = !progress.scan_done;
    return state;
  });
  return analyze::ReadCorpus(options, context.cancelled, progress);
}

absl::StatusOr<Analysis> AnalyzeWithProgress(Context& context, const Corpus& corpus,
                                             const AnalysisOptions& options) {
  analyze::AnalysisProgress progress;
  const std::uint64_t profile_count = analyze::ProfileCount(options);
  const ProgressDisplay display(context.reporter, "analyze", [&] {
    ProgressState state;
    // Timing is a step of its own.
    const bool is_timing = progress.timed_profiles > 0;
    state.noun = is_timing ? "timings" : "profiles";
    state.done_files = is_timing ? progress.timed_profiles : progress.counted_profiles;
    const std::uint64_t planned_count = progress.planned_profiles;
    state.total_files = is_timing ? analyze::kTimingSweeps * profile_count : planned_count;
    state.done_bytes = progress.counted_bytes;
    state.total_bytes = planned_count * corpus.size_bytes;
    return state;
  });
  return analyze::Analyze(corpus, options, context.cancelled, progress);
}

void Print(Reporter& reporter, const Corpus& corpus, const AnalysisOptions& options,
           const Analysis& analysis, const std::string& plot, double seconds) {
  for (const analyze::ProfileFigures& figures : analysis.figures) {
    reporter.Json("figure", analyze::FigureJson(figures));
  }
  for (std::size_t part = 0; reporter.json() && part < corpus.parts.size(); ++part) {
    reporter.Json("part", analyze::PartJson(corpus, analysis, part));
  }
  reporter.Json("recommendation", analyze::RecommendationJson(analysis));
  nlohmann::json summary = analyze::SummaryJson(corpus, analysis);
  summary["seconds"] = seconds;
  summary["seed"] = options.seed;
  PutBytes(summary, "plot", plot);
  reporter.Json("summary", std::move(summary));
  for (const std::string& line : analyze::ReportLines(corpus, options, analysis)) {
    reporter.Result(line);
  }
}

}  // namespace

ExitCode RunAnalyze(Context& context, const AnalyzeFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<AnalysisOptions> options = ReadOptions(flags);
  if (!options.ok()) return FailUsage(context, options.status());
  analyze::ReadOptions read;
  read.paths = flags.paths;
  read.seed = flags.seed;
  for (const std::string& pattern : flags.excludes) {
    const absl::Status added = read.excludes.Add(pattern);
    if (!added.ok()) return FailUsage(context, added);
  }
  const auto max_bytes = ParseSizeFlag("--max-bytes", flags.max_bytes, kMinMaxBytes, kMaxMaxBytes);
  if (!max_bytes.ok()) return FailUsage(context, max_bytes.status());
  read.max_bytes = *max_bytes;
  bool failed = false;
  read.on_warning = [&](const std::string& path, const absl::Status& status) {
    failed = true;
    context.reporter.Warning(path, status);
  };
  std::optional<PlotFile> plot;
  if (!flags.plot.empty()) {
    if (const auto format = analyze::PlotFormatOf(flags.plot); !format.ok()) {
      return FailUsage(context, Annotate(format.status(), "--plot"));
    }
    absl::StatusOr<PlotFile> opened = PlotFile::Open(flags.plot);
    if (!opened.ok()) return FailWith(context, opened.status());
    plot.emplace(*std::move(opened));
  }
  const absl::StatusOr<Corpus> corpus = ReadWithProgress(context, read);
  if (context.cancelled) return ExitCode::kInterrupted;
  if (!corpus.ok()) return FailWith(context, corpus.status());
  const absl::StatusOr<Analysis> analysis = AnalyzeWithProgress(context, *corpus, *options);
  if (context.cancelled) return ExitCode::kInterrupted;
  if (!analysis.ok()) return FailWith(context, analysis.status());
  if (plot.has_value()) {
    const absl::Status written = plot->Write(*corpus, *options, *analysis);
    if (!written.ok()) return FailWith(context, written);
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  Print(context.reporter, *corpus, *options, *analysis, flags.plot, time.count());
  return failed ? ExitCode::kPartial : ExitCode::kOk;
}

}  // namespace kerf::agent
