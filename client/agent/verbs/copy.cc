#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/compression_flag.h"
#include "client/agent/verbs/index_warning.h"
#include "client/agent/verbs/interrupted_calls.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/retry_notice.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"
#include "client/cpp/server_index.h"
#include "client/store/copy/copy_run.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf copy --store /backup --to /mnt/disk/backup\n"
    "      all snapshots that are not there yet\n"
    "  kerf copy --store /backup --to /mnt/disk/backup latest 3f2a91\n"
    "  kerf copy --store /backup --to /mnt/disk/backup --host web1 --last 7\n"
    "  kerf copy --store /backup --to /mnt/disk/backup --create\n"
    "      makes the other store first, which cuts and names chunks as this one\n"
    "  kerf copy --store /backup --to /mnt/disk/backup --compression max\n"
    "Chunks that are there already are not copied again; what is read is checked. It may be\n"
    "interrupted and goes on the next time, and may run beside backups and collections in either\n"
    "store.";

struct CopyFlags {
  std::vector<std::string> snapshots;
  std::string store;
  std::string to;
  ServerFlags server;
  std::string host;
  std::string path;
  unsigned last = 0;
  bool create = false;
  std::string compression = kCompression;

  bool has_filter() const { return !host.empty() || !path.empty() || last > 0; }
};

// What is to be copied, oldest first, and what of it cannot be.
struct Chosen {
  std::vector<store::v1::Snapshot> snapshots;
  std::vector<DamagedSnapshot> damaged;
};

bool Passes(const store::v1::Snapshot& snapshot, const CopyFlags& flags) {
  if (!flags.host.empty() && snapshot.host() != flags.host) return false;
  return flags.path.empty() || std::find(snapshot.paths().begin(), snapshot.paths().end(),
                                         flags.path) != snapshot.paths().end();
}

absl::StatusOr<Chosen> Choose(const Store& store, const CopyFlags& flags) {
  Chosen chosen;
  for (const std::string& name : flags.snapshots) {
    KERF_ASSIGN_OR_RETURN(store::v1::Snapshot snapshot, store.FindSnapshot(name));
    const bool is_known =
        std::any_of(chosen.snapshots.begin(), chosen.snapshots.end(),
                    [&](const store::v1::Snapshot& other) { return other.id() == snapshot.id(); });
    if (!is_known) chosen.snapshots.push_back(std::move(snapshot));
  }
  if (!flags.snapshots.empty()) return chosen;
  KERF_ASSIGN_OR_RETURN(SnapshotList list, store.ListSnapshots());
  // Those are among the newest, or not.
  if (flags.last > 0) KERF_RETURN_IF_ERROR(CheckAllAreSound(list));
  chosen.damaged = std::move(list.damaged);
  for (const MissingSnapshot& missing : list.missing) {
    chosen.damaged.push_back({SnapshotPath(store.snapshots_directory(), missing.id),
                              DescribeLoss(missing), missing.id, missing.started_unix_ns});
  }
  if (!list.manifest.ok()) {
    chosen.damaged.push_back({store.manifest().directory(), list.manifest, "", std::nullopt});
  }
  for (store::v1::Snapshot& snapshot : list.snapshots) {
    if (Passes(snapshot, flags)) chosen.snapshots.push_back(std::move(snapshot));
  }
  if (flags.last > 0 && chosen.snapshots.size() > flags.last) {
    chosen.snapshots.erase(chosen.snapshots.begin(), chosen.snapshots.end() - flags.last);
  }
  return chosen;
}

absl::StatusOr<std::unique_ptr<Store>> OpenTarget(Context& context, const Store& from,
                                                  const CopyFlags& flags) {
  absl::StatusOr<std::unique_ptr<Store>> to =
      flags.create ? Store::OpenOrCreate(flags.to, from.config().profile(), from.digest_algorithm())
                   : Store::OpenForWriting(flags.to);
  if (to.ok()) {
    WarnOfFlaws(context, **to);
    WarnOfSetBack(context, **to);
  }
  if (!absl::IsNotFound(to.status())) return to;
  return absl::NotFoundError(
      Cat(flags.to, " holds no store: is it mounted? --create makes a new one there"));
}

std::string_view OutcomeName(CopyOutcome outcome) {
  switch (outcome) {
    case CopyOutcome::kCopied:
      return "copied";
    case CopyOutcome::kWasThere:
      return "present";
    case CopyOutcome::kFailed:
      break;
  }
  return "failed";
}

void Say(Reporter& reporter, const SnapshotCopy& copy) {
  reporter.Json("copied", {{"snapshot", copy.id},
                           {"outcome", OutcomeName(copy.outcome)},
                           {"code", StatusCodeName(copy.status.code())},
                           {"message", std::string(MessageOf(copy.status))},
                           {"new_chunks", copy.new_chunk_count},
                           {"new_bytes", copy.new_bytes}});
  if (copy.outcome == CopyOutcome::kFailed) {
    reporter.Warning(Cat("snapshot ", copy.id), copy.status);
    return;
  }
  reporter.Line(copy.outcome == CopyOutcome::kWasThere
                    ? Cat("snapshot ", copy.id, " was there")
                    : Cat("snapshot ", copy.id,
                          " is copied: ", FormatCounted(copy.new_chunk_count, "new chunk"), ", ",
                          FormatByteSize(copy.new_bytes)));
}

void PrintSummary(Reporter& reporter, const CopyReport& report, double seconds,
                  bool is_index_behind) {
  reporter.Json("summary", {{"copied", report.copied_count},
                            {"present", report.present_count},
                            {"failed", report.failed_count},
                            {"new_chunks", report.new_chunk_count},
                            {"new_bytes", report.new_bytes},
                            {"stored_bytes", report.stored_bytes},
                            {"index_warning", std::string(MessageOf(report.index_warning))},
                            {"index_warning_reason", client::ReasonOfCall(report.index_warning)},
                            {"index_warning_request_id", client::RequestIdOf(report.index_warning)},
                            {"seconds", seconds}});
  reporter.Line(Cat(FormatCounted(report.copied_count, "snapshot"), " copied, ",
                    FormatCount(report.present_count), " were there, ",
                    FormatCount(report.failed_count), " failed; ",
                    FormatCounted(report.new_chunk_count, "new chunk"), ", ",
                    FormatByteSize(report.new_bytes), ", stored in ",
                    FormatByteSize(report.stored_bytes), absl::StrFormat("; %.2f s", seconds)));
  // Else it was a warning already.
  if (!report.index_warning.ok() && !is_index_behind) {
    reporter.Notice(
        Cat("the index does not know all of these chunks yet: backups that meet them "
            "tell it, or kerf index rebuild (",
            DescribeFailure(report.index_warning), ")"));
  }
}

// What the display shows; written by the run.
struct Shared {
  std::mutex mutex;
  CopyProgress progress;
};

absl::Status CopyWithProgress(Context& context, const Store& from, const Store& to,
                              const Chosen& chosen, CopyOptions options, CopyReport& report) {
  std::uint64_t total_files = 0;
  std::uint64_t total_bytes = 0;
  for (const store::v1::Snapshot& snapshot : chosen.snapshots) {
    total_files += snapshot.stats().file_count();
    total_bytes += snapshot.stats().total_bytes();
  }
  Shared shared;
  const ProgressDisplay display(context.reporter, "copy", [&] {
    const std::lock_guard lock(shared.mutex);
    ProgressState state;
    state.done_files = shared.progress.files_done;
    state.total_files = total_files;
    state.done_bytes = shared.progress.bytes_done;
    state.total_bytes = total_bytes;
    return state;
  });
  options.on_progress = [&shared](const CopyProgress& progress) {
    const std::lock_guard lock(shared.mutex);
    shared.progress = progress;
  };
  return CopySnapshots(from, to, chosen.snapshots, options, report);
}

ExitCode Run(Context& context, const CopyFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  Reporter& reporter = context.reporter;
  if (!flags.snapshots.empty() && flags.has_filter()) {
    return FailUsage(context, absl::InvalidArgumentError(
                                  "name snapshots to copy, or give --host, --path or --last, not "
                                  "both; see kerf copy --help"));
  }
  const auto from = OpenStore(context, flags.store);
  if (!from.ok()) return FailWith(context, from.status());
  const absl::StatusOr<Chosen> chosen = Choose(**from, flags);
  if (!chosen.ok()) return FailWith(context, chosen.status());
  const auto to = OpenTarget(context, **from, flags);
  if (!to.ok()) return FailWith(context, to.status());
  if (const absl::Status status = CheckCopyable(**from, **to); !status.ok()) {
    return FailWith(context, status);
  }
  CopyOptions options;
  const absl::StatusOr<Compression> compression = ParseCompression(flags.compression);
  if (!compression.ok()) return FailUsage(context, compression.status());
  options.transfer.compression = *compression;
  options.transfer.cancelled = [&context] { return context.cancelled.load(); };
  std::atomic<std::uint64_t> parity_failure_count = 0;
  options.transfer.on_parity_failed = [&](const absl::Status& status) {
    ++parity_failure_count;
    reporter.Warning(flags.to, status);
  };
  options.on_snapshot = [&reporter](const SnapshotCopy& copy) { Say(reporter, copy); };
  InterruptedCalls calls(context);
  std::optional<client::ServerIndex> index;
  if (!flags.server.address.empty()) {
    const auto server = ServerOf(context, flags.server);
    if (!server.ok()) return FailUsage(context, server.status());
    const auto channels = client::OpenChannels(*server);
    if (!channels.ok()) return FailUsage(context, channels.status());
    if (const absl::Status started = StartOwnKerfd(context); !started.ok()) {
      return FailWith(context, started);
    }
    index.emplace(*channels, (*to)->config().id(), (*to)->digest_algorithm(),
                  CallOptionsOf(context, calls, *server));
    options.commit = [&index](std::uint64_t epoch, std::span<const StoredChunk> chunks) {
      return index->Commit(epoch, chunks);
    };
  }
  for (const DamagedSnapshot& damaged : chosen->damaged) {
    reporter.Warning(damaged.path, damaged.status);
  }
  const absl::StatusOr<std::uint64_t> epoch_before = (*to)->ReadEpoch();
  if (!epoch_before.ok()) return FailWith(context, epoch_before.status());
  CopyReport report;
  const absl::Status status =
      CopyWithProgress(context, **from, **to, *chosen, std::move(options), report);
  RememberStore(**to);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool is_index_behind = IsIndexBehind(report.index_warning, **to, *epoch_before);
  if (is_index_behind) WarnOfIndex(reporter, flags.server.address, report.index_warning);
  // Also behind a failure: it is done.
  PrintSummary(reporter, report, seconds, is_index_behind);
  if (!status.ok()) return FailWith(context, status);
  if (report.damaged_count > 0 || !chosen->damaged.empty()) return ExitCode::kIntegrity;
  const bool is_partial = report.failed_count > 0 || is_index_behind || parity_failure_count > 0;
  return is_partial ? ExitCode::kPartial : ExitCode::kOk;
}

}  // namespace

void AddCopyVerb(Context& context) {
  const Verb verb = AddVerb(context, "copy", "Copy snapshots into another store", kExamples);
  auto flags = std::make_shared<CopyFlags>();
  verb.AddOption("snapshots", flags->snapshots, "Snapshots to copy; else all")
      .Check(RefuseEmpty)
      .Type("SNAPSHOT");
  AddStoreOption(verb, flags->store);
  verb.AddOption("--to", flags->to, "The store to copy to")
      .Check(RefuseEmpty)
      .Type("DIR")
      .Required();
  verb.AddFlag("--create", flags->create, "Make that store if there is none");
  verb.AddOption("--host", flags->host, "Only those of this machine")
      .Check(RefuseEmpty)
      .Type("NAME");
  verb.AddOption("--path", flags->path, "Only those of this path, as kerf snapshots shows it")
      .Check(RefuseEmpty)
      .Type("PATH");
  verb.AddOption("--last", flags->last, "Only the newest so many of these; 0: all").ShowDefault();
  verb.AddOption("--server", flags->server.address,
                 "A kerfd or front whose index is to know the chunks of the other store at once; "
                 "without it backups that meet them tell it, or kerf index rebuild")
      .Environment("KERF_SERVER")
      .Check(RefuseEmpty)
      .Type("ADDR");
  AddTlsOptions(verb, flags->server);
  AddCompressionOption(verb, flags->compression);
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
