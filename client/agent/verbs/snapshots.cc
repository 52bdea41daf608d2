#include <ctime>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress_display.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf snapshots --store /backup\n"
    "  kerf snapshots --store /backup --json";
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::string FormatTime(std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / kNsPerSecond;
  std::tm local{};
  char text[32] = "";
  if (localtime_r(&seconds, &local) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  }
  return text;
}

void ReportJson(Reporter& reporter, const store::v1::Snapshot& snapshot, bool is_pinned) {
  nlohmann::json paths = nlohmann::json::array();
  for (const std::string& path : snapshot.paths()) {
    nlohmann::json object;
    PutBytes(object, "path", path);
    paths.push_back(std::move(object));
  }
  nlohmann::json excludes = nlohmann::json::array();
  for (const std::string& pattern : snapshot.left_out().excludes()) {
    nlohmann::json object;
    PutBytes(object, "pattern", pattern);
    excludes.push_back(std::move(object));
  }
  reporter.Json("snapshot", {{"snapshot", snapshot.id()},
                             {"started_unix_ns", snapshot.started_unix_ns()},
                             {"finished_unix_ns", snapshot.finished_unix_ns()},
                             {"host", snapshot.host()},
                             {"user", snapshot.user()},
                             {"paths", std::move(paths)},
                             {"excludes", std::move(excludes)},
                             {"one_file_system", snapshot.left_out().one_file_system()},
                             {"parent", snapshot.parent()},
                             {"replaces", snapshot.salvage().replaces()},
                             {"lost_entries", snapshot.salvage().lost_entry_count() +
                                                  snapshot.salvage().left_out_count()},
                             {"profile", snapshot.profile()},
                             {"files", snapshot.stats().file_count()},
                             {"total_bytes", snapshot.stats().total_bytes()},
                             {"new_bytes", snapshot.stats().new_bytes()},
                             {"stored_bytes", snapshot.stats().stored_bytes()},
                             {"errors", snapshot.stats().error_count()},
                             {"pinned", is_pinned}});
}

ExitCode Run(Context& context, const std::string& directory, bool forgotten) {
  EndAtOnceWhenInterrupted();
  const auto store = OpenStore(context, directory);
  if (!store.ok()) return FailWith(context, store.status());
  const auto list = forgotten ? (*store)->ListForgotten() : (*store)->ListSnapshots();
  if (!list.ok()) return FailWith(context, list.status());
  Reporter& reporter = context.reporter;
  if (list->snapshots.empty()) reporter.Line(forgotten ? "none was forgotten" : "no snapshots yet");
  if (!list->snapshots.empty()) {
    reporter.Result(absl::StrFormat("%-16s  %-19s  %-12s  %9s  %10s  %10s  %s", "ID", "TIME",
                                    "HOST", "FILES", "SIZE", "ADDED", "PATHS"));
  }
  for (const store::v1::Snapshot& snapshot : list->snapshots) {
    const bool is_pinned = (*store)->pins().Has(snapshot.id());
    ReportJson(reporter, snapshot, is_pinned);
    std::string paths;
    for (const std::string& path : snapshot.paths()) {
      paths += Cat(paths.empty() ? "" : " ", Printable(path));
    }
    const std::string salvaged =
        snapshot.has_salvage() ? Cat("  (what is left of ", snapshot.salvage().replaces(), ")")
                               : std::string();
    reporter.Result(absl::StrFormat(
        "%-16s  %-19s  %-12s  %9s  %10s  %10s  %s%s%s%s", snapshot.id(),
        FormatTime(snapshot.started_unix_ns()), Printable(snapshot.host()),
        FormatCount(snapshot.stats().file_count()), FormatByteSize(snapshot.stats().total_bytes()),
        FormatByteSize(snapshot.stats().stored_bytes()), paths,
        snapshot.stats().error_count() > 0 ? "  (partial)" : "", Printable(salvaged),
        is_pinned ? "  (pinned)" : ""));
  }
  for (const DamagedSnapshot& damaged : list->damaged) {
    reporter.Warning(damaged.path, damaged.status);
  }
  for (const MissingSnapshot& missing : list->missing) {
    reporter.Warning(Cat("snapshot ", missing.id), DescribeLoss(missing));
  }
  if (!list->manifest.ok()) reporter.Warning((*store)->manifest().directory(), list->manifest);
  const bool is_sound = list->damaged.empty() && list->missing.empty() && list->manifest.ok();
  return is_sound ? ExitCode::kOk : ExitCode::kIntegrity;
}

}  // namespace

void AddSnapshotsVerb(Context& context) {
  const Verb verb = AddVerb(context, "snapshots", "List the snapshots of a store", kExamples);
  struct Flags {
    std::string store;
    bool forgotten = false;
  };
  auto flags = std::make_shared<Flags>();
  AddStoreOption(verb, flags->store);
  verb.AddFlag("--forgotten", flags->forgotten,
               "List those that were forgotten and can be brought back");
  verb.OnRun([&context, flags] { return Run(context, flags->store, flags->forgotten); });
}

}  // namespace kerf::agent
