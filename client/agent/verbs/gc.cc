#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/index_warning.h"
#include "client/agent/verbs/interrupted_calls.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/retry_flag.h"
#include "client/agent/verbs/retry_notice.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/duration.h"
#include "client/cli/progress_display.h"
#include "client/cpp/channel.h"
#include "client/cpp/server_index.h"
#include "client/store/collect/collection.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf gc --store /backup\n"
    "  kerf gc --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf gc --store /backup --dry-run\n"
    "  kerf gc --store /backup --retry-for 1h    # its index takes long for an epoch, or is away\n"
    "It may run beside backups. The server is told before anything is deleted.";

struct GcFlags {
  std::string store;
  ServerFlags server;
  double max_waste = CollectionOptions().max_waste_ratio;
  std::string keep_forgotten = "0";
  RetryFlag retry_for;
  bool dry_run = false;
};

void Print(Reporter& reporter, const CollectionReport& report, bool dry_run, double seconds) {
  std::vector<std::string> findings = report.damage;
  findings.insert(findings.end(), report.findings.begin(), report.findings.end());
  reporter.Json("summary", {{"epoch", report.epoch},
                            {"dry_run", dry_run},
                            {"snapshots", report.snapshot_count},
                            {"chunks", report.chunk_count},
                            {"live_chunks", report.live_chunk_count},
                            {"condemned_chunks", report.condemned_chunk_count},
                            {"deleted_packs", report.deleted_pack_count},
                            {"rewritten_packs", report.rewritten_pack_count},
                            {"merged_packs", report.merged_pack_count},
                            {"moved_bytes", report.moved_bytes},
                            {"stored_bytes_before", report.stored_bytes_before},
                            {"stored_bytes_after", report.stored_bytes_after},
                            {"missing_chunks", report.missing_chunk_count},
                            {"left_packs", report.left_pack_count},
                            {"left_bytes", report.left_bytes},
                            {"parity_failures", report.parity_failure_count},
                            {"findings", findings},
                            {"damage", report.damage},
                            {"seconds", seconds}});
  for (const std::string& damage : report.damage) {
    reporter.Warning("gc", absl::DataLossError(damage));
  }
  for (const std::string& finding : report.findings) {
    reporter.Warning("gc", absl::FailedPreconditionError(finding));
  }
  reporter.Line(Cat(FormatCount(report.live_chunk_count), " of ",
                    FormatCounted(report.chunk_count, "chunk"), " in use by ",
                    FormatCounted(report.snapshot_count, "snapshot")));
  const std::uint64_t freed_bytes =
      report.stored_bytes_before - std::min(report.stored_bytes_before, report.stored_bytes_after);
  reporter.Line(Cat(dry_run ? "would free " : "freed ", FormatByteSize(freed_bytes), "; ",
                    FormatByteSize(report.stored_bytes_after), " remain; ",
                    FormatCounted(report.deleted_pack_count - report.rewritten_pack_count, "pack"),
                    " deleted, ",
                    FormatCount(report.rewritten_pack_count - report.merged_pack_count),
                    " rewritten without their waste, ", FormatCount(report.merged_pack_count),
                    " small ones merged", absl::StrFormat("; %.2f s", seconds)));
}

ExitCode Run(Context& context, const GcFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const auto server = ServerOf(context, flags.server);
  if (!server.ok()) return FailUsage(context, server.status());
  const auto channels = client::OpenChannels(*server);
  if (!channels.ok()) return FailUsage(context, channels.status());
  const auto patience = flags.retry_for.Parse();
  if (!patience.ok()) return FailUsage(context, patience.status());
  const auto store = OpenStoreForWriting(context, flags.store);
  if (!store.ok()) return FailWith(context, store.status());
  if (const absl::Status status = CheckNotSetBack(**store); !status.ok()) {
    return FailWith(context, status);
  }
  InterruptedCalls calls(context);
  client::ServerIndex index(*channels, (*store)->config().id(), (*store)->digest_algorithm(),
                            CallOptionsOf(context, calls, *server, *patience));
  index.AcceptFull();
  CollectionOptions options;
  options.max_waste_ratio = flags.max_waste;
  options.dry_run = flags.dry_run;
  const auto keep_forgotten = ParseDuration(flags.keep_forgotten);
  if (!keep_forgotten.ok()) return FailUsage(context, keep_forgotten.status());
  if (const absl::Status started = StartOwnKerfd(context); !started.ok()) {
    return FailWith(context, started);
  }
  options.max_forgotten_age_s = std::chrono::ceil<std::chrono::seconds>(*keep_forgotten).count();
  options.on_step = [&context](CollectionStep) {
    return context.cancelled ? absl::CancelledError("the collection was interrupted")
                             : absl::OkStatus();
  };
  options.is_cancelled = [&context] { return context.cancelled.load(); };
  CollectionReport report;
  const absl::Status status = CollectGarbage(**store, index, options, report);
  // Also behind a failure: it is done.
  const bool has_changed = report.moved_bytes + report.deleted_pack_count > 0;
  if (!status.ok() && !has_changed && report.damage.empty()) {
    return FailWithServer(context, status, *server);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RememberStore(**store);
  Print(context.reporter, report, flags.dry_run, seconds);
  if (!status.ok()) return FailWithServer(context, status, *server);
  if (!index.full_status().ok()) {
    WarnOfFullIndex(context.reporter, server->text, index.full_status());
  }
  if (!report.damage.empty()) return ExitCode::kIntegrity;
  const bool is_partial =
      report.left_pack_count > 0 || report.parity_failure_count > 0 || !index.full_status().ok();
  return is_partial ? ExitCode::kPartial : ExitCode::kOk;
}

}  // namespace

void AddGcVerb(Context& context) {
  const Verb verb = AddVerb(context, "gc", "Free the space of what no snapshot needs", kExamples);
  auto flags = std::make_shared<GcFlags>();
  AddStoreOption(verb, flags->store);
  AddServerOption(verb, flags->server);
  verb.AddOption("--max-waste", flags->max_waste,
                 "Rewrite packs of which more than this share is not needed")
      .Range(0.0, 1.0)
      .ShowDefault();
  verb.AddOption("--keep-forgotten", flags->keep_forgotten,
                 "Keep what snapshots need that were forgotten less than this ago, as 12h or 7d: "
                 "`kerf undelete` brings them back")
      .Check(RefuseNoDuration)
      .Type("DURATION")
      .ShowDefault();
  AddIndexRetryOption(verb, flags->retry_for);
  verb.AddFlag("--dry-run", flags->dry_run, "Only say what would be done");
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
