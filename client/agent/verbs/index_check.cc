#include "client/store/check/index_check.h"

#include <chrono>
#include <memory>
#include <mutex>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/verbs/index_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf index check --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf index check --store /backup --json\n"
    "It may run beside backups and collections. Exit code 3: the index knows less than the store\n"
    "holds, or where it was, which costs time at most; 6: agents are told that the store holds "
    "what\n"
    "it does not. Both are mended by kerf index rebuild. 3, too, if the index's epoch is past the\n"
    "store's, which was set back to an older copy then: no backup is told to the index until\n"
    "kerf index rebuild or kerf gc takes the store's epoch past the index's.";

std::string_view NameOf(IndexFinding::Kind kind) {
  switch (kind) {
    case IndexFinding::Kind::kGone:
      return "gone";
    case IndexFinding::Kind::kElsewhere:
      return "elsewhere";
    case IndexFinding::Kind::kWrongLength:
      return "wrong_length";
  }
  return "";
}

std::string_view MeaningOf(IndexFinding::Kind kind) {
  switch (kind) {
    case IndexFinding::Kind::kGone:
      return "the store does not hold this chunk";
    case IndexFinding::Kind::kElsewhere:
      return "the store does not hold this chunk there";
    case IndexFinding::Kind::kWrongLength:
      return "the store's chunk has another length";
  }
  return "";
}

// For people; programs get all.
constexpr std::size_t kMaxShownFindings = 20;

struct Shared {
  std::mutex mutex;
  IndexCheckProgress progress;
};

absl::StatusOr<IndexCheckReport> CheckWithProgress(Context& context, const Store& store,
                                                   client::ServerIndex& index) {
  // For the display only; the check reads to the end.
  const absl::StatusOr<client::ServerIndexStats> stats = index.ReadStats();
  if (!stats.ok()) return stats.status();
  Shared shared;
  const ProgressDisplay display(
      context.reporter, "index check", [&shared, entry_count = stats->entry_count] {
        const std::lock_guard lock(shared.mutex);
        ProgressState state;
        state.counts_only = true;
        state.noun = shared.progress.is_scanning ? "entries" : "chunks";
        state.done_files = shared.progress.done_count;
        state.total_files = shared.progress.is_scanning
                                ? std::max(entry_count, shared.progress.done_count)
                                : shared.progress.total_count;
        return state;
      });
  IndexCheckOptions options;
  options.on_progress = [&](const IndexCheckProgress& progress) {
    const std::lock_guard lock(shared.mutex);
    shared.progress = progress;
    return context.cancelled ? absl::CancelledError("the check was interrupted") : absl::OkStatus();
  };
  options.is_cancelled = [&context] { return context.cancelled.load(); };
  return CheckIndex(store, index, options);
}

// A line of the table, unless there is nothing to say.
void PrintCount(Reporter& reporter, std::string_view name, std::uint64_t count,
                std::string_view meaning) {
  if (count == 0) return;
  reporter.Line(
      absl::StrFormat("  %-12s %12s  %s", ToAbsl(name), FormatCount(count), ToAbsl(meaning)));
}

void Print(Reporter& reporter, const IndexCheckReport& report, double seconds) {
  reporter.Line(Cat("the store holds ", FormatCounted(report.chunk_count, "chunk"), ", epoch ",
                    report.store_epoch, "; the index has ",
                    FormatCounted(report.entry_count, "entry"), ", epoch ", report.index_epoch,
                    absl::StrFormat("; %.2f s", seconds)));
  PrintCount(reporter, "known", report.known_count, "as the store has them");
  PrintCount(reporter, "unverified", report.unverified_count,
             "the index is behind the store: agents look before they believe it");
  PrintCount(reporter, "missing", report.missing_count,
             "lost, or of a backup that runs: told or sent again by the next one");
  PrintCount(reporter, "condemned", report.condemned_count,
             "forgotten already by a collection that is not done");
  PrintCount(reporter, "gone", report.gone_count,
             "DANGEROUS: called duplicates, and the store does not hold them");
  PrintCount(reporter, "elsewhere", report.elsewhere_count,
             "the index names a place where they no longer are; kerf finds them all the same");
  PrintCount(reporter, "wrong length", report.wrong_length_count,
             "DANGEROUS: the store's chunks have another length");
  PrintCount(reporter, "outdated", report.outdated_count,
             "of chunks that went, and not believed: agents look first");
  PrintCount(reporter, "undecided", report.undecided_count,
             "collections ran all the time: check again when they are done");
}

void ReportFindings(Reporter& reporter, const Store& store, const IndexCheckReport& report) {
  const std::size_t digest_size_bytes = DigestSizeBytes(store.digest_algorithm());
  std::size_t count = 0;
  for (const IndexFinding& finding : report.findings) {
    if (!reporter.json() && ++count > kMaxShownFindings) {
      reporter.Line(
          Cat("... and ",
              FormatCount(report.damage_count() + report.elsewhere_count - kMaxShownFindings),
              " more; --json names up to ", FormatCount(kMaxIndexFindings)));
      return;
    }
    const std::string digest = DigestToHex(finding.entry.digest, digest_size_bytes);
    const std::string locator = FormatLocator(finding.entry.locator);
    if (!reporter.json()) {
      reporter.Warning(
          digest, absl::DataLossError(Cat("the index has ", finding.entry.length_bytes,
                                          " bytes at ", locator, ": ", MeaningOf(finding.kind))));
      continue;
    }
    reporter.Json("index_finding", {{"kind", NameOf(finding.kind)},
                                    {"digest", digest},
                                    {"length", finding.entry.length_bytes},
                                    {"locator", locator},
                                    {"message", MeaningOf(finding.kind)}});
  }
}

ExitCode Run(Context& context, const IndexFlags& flags, const client::ServerAddress& server,
             const Store& store, client::ServerIndex& index) {
  const auto start = std::chrono::steady_clock::now();
  Reporter& reporter = context.reporter;
  const absl::StatusOr<IndexCheckReport> report = CheckWithProgress(context, store, index);
  if (!report.ok()) return FailWithServer(context, report.status(), server);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ReportFindings(reporter, store, *report);
  const bool is_clean = report->damage_count() + report->flaw_count() == 0;
  const std::string mend = is_clean ? "" : RebuildCommand(flags);
  reporter.Json("summary", {{"store_epoch", report->store_epoch},
                            {"index_epoch", report->index_epoch},
                            {"chunks", report->chunk_count},
                            {"index_entries", report->entry_count},
                            {"known", report->known_count},
                            {"unverified", report->unverified_count},
                            {"missing", report->missing_count},
                            {"condemned", report->condemned_count},
                            {"gone", report->gone_count},
                            {"elsewhere", report->elsewhere_count},
                            {"wrong_length", report->wrong_length_count},
                            {"outdated", report->outdated_count},
                            {"undecided", report->undecided_count},
                            {"damaged_packs", report->damaged_pack_count},
                            {"mend", mend},
                            {"seconds", seconds}});
  Print(reporter, *report, seconds);
  if (report->index_is_ahead()) {
    reporter.Result(
        "the index's epoch is past the store's: the store was set back to an older copy of itself, "
        "and the index refuses all commits");
  }
  if (report->damaged_pack_count > 0) {
    reporter.Result(Cat(FormatCounted(report->damaged_pack_count, "pack"),
                        " of the store cannot be read: first run ", VerifyCommand(flags)));
  } else if (report->gone_count > 0) {
    reporter.Result(
        Cat("a pack of the store may be lost, and to mend the index brings no chunk back: "
            "first run ",
            VerifyCommand(flags)));
  }
  if (is_clean) {
    reporter.Line("index and store agree");
  } else {
    reporter.Result(Cat("to mend: ", mend));
  }
  if (report->damage_count() + report->damaged_pack_count > 0) return ExitCode::kIntegrity;
  return is_clean ? ExitCode::kOk : ExitCode::kPartial;
}

}  // namespace

void AddIndexCheck(Context& context, const Verb& index_verb) {
  auto flags = std::make_shared<IndexFlags>();
  const Verb verb = AddIndexSubverb(
      index_verb, "check", "Compare the index with what the store holds", kExamples, *flags);
  verb.OnRun([&context, flags] {
    return WithIndex(
        context, *flags,
        [&](const Store& store, client::ServerIndex& index, const client::ServerAddress& server) {
          return Run(context, *flags, server, store, index);
        });
  });
}

}  // namespace kerf::agent
