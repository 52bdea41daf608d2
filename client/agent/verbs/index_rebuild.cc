#include "client/store/collect/index_rebuild.h"

#include <chrono>
#include <memory>
#include <mutex>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/index_flags.h"
#include "client/agent/verbs/index_warning.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf index rebuild --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf index rebuild --store /backup --retry-for 1h    # its index takes long for an epoch\n"
    "Afterwards the index knows each chunk of the store, and nothing else, whatever it held "
    "before.\n"
    "Backups may run meanwhile; collections wait. It can be interrupted and run again. While an\n"
    "interrupted one is not repeated, backups check more and take longer.";

struct Shared {
  std::mutex mutex;
  RebuildProgress progress;
};

absl::StatusOr<RebuildReport> RebuildWithProgress(Context& context, const Store& store,
                                                  client::ServerIndex& index) {
  Shared shared;
  const ProgressDisplay display(context.reporter, "index rebuild", [&shared] {
    const std::lock_guard lock(shared.mutex);
    ProgressState state;
    state.noun = "chunks";
    state.counts_only = true;
    state.done_files = shared.progress.done_count;
    state.total_files = shared.progress.total_count;
    return state;
  });
  const auto go_on = [&context] {
    return context.cancelled
               ? absl::CancelledError(
                     "the rebuilding was interrupted; what the index was told of is not lost: run "
                     "kerf index rebuild again")
               : absl::OkStatus();
  };
  RebuildOptions options;
  options.on_step = [go_on](CollectionStep) { return go_on(); };
  options.on_progress = [&](const RebuildProgress& progress) {
    const std::lock_guard lock(shared.mutex);
    shared.progress = progress;
    return go_on();
  };
  options.is_cancelled = [&context] { return context.cancelled.load(); };
  return RebuildIndex(store, index, options);
}

ExitCode Run(Context& context, const client::ServerAddress& server, const Store& store,
             client::ServerIndex& index) {
  const auto start = std::chrono::steady_clock::now();
  Reporter& reporter = context.reporter;
  index.AcceptFull();
  const absl::StatusOr<RebuildReport> report = RebuildWithProgress(context, store, index);
  if (!report.ok()) return FailWithServer(context, report.status(), server);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reporter.Json("summary", {{"store_epoch", report->epoch},
                            {"packs", report->pack_count},
                            {"chunks", report->chunk_count},
                            {"removed_entries", report->removed_entry_count},
                            {"damaged_packs", report->damaged_pack_count},
                            {"findings", report->findings},
                            {"seconds", seconds}});
  for (const std::string& finding : report->findings) {
    reporter.Warning("index rebuild", absl::DataLossError(finding));
  }
  reporter.Line(Cat("the index knows ", FormatCounted(report->chunk_count, "chunk"), " in ",
                    FormatCounted(report->pack_count, "pack"), " of the store, epoch ",
                    report->epoch, "; ", FormatCounted(report->removed_entry_count, "entry"),
                    " of what the store does not hold removed",
                    absl::StrFormat("; %.2f s", seconds)));
  if (!index.full_status().ok()) WarnOfFullIndex(reporter, "index rebuild", index.full_status());
  if (report->damaged_pack_count > 0) return ExitCode::kIntegrity;
  return index.full_status().ok() ? ExitCode::kOk : ExitCode::kPartial;
}

}  // namespace

void AddIndexRebuild(Context& context, const Verb& index_verb) {
  auto flags = std::make_shared<IndexFlags>();
  const Verb verb = AddIndexSubverb(index_verb, "rebuild", "Make the index again from the store",
                                    kExamples, *flags);
  verb.OnRun([&context, flags] {
    return WithIndex(
        context, *flags,
        [&](const Store& store, client::ServerIndex& index, const client::ServerAddress& server) {
          return Run(context, server, store, index);
        });
  });
}

}  // namespace kerf::agent
