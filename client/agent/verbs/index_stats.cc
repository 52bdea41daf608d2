#include <memory>
#include <optional>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/verbs/index_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress_display.h"
#include "client/store/collect/collection_guard.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf index stats --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf index stats --store /backup --json";

// What the epochs of store and index say together.
struct EpochRelation {
  std::string_view name;
  std::string_view meaning;
  bool is_to_mend = false;
};

EpochRelation Compare(std::uint64_t index_epoch, std::uint64_t store_epoch) {
  if (index_epoch == store_epoch) {
    return {"current", "as the store's: what the index calls a duplicate is believed"};
  }
  if (index_epoch > store_epoch) {
    return {
        "ahead",
        "past the store's: the store was set back to an older copy of itself. The index takes no "
        "commits, and what it has of the lost time is not in the store",
        true};
  }
  if (store_epoch == 1) {
    return {"fresh", "the store was never collected: all that the index has is believed"};
  }
  return {
      "behind",
      "behind the store's: what the index has from before is answered UNVERIFIED, so agents look "
      "into the store before they use it. Nothing is lost; backups take longer",
      true};
}

ExitCode Run(Context& context, const IndexFlags& flags, const client::ServerAddress& server,
             const Store& store, client::ServerIndex& index) {
  const absl::StatusOr<client::ServerIndexStats> stats = index.ReadStats();
  if (!stats.ok()) return FailWithServer(context, stats.status(), server);
  const absl::StatusOr<CollectionGuard> guard = CollectionGuard::Begin(store);
  if (!guard.ok()) return FailWith(context, guard.status());
  const EpochRelation relation = Compare(stats->epoch, guard->epoch());
  Reporter& reporter = context.reporter;
  reporter.Json("summary", {{"repository", store.config().id()},
                            {"server", server.text},
                            {"backend", stats->backend},
                            {"index_entries", stats->entry_count},
                            {"index_epoch", stats->epoch},
                            {"store_epoch", guard->epoch()},
                            {"epoch_state", relation.name},
                            {"collection_open", guard->plan_present()}});
  reporter.Result(Cat("repository   ", store.config().id()));
  reporter.Result(Cat("backend      ", Printable(stats->backend)));
  reporter.Result(Cat("entries      ", FormatCount(stats->entry_count)));
  reporter.Result(Cat("epoch        ", stats->epoch, "; the store's is ", guard->epoch()));
  reporter.Result(Cat("             ", relation.meaning, "."));
  if (guard->plan_present()) {
    reporter.Result(
        "collection   one is running, or was interrupted: until it is done the epochs "
        "may differ");
    reporter.Result(
        Cat("to mend      if none is running: ", RebuildCommand(flags), ", or the next kerf gc"));
  } else if (relation.is_to_mend) {
    reporter.Result(Cat("to mend      ", RebuildCommand(flags), ", or the next kerf gc"));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddIndexStats(Context& context, const Verb& index_verb) {
  auto flags = std::make_shared<IndexFlags>();
  const Verb verb = AddIndexSubverb(
      index_verb, "stats", "Show how large the index is, and its epoch", kExamples, *flags);
  verb.OnRun([&context, flags] {
    EndAtOnceWhenInterrupted();
    return WithIndex(
        context, *flags,
        [&](const Store& store, client::ServerIndex& index, const client::ServerAddress& server) {
          return Run(context, *flags, server, store, index);
        });
  });
}

}  // namespace kerf::agent
