#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <set>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/verbs.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf forget 3f2a91 --store /backup\n"
    "  kerf forget --keep-last 3 --keep-daily 7 --keep-weekly 4 --store /backup --dry-run\n"
    "Forgetting frees no space: `kerf gc` does.";
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
// How far the clocks of machines that share a store may be apart unnoticed.
constexpr std::int64_t kMaxClockLeadNs = 600 * kNsPerSecond;

struct ForgetFlags {
  std::vector<std::string> snapshots;
  std::string store;
  unsigned keep_last = 0;
  unsigned keep_daily = 0;
  unsigned keep_weekly = 0;
  unsigned keep_monthly = 0;
  unsigned keep_yearly = 0;
  bool ignore_future = false;
  bool dry_run = false;

  bool has_rule() const {
    return (keep_last | keep_daily | keep_weekly | keep_monthly | keep_yearly) != 0;
  }
};

// Keeps the newest snapshot of each of the `count` newest periods.
void KeepByPeriod(const std::vector<const store::v1::Snapshot*>& newest_first, const char* format,
                  unsigned count, std::set<std::string>& kept) {
  std::set<std::string> periods;
  for (const store::v1::Snapshot* snapshot : newest_first) {
    const std::time_t seconds = snapshot->started_unix_ns() / kNsPerSecond;
    std::tm local{};
    char period[32] = "";
    if (localtime_r(&seconds, &local) != nullptr) {
      std::strftime(period, sizeof period, format, &local);
    }
    if (periods.contains(period)) continue;
    if (periods.size() >= count) return;
    periods.insert(period);
    kept.insert(snapshot->id());
  }
}

// Rules apply to each host and set of paths by itself.
std::vector<std::string> ByRule(const SnapshotList& list, const ForgetFlags& flags) {
  std::map<std::string, std::vector<const store::v1::Snapshot*>> groups;
  for (auto snapshot = list.snapshots.rbegin(); snapshot != list.snapshots.rend(); ++snapshot) {
    std::string key = snapshot->host();
    for (const std::string& path : snapshot->paths()) key += '\0' + path;
    groups[key].push_back(&*snapshot);
  }
  std::vector<std::string> forgotten;
  for (const auto& [key, newest_first] : groups) {
    std::set<std::string> kept;
    for (std::size_t index = 0; index < newest_first.size() && index < flags.keep_last; ++index) {
      kept.insert(newest_first[index]->id());
    }
    KeepByPeriod(newest_first, "%Y-%m-%d", flags.keep_daily, kept);
    KeepByPeriod(newest_first, "%G-%V", flags.keep_weekly, kept);
    KeepByPeriod(newest_first, "%Y-%m", flags.keep_monthly, kept);
    KeepByPeriod(newest_first, "%Y", flags.keep_yearly, kept);
    for (const store::v1::Snapshot* snapshot : newest_first) {
      if (!kept.contains(snapshot->id())) forgotten.push_back(snapshot->id());
    }
  }
  return forgotten;
}

// One whose time is yet to come would stand for each new day until then, and all that are made
// meanwhile would be forgotten. Which clock is wrong, that of its agent or this one, only people
// know: they say so, and it is kept and counts for no rule.
absl::Status SetFutureAside(SnapshotList& list, bool ignore_future) {
  const std::int64_t now_unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                       std::chrono::system_clock::now().time_since_epoch())
                                       .count();
  const auto first = std::find_if(
      list.snapshots.begin(), list.snapshots.end(), [&](const store::v1::Snapshot& snapshot) {
        return snapshot.started_unix_ns() - kMaxClockLeadNs > now_unix_ns;
      });
  if (first == list.snapshots.end()) return absl::OkStatus();
  if (!ignore_future) {
    return absl::FailedPreconditionError(
        Cat("snapshot ", first->id(), " is from the future (", list.snapshots.end() - first,
            " in all): the clock of its machine was ahead, or the one here is behind. Mend the ",
            "clock, or say --ignore-future: they are kept then and count for no rule; or forget ",
            "them by their ids"));
  }
  list.snapshots.erase(first, list.snapshots.end());
  return absl::OkStatus();
}

// Says of each that it is done, and at the end of how many, also behind a failure.
absl::Status Remove(Context& context, const Store& store, const std::vector<std::string>& ids,
                    bool dry_run) {
  std::size_t done_count = 0;
  absl::Status status;
  for (const std::string& id : ids) {
    if (context.cancelled) status = absl::CancelledError("it was interrupted");
    if (status.ok() && !dry_run) status = store.RemoveSnapshot(id);
    if (!status.ok()) break;
    ++done_count;
    context.reporter.Json("forgotten", {{"snapshot", id}, {"dry_run", dry_run}});
    context.reporter.Line(Cat(dry_run ? "would forget " : "forgot ", id));
  }
  context.reporter.Json("summary", {{"forgotten", done_count}, {"dry_run", dry_run}});
  if (ids.empty()) context.reporter.Line("nothing to forget");
  if (!status.ok() && ids.size() > 1) {
    context.reporter.Line(Cat(done_count, " of ", ids.size(), " were forgotten"));
  }
  return status;
}

absl::Status Forget(Context& context, const ForgetFlags& flags) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store,
                        OpenStoreForWriting(context, flags.store));
  KERF_ASSIGN_OR_RETURN(SnapshotList list, store->ListSnapshots());
  KERF_RETURN_IF_ERROR(CheckNoneIsMissing(list));
  // What stays may be what cannot be read.
  KERF_RETURN_IF_ERROR(Annotate(CheckPacksAreListed(store->packs_directory()),
                                "nothing is forgotten while a part of the store cannot be read"));
  std::vector<std::string> ids;
  if (flags.has_rule()) {
    // Rules go by the order of all snapshots.
    KERF_RETURN_IF_ERROR(CheckAllAreSound(list));
    KERF_RETURN_IF_ERROR(CheckNotSetBack(*store));
    KERF_RETURN_IF_ERROR(SetFutureAside(list, flags.ignore_future));
    ids = ByRule(list, flags);
    std::erase_if(ids, [&](const std::string& id) { return store->pins().Has(id); });
  } else {
    WarnOfSetBack(context, *store);
  }
  // All names are looked up before anything is removed.
  for (const std::string& name : flags.snapshots) {
    KERF_ASSIGN_OR_RETURN(const store::v1::Snapshot snapshot, store->FindSnapshot(name));
    // One may have been named twice, as its id and as latest.
    if (std::find(ids.begin(), ids.end(), snapshot.id()) == ids.end()) ids.push_back(snapshot.id());
  }
  for (const std::string& id : ids) {
    if (!store->pins().Has(id)) continue;
    return absl::FailedPreconditionError(
        Cat("snapshot ", id, " is pinned: `kerf unpin ", id, "` lets it be forgotten"));
  }
  const absl::Status status = Remove(context, *store, ids, flags.dry_run);
  RememberStore(*store);
  return status;
}

}  // namespace

void AddForgetVerb(Context& context) {
  const Verb verb = AddVerb(context, "forget", "Remove snapshots, by name or by rule", kExamples);
  auto flags = std::make_shared<ForgetFlags>();
  verb.AddOption("snapshots", flags->snapshots, "Snapshots to remove")
      .Check(RefuseEmpty)
      .Type("SNAPSHOT");
  AddStoreOption(verb, flags->store);
  verb.AddOption("--keep-last", flags->keep_last,
                 "Keep this many of the newest, by the clock of the agent that made them");
  verb.AddOption("--keep-daily", flags->keep_daily, "Keep the newest of this many days");
  verb.AddOption("--keep-weekly", flags->keep_weekly, "Keep the newest of this many weeks");
  verb.AddOption("--keep-monthly", flags->keep_monthly, "Keep the newest of this many months");
  verb.AddOption("--keep-yearly", flags->keep_yearly, "Keep the newest of this many years");
  verb.AddFlag("--ignore-future", flags->ignore_future,
               "Keep snapshots whose time is yet to come, and apply the rules to the others");
  verb.AddFlag("--dry-run", flags->dry_run, "Only say what would be removed");
  verb.OnRun([&context, flags] {
    if (flags->snapshots.empty() != flags->has_rule()) {
      return FailUsage(
          context, absl::InvalidArgumentError(
                       "name snapshots to forget, or give --keep rules, not both; see kerf forget "
                       "--help"));
    }
    const absl::Status status = Forget(context, *flags);
    return status.ok() ? ExitCode::kOk : FailWith(context, status);
  });
}

}  // namespace kerf::agent
