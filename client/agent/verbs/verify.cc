#include "client/store/check/verify.h"

#include <chrono>
#include <memory>
#include <mutex>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf verify --store /backup\n"
    "  kerf verify --store /backup --read-data";

struct VerifyFlags {
  std::string store;
  bool read_data = false;
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

// What the findings mean for the one who has to mend them.
void ReportDamagedPacks(Reporter& reporter, const VerifyReport& report, bool read_data) {
  for (const std::string& path : report.damaged_packs) {
    reporter.Line(Cat("damaged pack: ", path));
  }
  if (!report.damaged_packs.empty()) {
    reporter.Line(Cat("to mend: ", kMendDamagedPacks));
  } else if (report.finding_count > 0 && !read_data) {
    reporter.Line("to learn which packs are damaged, if any: kerf verify --read-data");
  }
}

ExitCode Run(Context& context, const VerifyFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  Reporter& reporter = context.reporter;
  const auto store = Store::Open(flags.store);
  if (!store.ok()) return FailWith(context, store.status());
  auto shared = std::make_shared<Shared>();
  VerifyOptions options;
  options.read_data = flags.read_data;
  options.on_progress = [shared](const VerifyProgress& progress) {
    std::lock_guard lock(shared->mutex);
    shared->progress = progress;
  };
  absl::StatusOr<VerifyReport> report;
  {
    const ProgressDisplay display(reporter, "verify", [shared] {
      std::lock_guard lock(shared->mutex);
      ProgressState state;
      state.done_files = shared->progress.packs_done;
      state.total_files = shared->progress.packs_total;
      state.done_bytes = shared->progress.bytes_done;
      state.total_bytes = shared->progress.bytes_total;
      return state;
    });
    report = VerifyStore(**store, options);
  }
  if (!report.ok()) return FailWith(context, report.status());
  if (const absl::Status status = CheckNotSetBack(**store); !status.ok()) {
    ++report->finding_count;
    report->findings.push_back({"", "", status});
  }
  for (const VerifyFinding& finding : report->findings) Report(reporter, finding);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reporter.Json("summary", {{"snapshots", report->done.snapshots_done},
                            {"packs", report->done.packs_done},
                            {"entries", report->entry_count},
                            {"references", report->reference_count},
                            {"read_bytes", report->done.bytes_done},
                            {"read_data", flags.read_data},
                            {"findings", report->finding_count},
                            {"damaged_packs", report->damaged_packs},
                            {"mend", report->damaged_packs.empty() ? "" : kMendDamagedPacks},
                            {"seconds", seconds}});
  reporter.Line(Cat(FormatCounted(report->done.snapshots_done, "snapshot"), ", ",
                    FormatCounted(report->entry_count, "entry"), ", ",
                    FormatCounted(report->reference_count, "chunk reference"), ", ",
                    FormatCounted(report->done.packs_done, "pack"), "; ",
                    flags.read_data
                        ? Cat(FormatByteSize(report->done.bytes_done), " read and hashed")
                        : std::string("contents not read (--read-data)"),
                    absl::StrFormat("; %.2f s", seconds)));
  ReportDamagedPacks(reporter, *report, flags.read_data);
  reporter.Line(report->finding_count == 0 ? std::string("all is well")
                                           : FormatCounted(report->finding_count, "finding"));
  return report->finding_count == 0 ? ExitCode::kOk : ExitCode::kIntegrity;
}

}  // namespace

void AddVerifyVerb(Context& context) {
  const Verb verb = AddVerb(context, "verify",
                            "Check that the store holds all that its snapshots need", kExamples);
  auto flags = std::make_shared<VerifyFlags>();
  AddStoreOption(verb, flags->store);
  verb.AddFlag("--read-data", flags->read_data, "Also read and hash every chunk");
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
