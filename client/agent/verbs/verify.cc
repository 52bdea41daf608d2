#include "client/store/check/verify.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/read_subset_flag.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf verify --store /backup\n"
    "  kerf verify --store /backup --read-data\n"
    "  kerf verify --store /backup --read-data-subset 30m       # goes on where the last one "
    "ended\n"
    "  kerf verify --store /backup --read-data-subset $(date +%u)/7   # a seventh a day";

// How often it is written down how far a run has come.
constexpr std::chrono::seconds kRememberInterval{10};

struct VerifyFlags {
  std::string store;
  bool read_data = false;
  std::string subset;
};

// Where a subset that goes round the store begins and ends.
class Round {
 public:
  Round(Reporter& reporter, std::string path) : reporter_(reporter), path_(std::move(path)) {}

  // What was remembered, if there is anything; else somewhere.
  PackId Begin() {
    if (path_.empty()) {
      reporter_.Warning("verify", absl::FailedPreconditionError(
                                      "neither XDG_STATE_HOME nor HOME is set, so it is not "
                                      "remembered what was read: this run begins anywhere"));
      return *ParsePackId(RandomHex());
    }
    const absl::StatusOr<VerifyState> state = ReadVerifyState(path_);
    if (state.ok()) {
      state_ = *state;
    } else {
      reporter_.Warning(path_, Annotate(state.status(), "this run begins with the first pack"));
    }
    if (state_.round_started_unix_ns == 0) state_.round_started_unix_ns = Now();
    return state_.read_up_to.value_or(PackId());
  }

  void Reach(const PackId& id) {
    // Behind the last one came the first.
    if (state_.read_up_to.has_value() && id <= *state_.read_up_to) Finish();
    state_.read_up_to = id;
    const auto now = std::chrono::steady_clock::now();
    if (now - remembered_ < kRememberInterval) return;
    remembered_ = now;
    Remember();
  }

  void End(bool has_read_everything) {
    if (has_read_everything) Finish();
    Remember();
  }

  const VerifyState& state() const { return state_; }

 private:
  static std::int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  void Finish() { state_.round_started_unix_ns = state_.round_finished_unix_ns = Now(); }
  void Remember() {
    if (path_.empty() || !state_.read_up_to.has_value()) return;
    const absl::Status status = WriteVerifyState(path_, state_);
    if (status.ok() || has_warned_) return;
    has_warned_ = true;
    reporter_.Warning(path_, Annotate(status, "it is not remembered what was read"));
  }

  Reporter& reporter_;
  const std::string path_;
  VerifyState state_;
  std::chrono::steady_clock::time_point remembered_ = std::chrono::steady_clock::now();
  bool has_warned_ = false;
};

struct Shared {
  std::mutex mutex;
  VerifyProgress progress;
};

void Report(Reporter& reporter, const VerifyFinding& finding) {
  if (!reporter.json()) {
    std::string where =
        finding.snapshot_id.empty() ? "store" : Cat("snapshot ", finding.snapshot_id);
    if (!finding.path.empty()) where += Cat(", /", finding.path);
    reporter.Warning(where, finding.status);
    return;
  }
  nlohmann::json object = {{"snapshot", finding.snapshot_id},
                           {"code", StatusCodeName(finding.status.code())},
                           {"message", std::string(MessageOf(finding.status))}};
  if (!finding.path.empty()) PutBytes(object, "path", Cat("/", finding.path));
  reporter.Json("finding", std::move(object));
}

std::string HowToMend(const VerifyReport& report) {
  if (report.damaged_packs.empty()) return "";
  const bool are_all_mendable = report.mendable_packs.size() == report.damaged_packs.size();
  // What needs the library first would lose what parity has.
  const std::string first = report.parity_failure.ok()
                                ? std::string()
                                : Cat("whether their parity gives these packs their bytes again is "
                                      "not known: ",
                                      MessageOf(report.parity_failure), "; then ");
  return Cat(first, are_all_mendable ? kMendWithParity : kMendDamagedPacks);
}

// What the findings mean for the one who has to mend them.
void ReportDamagedPacks(Reporter& reporter, const VerifyReport& report, bool read_data) {
  for (const std::string& path : report.damaged_packs) {
    reporter.Line(Cat("damaged pack: ", path,
                      report.mendable_packs.contains(path) ? " (its parity can mend it)" : ""));
  }
  if (!report.damaged_packs.empty()) {
    reporter.Line(Cat("to mend: ", HowToMend(report)));
  } else if (report.finding_count > 0 && !read_data) {
    reporter.Line("to learn which packs are damaged, if any: kerf verify --read-data");
  }
}

absl::StatusOr<VerifyReport> VerifyWithDisplay(Reporter& reporter, const Store& store,
                                               VerifyOptions options) {
  auto shared = std::make_shared<Shared>();
  options.on_progress = [shared](const VerifyProgress& progress) {
    std::lock_guard lock(shared->mutex);
    shared->progress = progress;
  };
  const ProgressDisplay display(reporter, "verify", [shared] {
    std::lock_guard lock(shared->mutex);
    ProgressState state;
    state.noun = "packs";
    state.done_files = shared->progress.packs_done;
    state.total_files = shared->progress.packs_total;
    state.done_bytes = shared->progress.bytes_done;
    state.total_bytes = shared->progress.bytes_total;
    return state;
  });
  return VerifyStore(store, options);
}

void Print(Reporter& reporter, const VerifyReport& report, const VerifyFlags& flags,
           const VerifyState& state, double seconds) {
  for (const VerifyFinding& finding : report.findings) Report(reporter, finding);
  reporter.Json("summary", {{"snapshots", report.done.snapshots_done},
                            {"packs", report.pack_count},
                            {"entries", report.entry_count},
                            {"references", report.reference_count},
                            {"read_packs", report.read_pack_count},
                            {"read_bytes", report.done.bytes_done},
                            {"read_data", flags.read_data},
                            {"subset", flags.subset},
                            {"round_started_unix_ns", state.round_started_unix_ns},
                            {"round_finished_unix_ns", state.round_finished_unix_ns},
                            {"findings", report.finding_count},
                            {"damaged_packs", report.damaged_packs},
                            {"mendable_packs", report.mendable_packs},
                            {"packs_without_parity", report.packs_without_parity},
                            {"mend", HowToMend(report)},
                            {"seconds", seconds}});
  std::string read = "contents not read (--read-data)";
  if (flags.read_data) {
    read = Cat(FormatByteSize(report.done.bytes_done), " read and hashed");
    if (!flags.subset.empty()) {
      read += Cat(", of ", FormatCount(report.read_pack_count), " of them (", flags.subset, ")");
    }
  }
  reporter.Line(Cat(FormatCounted(report.done.snapshots_done, "snapshot"), ", ",
                    FormatCounted(report.entry_count, "entry"), ", ",
                    FormatCounted(report.reference_count, "chunk reference"), ", ",
                    FormatCounted(report.pack_count, "pack"), "; ", read,
                    absl::StrFormat("; %.2f s", seconds)));
  ReportDamagedPacks(reporter, report, flags.read_data);
  if (report.packs_without_parity > 0) {
    reporter.Line(Cat(FormatCounted(report.packs_without_parity, "pack"),
                      " without parity: `kerf parity --store ", flags.store, "` makes it"));
  }
  reporter.Line(report.finding_count == 0 ? std::string("all is well")
                                          : FormatCounted(report.finding_count, "finding"));
}

ExitCode Run(Context& context, VerifyFlags flags) {
  const auto start = std::chrono::steady_clock::now();
  const auto store = Store::Open(flags.store);
  if (!store.ok()) return FailWith(context, store.status());
  VerifyOptions options;
  options.is_cancelled = [&context] { return context.cancelled.load(); };
  Round round(context.reporter, VerifyStatePath((*store)->config().id()));
  if (!flags.subset.empty()) {
    const absl::StatusOr<ReadSubset> subset = ParseReadSubset(flags.subset);
    if (!subset.ok()) return FailUsage(context, subset.status());
    flags.read_data = true;
    options.subset = *subset;
  }
  options.read_data = flags.read_data;
  const bool goes_round = !flags.subset.empty() && options.subset.part_count == 0;
  if (goes_round) {
    options.subset.after = round.Begin();
    options.on_read_up_to = [&round](const PackId& id) { round.Reach(id); };
  }
  absl::StatusOr<VerifyReport> report = VerifyWithDisplay(context.reporter, **store, options);
  if (goes_round) round.End(report.ok() && report->read_pack_count == report->pack_count);
  if (!report.ok()) return FailWith(context, report.status());
  if (const absl::Status status = CheckNotSetBack(**store); !status.ok()) {
    ++report->finding_count;
    report->findings.push_back({"", "", status});
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Print(context.reporter, *report, flags, round.state(), seconds);
  return report->finding_count == 0 ? ExitCode::kOk : ExitCode::kIntegrity;
}

std::string RefuseNoSubset(const std::string& text) {
  return std::string(MessageOf(ParseReadSubset(text).status()));
}

}  // namespace

void AddVerifyVerb(Context& context) {
  const Verb verb = AddVerb(context, "verify",
                            "Check that the store holds all that its snapshots need", kExamples);
  auto flags = std::make_shared<VerifyFlags>();
  AddStoreOption(verb, flags->store);
  verb.AddFlag("--read-data", flags->read_data, "Also read and hash every chunk");
  verb.AddOption("--read-data-subset", flags->subset,
                 "Read and hash the chunks of some packs only: part N of M (2/7), packs of a SIZE "
                 "(20G), or for a TIME (90m, 2h; M is MiB), going on where the last run ended")
      .Check(RefuseNoSubset)
      .Type("N/M|SIZE|TIME");
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
