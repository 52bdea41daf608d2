#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "client/agent/verbs/cut_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/lab/analyze/analysis.h"
#include "client/lab/analyze/corpus_reader.h"
#include "client/lab/analyze/ladder.h"
#include "client/lab/analyze/plot.h"
#include "client/lab/analyze/report.h"
#include "client/store/format/durable_file.h"
#include "kernels/profile.h"
#include "kernels/registry.h"

namespace kerf::agent {
namespace {

using analyze::Analysis;
using analyze::AnalysisOptions;
using analyze::Corpus;

constexpr char kExamples[] =
    "  kerf analyze ~/documents\n"
    "  kerf analyze backup-monday backup-tuesday --plot savings.svg\n"
    "  kerf analyze versions --average 8K,16K --algorithm mincdc,maxcdc,fastcdc2020\n"
    "  kerf analyze versions --profile mincdc:min=2048,max=14336 --json > figures.json\n\n"
    "Each PATH, or each folder or file in one PATH, may be a version: what it adds to those "
    "before\n"
    "it is shown. Everything is read once and held in memory; of more than --max-bytes a sample "
    "is\n"
    "taken. Nothing is sent, nothing is stored.\n\n"
    "For each algorithm and average, parameters are looked for with which the data, taken as one\n"
    "stream, gives chunks of that average. Then files are cut one by one. Columns:\n"
    "  saved %    of all bytes, if equal chunks are stored once\n"
    "  equal      the same at one average for all: only these can be compared\n"
    "  stream     the average that was aimed at and found, in the data as one stream\n"
    "  average    of the chunks, ends of files included; 5%, 50%, 95%: their sizes\n"
    "  GB/s       cutting alone on one core; share: of what the same core reads in the same run\n"
    "  +blake3    cutting and fingerprinting on one core, GB/s\n"
    "  index/TiB  memory for the index of a TiB of such data, in the agent and in kerfd\n"
    "  resent     what a change of one byte makes new, in average chunks";

constexpr std::uint64_t kMinMaxBytes = 64 * kKiB;
constexpr std::uint64_t kMaxMaxBytes = kTiB;

struct AnalyzeFlags {
  std::vector<std::string> paths;
  std::vector<std::string> excludes;
  std::vector<std::string> algorithms;
  std::vector<std::string> averages = {"4K", "8K", "16K", "32K", "64K"};
  std::vector<std::string> profiles;
  std::string digest = "blake3";
  std::string backend = std::string(kAutomaticBackend);
  std::string max_bytes = "1G";
  std::string index_memory = "12G";
  std::string plot;
  std::uint64_t seed = 1;
  double min_share = 0.35;
};

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
    KERF_ASSIGN_OR_RETURN(const std::string picture,
                          analyze::Plot(corpus, options, analysis, format_));
    if (ftruncate(fd_.get(), 0) != 0 && errno != EINVAL) return ErrnoStatus(errno, path_);
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(picture.data()), picture.size());
    KERF_RETURN_IF_ERROR(PWriteExactly(fd_.get(), bytes, 0, path_));
    written_ = true;
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
    state.total_files = is_timing ? analyze::kTimingSweeps * profile_count : profile_count;
    state.done_bytes = progress.counted_bytes;
    state.total_bytes = profile_count * corpus.size_bytes;
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

ExitCode Run(Context& context, const AnalyzeFlags& flags) {
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

}  // namespace

void AddAnalyzeVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "analyze",
              "Find out what chunking saves on your data, and the best profile for it", kExamples);
  auto flags = std::make_shared<AnalyzeFlags>();
  verb.AddOption("paths", flags->paths, "Files and folders")
      .Required()
      .Check(RefuseEmpty)
      .Type("PATH");
  verb.AddOption("--average", flags->averages, "Wanted averages of chunks")
      .Delimiter(',')
      .Repeat()
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--algorithm", flags->algorithms, "Only these; else all")
      .Delimiter(',')
      .Repeat()
      .Check(RefuseEmpty)
      .Type("NAME");
  verb.AddOption("--profile", flags->profiles,
                 "A profile to measure beside them, as it is (repeatable)")
      .Repeat()
      .Check(RefuseEmpty);
  verb.AddOption("--max-bytes", flags->max_bytes, "Content to hold in memory; else a sample")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--seed", flags->seed, "Of the sample and of the changes that are tried")
      .ShowDefault();
  verb.AddOption("--min-share", flags->min_share,
                 "Recommend nothing that cuts slower than this share of reading alone")
      .Range(0.0, 1.0)
      .ShowDefault();
  verb.AddOption("--index-memory", flags->index_memory,
                 "Recommend nothing whose index of a TiB needs more")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--digest", flags->digest, "blake3, sha256 or xxh3-128: for the speed with it")
      .ShowDefault();
  verb.AddOption("--backend", flags->backend,
                 "Kernels that cut: auto, plain, scalar, sse4, avx2, avx512, avx512vbmi, neon")
      .Environment(kBackendVariable)
      .ShowDefault();
  verb.AddOption("--exclude", flags->excludes, "Leave out what matches the pattern (repeatable)")
      .Repeat()
      .Type("GLOB");
  verb.AddOption("--plot", flags->plot, "Also draw a picture: FILE.svg or FILE.png")
      .Check(RefuseEmpty)
      .Type("FILE");
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
