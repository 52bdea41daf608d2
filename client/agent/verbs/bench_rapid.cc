#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/cut_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/lab/analyze/corpus_reader.h"
#include "client/lab/bench/process_costs.h"
#include "client/lab/bench/rapid/rapid_bench.h"
#include "client/lab/bench/rapid/rapid_report.h"

namespace kerf::agent {
namespace {

using bench::RapidOptions;
using bench::Series;

constexpr char kExamples[] =
    "  kerf bench rapid\n"
    "  kerf bench rapid backup-monday backup-tuesday backup-wednesday\n"
    "  kerf bench rapid --profile rabin-8k --size 500M --edits 1000,2000,5000,10000,20000\n"
    "  kerf bench rapid --kinds overwrite --cluster 0 --rounds 9 --json > rapid.json\n\n"
    "Each VERSION, or each folder or file in the only one, is a version; without any, versions of\n"
    "a file of random bytes are made by seeded edits. One thread, everything in memory. A table\n"
    "for each series of versions and each profile:\n"
    "  mode      regular: the base algorithm alone; exact: the same cuts with hints; else what\n"
    "            makes a predicted cut be accepted. \"all fail\": hints about as good, none right\n"
    "  hints     runs: lists of chunks, to which the index points; sizes: of the chunks that\n"
    "            followed, in each entry of the index, so many\n"
    "  GB/s      of the versions behind the first one; times: regular cutting's time over this\n"
    "            one's, medians of rounds; series: the same with the first version\n"
    "  ratio     all bytes over those of chunks that are there once\n"
    "  scanned   share of the later versions in chunks whose end was scanned for\n"
    "  hits      accepted sizes by their place in the list\n"
    "Cutting alone leaves fingerprints and look-ups out of both sides. The index is one in "
    "memory.\n"
    "Times are CPU times. Cuts and fingerprints are checked before anything is measured.";

constexpr std::uint64_t kMinSizeBytes = 64 * kKiB;
constexpr std::uint64_t kMaxSizeBytes = 4 * kGiB;
constexpr std::uint64_t kMaxMaxBytes = kTiB;
constexpr std::uint64_t kMaxEdits = 1'000'000;

struct RapidFlags {
  std::vector<std::string> versions;
  std::vector<std::string> profiles = {"rabin-8k", "gear-8k", "fastcdc-8k", "ram-8k"};
  std::string digest = "blake3";
  std::string size = "16M";
  std::uint32_t version_count = 3;
  // What 600, 5,000 and 20,000 are in the 500 MB of the paper: of later versions 98, 85 and 55 %
  // are duplicates.
  std::vector<std::uint64_t> edits = {20, 160, 640};
  std::uint64_t edit_bytes = 100;
  std::string kinds = "mixed";
  std::uint32_t cluster_percent = 10;
  std::string max_bytes = "4G";
  std::uint64_t seed = 1;
  std::uint32_t rounds = 3;
};

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

ExitCode Run(Context& context, const RapidFlags& flags) {
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

void AddMadeOptions(const Verb& verb, RapidFlags& flags) {
  verb.AddOption("--size", flags.size, "Of the file whose versions are made")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--versions", flags.version_count, "How many are made, the first included")
      .Range(2u, 1000u)
      .ShowDefault();
  verb.AddOption("--edits", flags.edits, "From one version to the next; each is a series")
      .Delimiter(',')
      .Repeat()
      .ShowDefault();
  verb.AddOption("--edit-size", flags.edit_bytes, "Bytes that an edit changes")
      .Range(1u, 1u << 20)
      .ShowDefault();
  verb.AddOption("--kinds", flags.kinds, "Kinds of edits")
      .Choices({"mixed", "insert-delete", "overwrite"})
      .ShowDefault();
  verb.AddOption("--cluster", flags.cluster_percent,
                 "One more series has its edits in so many percent of the file; 0: none")
      .Range(0u, 99u)
      .ShowDefault();
  verb.AddOption("--seed", flags.seed, "Of the data that is made").ShowDefault();
}

}  // namespace

void AddBenchRapid(Context& context, const Verb& bench_verb) {
  const Verb verb = bench_verb.AddVerb(
      "rapid", "What hints about the next cut save, on your versions or on made ones", kExamples);
  auto flags = std::make_shared<RapidFlags>();
  verb.AddOption("versions", flags->versions, "Files or folders, oldest first; else made ones")
      .Check(RefuseEmpty)
      .Type("VERSION");
  verb.AddOption("--profile", flags->profiles, "A base algorithm (repeatable)")
      .Repeat()
      .Check(RefuseEmpty)
      .ShowDefault();
  verb.AddOption("--digest", flags->digest, "blake3, sha256 or xxh3-128").ShowDefault();
  verb.AddOption("--rounds", flags->rounds, "The report has their medians")
      .Range(1u, 1000u)
      .ShowDefault();
  verb.AddOption("--max-bytes", flags->max_bytes, "Versions that are read may have so much")
      .Type("SIZE")
      .ShowDefault();
  AddMadeOptions(verb, *flags);
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
