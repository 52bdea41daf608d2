#include <memory>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress_display.h"
#include "client/store/snapshots/store_stats.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf stats --store /backup\n"
    "  kerf stats --store /backup --json";

ExitCode Run(Context& context, const std::string& directory) {
  EndAtOnceWhenInterrupted();
  const auto store = OpenStore(context, directory);
  if (!store.ok()) return FailWith(context, store.status());
  const auto stats = ReadStoreStats(**store);
  if (!stats.ok()) return FailWith(context, stats.status());
  Reporter& reporter = context.reporter;
  reporter.Json("summary", {{"repository", (*store)->config().id()},
                            {"profile", (*store)->config().profile()},
                            {"snapshots", stats->snapshot_count},
                            {"damaged_snapshots", stats->damaged_snapshot_count},
                            {"files", stats->file_count},
                            {"logical_bytes", stats->logical_bytes},
                            {"packs", stats->pack_count},
                            {"damaged_packs", stats->damaged_pack_count},
                            {"chunks", stats->chunk_count},
                            {"unique_bytes", stats->unique_bytes},
                            {"redundant_bytes", stats->redundant_bytes},
                            {"stored_bytes", stats->stored_bytes},
                            {"deduplication_ratio", stats->deduplication_ratio()},
                            {"compression_ratio", stats->compression_ratio()}});
  reporter.Result(Cat("repository  ", (*store)->config().id()));
  reporter.Result(Cat("profile     ", (*store)->config().profile()));
  reporter.Result(Cat("snapshots   ", FormatCount(stats->snapshot_count), ", of ",
                      FormatCounted(stats->file_count, "file"), ", ",
                      FormatByteSize(stats->logical_bytes)));
  reporter.Result(Cat("chunks      ", FormatCount(stats->chunk_count), ", ",
                      FormatByteSize(stats->unique_bytes),
                      absl::StrFormat(" (deduplication %.2fx)", stats->deduplication_ratio())));
  reporter.Result(Cat("packs       ", FormatCount(stats->pack_count), ", ",
                      FormatByteSize(stats->stored_bytes),
                      absl::StrFormat(" (compression %.2fx)", stats->compression_ratio())));
  if (stats->damaged_pack_count + stats->damaged_snapshot_count == 0) return ExitCode::kOk;
  reporter.Result(Cat("damaged     ", FormatCounted(stats->damaged_pack_count, "pack"), ", ",
                      FormatCounted(stats->damaged_snapshot_count, "snapshot"),
                      ": run kerf verify"));
  return ExitCode::kIntegrity;
}

}  // namespace

void AddStatsVerb(Context& context) {
  const Verb verb = AddVerb(context, "stats", "Show what a store holds and saves", kExamples);
  auto store = std::make_shared<std::string>();
  AddStoreOption(verb, *store);
  verb.OnRun([&context, store] { return Run(context, *store); });
}

}  // namespace kerf::agent
