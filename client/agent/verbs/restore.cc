#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/restore/restore_run.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/snapshot_name.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/cut_flags.h"
#include "client/cli/progress_display.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf restore latest --store /backup --target /tmp/restored\n"
    "      /etc/hosts becomes /tmp/restored/etc/hosts\n"
    "  kerf restore 3f2a91:/etc/ssh --store /backup --target /etc/ssh --overwrite always\n"
    "      what was in /etc/ssh goes straight into the target\n"
    "  kerf restore latest:/srv --store /backup --target /srv --overwrite if-changed --verify\n"
    "      what differs in size or time is replaced, and read back from the disk\n"
    "  kerf restore latest:/srv --store /backup --target /srv --overwrite if-changed --delete "
    "--dry-run\n"
    "      lists what --delete would remove, because the snapshot has it not; without --dry-run\n"
    "      /srv is as in the snapshot then\n"
    "  kerf restore latest --store /mnt/other --target /tmp/look --no-setid --no-devices "
    "--max-bytes 10G\n"
    "      a snapshot that you have from somebody whom you do not trust; as root, or as anybody";

struct RestoreFlags {
  std::string snapshot;
  std::string store;
  std::string target;
  std::string overwrite = "refuse";
  bool no_verify = false;
  bool no_sync = false;
  bool trust_salvaged = false;
  bool no_setid = false;
  bool no_devices = false;
  std::string max_bytes;
  bool delete_others = false;
  bool delete_excluded = false;
  bool dry_run = false;
  bool verify = false;
  unsigned threads = 0;
};

// What the display shows; written by the run.
struct Shared {
  std::mutex mutex;
  RestoreSummary summary;
};

nlohmann::json SummaryJson(const store::v1::Snapshot& snapshot, const RestoreResult& result,
                           double seconds) {
  const RestoreSummary& summary = result.restored;
  return {{"snapshot", snapshot.id()},
          {"files", summary.file_count},
          {"directories", summary.directory_count},
          {"others", summary.other_count},
          {"skipped", summary.skipped_count},
          {"verified", summary.verified_count},
          {"errors", summary.error_count},
          {"deleted", result.removed_count},
          {"undeleted", result.unremoved_count},
          {"spared", result.spared_count},
          {"unprivileged", summary.unprivileged_count},
          {"lost_places", result.gap_count},
          {"lost_entries", result.lost_entry_count},
          {"made_up_directories", result.made_up_count},
          {"withheld", result.withheld_count},
          {"without_setid", result.without_set_id_count},
          {"left_out_devices", result.left_out_device_count},
          {"unreadable", result.unreadable.size()},
          {"bytes", summary.written_bytes},
          {"seconds", seconds}};
}

void PrintSalvage(Reporter& reporter, const RestoreResult& result) {
  if (result.gap_count == 0) return;
  reporter.Line(Cat("  LOST      ", FormatCounted(result.lost_entry_count, "entry"),
                    " of the snapshot at ", FormatCounted(result.gap_count, "damaged place"),
                    "; what could be read is restored"));
  if (result.made_up_count > 0) {
    reporter.Line(Cat("  made up   ", FormatCounted(result.made_up_count, "directory"),
                      " of which only the name is known"));
  }
  if (result.withheld_count > 0) {
    reporter.Line(Cat("  withheld  special rights of ",
                      FormatCounted(result.withheld_count, "entry"), " (see --trust-salvaged)"));
  }
}

void Print(Reporter& reporter, const store::v1::Snapshot& snapshot, const RestoreResult& result,
           const std::string& target, double seconds) {
  const RestoreSummary& summary = result.restored;
  reporter.Line(Cat("restored snapshot ", snapshot.id(), " to ", Printable(target)));
  reporter.Line(Cat("  files     ", FormatCount(summary.file_count), ", ",
                    FormatByteSize(summary.written_bytes), "; ",
                    FormatCounted(summary.directory_count, "directory"), ", ",
                    FormatCounted(summary.other_count, "other")));
  reporter.Line(Cat("  time      ", absl::StrFormat("%.2f s, ", seconds),
                    FormatByteSize(static_cast<std::uint64_t>(
                        static_cast<double>(summary.written_bytes) / std::max(seconds, 1e-3))),
                    "/s"));
  if (summary.verified_count > 0) {
    reporter.Line(Cat("  read back ", FormatCounted(summary.verified_count, "file"),
                      ", as they were written"));
  }
  if (summary.unprivileged_count > 0) {
    reporter.Line(Cat("  as root only: ", FormatCount(summary.unprivileged_count),
                      " owners or attributes were not set"));
  }
  if (result.removed_count > 0) {
    reporter.Line(Cat("  deleted   ", FormatCounted(result.removed_count, "entry"),
                      " that the snapshot has not"));
  }
  if (result.spared_count > 0) {
    reporter.Line(Cat("  spared    ", FormatCounted(result.spared_count, "entry"),
                      " that the backup left out (see --delete-excluded)"));
  }
  if (result.without_set_id_count > 0) {
    reporter.Line(Cat("  no set-id ", FormatCounted(result.without_set_id_count, "entry"),
                      " without set-id bits, capabilities or labels (--no-setid)"));
  }
  if (result.left_out_device_count > 0) {
    reporter.Line(Cat("  left out  ", FormatCounted(result.left_out_device_count, "device"),
                      " (--no-devices)"));
  }
  PrintSalvage(reporter, result);
  if (summary.error_count > 0) {
    reporter.Line(Cat("  partial   ", FormatCounted(summary.error_count, "entry"), " failed"));
  }
}

absl::StatusOr<RestoreRestrictions> RestrictionsOf(const RestoreFlags& flags) {
  RestoreRestrictions restrictions;
  restrictions.no_set_id = flags.no_setid;
  restrictions.no_devices = flags.no_devices;
  if (!flags.max_bytes.empty()) {
    constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
    KERF_ASSIGN_OR_RETURN(restrictions.max_bytes,
                          ParseSizeFlag("--max-bytes", flags.max_bytes, 0, kAny));
  }
  return restrictions;
}

RestoreRunOptions OptionsOf(const RestoreFlags& flags, const SnapshotName& name) {
  RestoreRunOptions options;
  options.subtree = name.path;
  options.target = flags.target;
  options.restore.overwrite = *ParseOverwritePolicy(flags.overwrite);
  options.restore.thread_count = flags.threads;
  options.restore.sync = !flags.no_sync;
  options.restore.verify = flags.verify;
  options.verify_chunks = !flags.no_verify;
  options.trust_doubtful = flags.trust_salvaged;
  options.delete_others = flags.delete_others;
  options.delete_excluded = flags.delete_excluded;
  options.dry_run = flags.dry_run;
  return options;
}

void WarnOfUnreadable(Reporter& reporter, const std::string& store, const RestoreResult& result) {
  for (const absl::Status& status : result.unreadable) {
    reporter.Warning(store, Annotate(status,
                                     "this could not be read and was done without (see "
                                     "`kerf verify --read-data`)"));
  }
}

// What is wrong with flags that do not go together; empty: nothing.
std::string FindContradiction(const RestoreFlags& flags) {
  if (flags.verify && flags.no_sync) {
    return "--verify reads back what is on the disk: leave --no-sync out";
  }
  if (flags.dry_run && !flags.delete_others) return "--dry-run is for --delete";
  if (flags.delete_excluded && !flags.delete_others) return "--delete-excluded is for --delete";
  if (flags.delete_others && flags.overwrite != "if-changed" && flags.overwrite != "always") {
    return "--delete makes the target as the snapshot is: it needs --overwrite if-changed or "
           "always";
  }
  return "";
}

// Of each thing that --delete removes.
void TellRemoved(Reporter& reporter, const RestoreFlags& flags, const std::string& path) {
  const std::string full = Cat(flags.target, "/", path);
  reporter.Line(Cat(flags.dry_run ? "would delete " : "deleted ", Printable(full)));
  nlohmann::json object = {{"dry_run", flags.dry_run}};
  PutBytes(object, "path", full);
  reporter.Json("deleted", std::move(object));
}

ExitCode Run(Context& context, const RestoreFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  Reporter& reporter = context.reporter;
  if (const std::string wrong = FindContradiction(flags); !wrong.empty()) {
    return FailUsage(context, absl::InvalidArgumentError(wrong));
  }
  const auto restrictions = RestrictionsOf(flags);
  if (!restrictions.ok()) return FailUsage(context, restrictions.status());
  const auto store = OpenStore(context, flags.store);
  if (!store.ok()) return FailWith(context, store.status());
  const SnapshotName name = ParseSnapshotName(flags.snapshot);
  const auto snapshot = (*store)->FindSnapshot(name.snapshot);
  if (!snapshot.ok()) return FailWith(context, snapshot.status());

  auto shared = std::make_shared<Shared>();
  RestoreRunOptions options = OptionsOf(flags, name);
  options.restrictions = *restrictions;
  // One call at a time.
  std::uint64_t damaged_count = 0;
  absl::Status disk_full;
  std::atomic<bool> stop{false};
  options.restore.on_error = [&](const std::string& path, const absl::Status& status) {
    // One disk without room is one error, not one for each file.
    if (absl::IsResourceExhausted(status)) {
      disk_full.Update(status);
      stop = true;
    }
    if (absl::IsDataLoss(status)) ++damaged_count;
    if (!stop && !absl::IsCancelled(status)) {
      reporter.Warning(Cat(flags.target, "/", path), status);
    }
  };
  options.on_removed = [&](const std::string& path) { TellRemoved(reporter, flags, path); };
  options.cancelled = [&] { return stop || context.cancelled; };
  options.on_progress = [shared](const RestoreSummary& summary) {
    std::lock_guard lock(shared->mutex);
    shared->summary = summary;
  };
  absl::StatusOr<RestoreResult> result;
  {
    const ProgressDisplay display(reporter, "restore", [shared, &snapshot] {
      std::lock_guard lock(shared->mutex);
      ProgressState state;
      state.done_files = shared->summary.file_count;
      state.total_files = snapshot->stats().file_count();
      state.done_bytes = shared->summary.written_bytes;
      state.total_bytes = snapshot->stats().total_bytes();
      return state;
    });
    result = RunRestore(**store, *snapshot, options);
  }
  if (!disk_full.ok()) {
    return FailWith(context, Annotate(disk_full, Cat("the disk of ", flags.target, " is full")));
  }
  if (!result.ok()) return FailWith(context, result.status());
  WarnOfUnreadable(reporter, flags.store, *result);
  if (result->kept_others) {
    reporter.Warning(flags.target, absl::AbortedError("nothing was deleted, because not all of the "
                                                      "snapshot could be restored"));
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reporter.Json("summary", SummaryJson(*snapshot, *result, seconds));
  if (!flags.dry_run) Print(reporter, *snapshot, *result, flags.target, seconds);
  if (damaged_count > 0) return FailDamaged(context, **store, *snapshot);
  const bool is_partial = result->restored.error_count > 0 || result->unremoved_count > 0;
  return is_partial ? ExitCode::kPartial : ExitCode::kOk;
}

}  // namespace

void AddRestoreVerb(Context& context) {
  const Verb verb = AddVerb(context, "restore", "Bring a snapshot, or part of it, back", kExamples);
  auto flags = std::make_shared<RestoreFlags>();
  verb.AddOption("snapshot", flags->snapshot,
                 "Id, beginning of an id, or latest (by the clock of the agents)")
      .Required()
      .Check(RefuseEmpty)
      .Type("SNAPSHOT[:PATH]");
  AddStoreOption(verb, flags->store);
  verb.AddOption("--target", flags->target, "Where to; made if it does not exist")
      .Required()
      .Check(RefuseEmpty)
      .Type("DIR");
  verb.AddOption("--overwrite", flags->overwrite,
                 "What is in the way: refuse (report it), never (leave it), if-changed, always")
      .Choices({"refuse", "never", "if-changed", "always"})
      .ShowDefault();
  verb.AddFlag("--verify", flags->verify,
               "Read each file back, from the disk where the system lets it, and compare");
  verb.AddFlag("--no-sync", flags->no_sync,
               "Leave it to the system when what is restored becomes durable");
  verb.AddFlag(
      "--delete", flags->delete_others,
      "At and below the paths that were backed up, remove from the target what the snapshot "
      "has not, once all of it is restored; on the target's own file system only. What the "
      "backup was told to leave out stays, unless the snapshot is one of kerf 0.1.0, which does "
      "not say so");
  verb.AddFlag("--delete-excluded", flags->delete_excluded,
               "With --delete: remove also what the backup was told to leave out (--exclude, other "
               "file systems)");
  verb.AddFlag("--dry-run", flags->dry_run,
               "With --delete: restore nothing, and list what would be removed");
  verb.AddFlag(
      "--trust-salvaged", flags->trust_salvaged,
      "Of a damaged snapshot: restore set-id bits, capabilities and devices of entries that "
      "were found behind the damage, where a user could have planted them");
  verb.AddFlag(
      "--no-setid", flags->no_setid,
      "Restore without set-user-ID and set-group-ID bits, file capabilities and other "
      "attributes that only root can set (security.*, trusted.*); for snapshots of others. "
      "What is in the target and is left there (--overwrite) keeps them");
  verb.AddFlag("--no-devices", flags->no_devices,
               "Leave out block and character devices, and say how many");
  verb.AddOption("--max-bytes", flags->max_bytes,
                 "Restore nothing if it takes more than that, as 10G: content, written or there "
                 "already, but not the holes of sparse files; extended attributes; targets of "
                 "symlinks. The list of files is read for it, twice: what the snapshot says of its "
                 "size does not count. How many entries there are has no limit")
      .Type("SIZE");
  verb.AddFlag("--no-verify", flags->no_verify, "Do not hash what is read from the store");
  verb.AddOption("--threads", flags->threads, "Threads that write; 0: one for each core")
      .Range(0u, 256u)
      .ShowDefault();
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
