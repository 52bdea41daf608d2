// `kerf parity`: what mends damaged packs.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/store/parity/parity_layout.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/repair/parity_run.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf parity --store /backup --percent 5\n"
    "      from now on a pack of 64 MiB has 3.7 MiB of parity, which gives back 3.4 MiB of it in "
    "a\n"
    "      row, or any 13 of the 254 sectors of each group; packs that are there get theirs now\n"
    "  kerf parity --store /backup\n"
    "      makes what is missing, say because this was interrupted or the disk was full\n"
    "  kerf parity --store /backup --off\n"
    "      makes none from now on, and removes what there is, but of damaged packs: reads all "
    "first\n"
    "`kerf restore` uses it by itself, and `kerf repair --packs --apply` mends damaged packs with\n"
    "it. It may run beside backups and collections.";

struct ParityFlags {
  std::string store;
  unsigned percent = 0;
  bool off = false;
};

absl::Status FollowWithDisplay(Context& context, const Store& store, ParityReport& report) {
  struct Shared {
    std::atomic<std::uint64_t> done = 0;
    std::atomic<std::uint64_t> total = 0;
  };
  const auto shared = std::make_shared<Shared>();
  ParityRunOptions options;
  options.is_cancelled = [&context] { return context.cancelled.load(); };
  options.on_progress = [shared](std::uint64_t done, std::uint64_t total) {
    shared->done = done;
    shared->total = total;
  };
  const ProgressDisplay display(context.reporter, "parity", [shared] {
    ProgressState state;
    state.noun = "packs";
    state.counts_only = true;
    state.done_files = shared->done;
    state.total_files = shared->total;
    return state;
  });
  return FollowParitySetting(store, options, report);
}

void Print(Reporter& reporter, const ParityReport& report, double seconds) {
  for (const absl::Status& failure : report.failures) {
    reporter.Warning("parity",
                     Annotate(failure, report.percent == 0 ? "the parity of a pack was not removed"
                                                           : "a pack got no parity"));
  }
  reporter.Json("summary", {{"percent", report.percent},
                            {"packs", report.pack_count},
                            {"present", report.present_count},
                            {"made", report.made_count},
                            {"removed", report.removed_count},
                            {"failed", report.failures.size()},
                            {"parity_bytes", report.parity_bytes},
                            {"seconds", seconds}});
  const std::string time = absl::StrFormat("; %.2f s", seconds);
  if (report.percent == 0) {
    reporter.Line(Cat("packs have no parity from now on; that of ",
                      FormatCounted(report.removed_count, "pack"), " was removed, of ",
                      FormatCount(report.failures.size()), " kept", time));
    return;
  }
  reporter.Line(
      Cat("parity of ", report.percent, " %: made for ", FormatCounted(report.made_count, "pack"),
          ", ", FormatCount(report.present_count), " had it, ", FormatCount(report.failures.size()),
          " got none; ", FormatByteSize(report.parity_bytes), " in all", time));
}

absl::Status Set(const Store& store, const ParityFlags& flags) {
  // It is to free space: where there is none, the reserve is for this.
  if (flags.off) {
    return store.reserve().Spend([&] { return WriteParityPercent(store.directory(), 0); });
  }
  if (flags.percent > 0) return WriteParityPercent(store.directory(), flags.percent);
  KERF_ASSIGN_OR_RETURN(const unsigned percent, ReadParityPercent(store.directory()));
  if (percent > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat("the store keeps no parity: `kerf parity --store ",
                                           store.directory(), " --percent 5` begins with it"));
}

ExitCode Run(Context& context, const ParityFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  if (flags.off && flags.percent > 0) {
    return FailUsage(context, absl::InvalidArgumentError("give --percent or --off, not both"));
  }
  const auto store = OpenStoreForWriting(context, flags.store);
  if (!store.ok()) return FailWith(context, store.status());
  const bool had_reserve = (*store)->reserve().IsThere();
  const absl::Cleanup take_back = [&] {
    if (had_reserve && !(*store)->reserve().IsThere()) (*store)->reserve().TakeBack().IgnoreError();
  };
  if (const absl::Status set = Set(**store, flags); !set.ok()) return FailWith(context, set);
  ParityReport report;
  const absl::Status status = FollowWithDisplay(context, **store, report);
  // Also behind a failure: it is done.
  const bool has_begun = report.present_count + report.made_count + report.removed_count > 0;
  if (!status.ok() && !has_begun && report.failures.empty()) return FailWith(context, status);
  Print(context.reporter, report,
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (!status.ok()) return FailWith(context, status);
  ExitCode code = ExitCode::kOk;
  for (const absl::Status& failure : report.failures) {
    if (absl::IsDataLoss(failure)) return ExitCode::kIntegrity;
    code = ExitCode::kPartial;
  }
  return code;
}

}  // namespace

void AddParityVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "parity", "Keep parity of packs, which mends damaged ones", kExamples);
  auto flags = std::make_shared<ParityFlags>();
  AddStoreOption(verb, flags->store);
  verb.AddOption("--percent", flags->percent,
                 "How many bytes for each 100 of a pack (small packs get at least 8 KiB)")
      .Range(kMinParityPercent, kMaxParityPercent);
  verb.AddFlag("--off", flags->off, "Make none from now on, and remove what there is");
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
