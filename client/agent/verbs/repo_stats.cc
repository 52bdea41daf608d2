#include <memory>

#include "base/strings.h"
#include "client/agent/verbs/repo_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/cpp/server_index.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf repo stats anna --server unix:/run/kerfd.sock\n"
    "  kerf repo stats --store /backup --server unix:/run/kerfd.sock --json\n"
    "`kerf index stats` compares them with those of the store.";

ExitCode Run(Context& context, const RepoTools& tools) {
  client::ServerIndex index(tools.channel, tools.repository.name, tools.repository.digest_algorithm,
                            tools.calls);
  const absl::StatusOr<client::ServerIndexStats> stats = index.ReadStats();
  if (!stats.ok()) return FailWithServer(context, stats.status(), tools.server);
  const std::string digest(DigestAlgorithmName(tools.repository.digest_algorithm));
  Reporter& reporter = context.reporter;
  reporter.Json("summary", {{"repository", tools.repository.name},
                            {"digest", digest},
                            {"backend", stats->backend},
                            {"index_entries", stats->entry_count},
                            {"index_epoch", stats->epoch}});
  reporter.Result(Cat("repository   ", tools.repository.name, " (", digest, ")"));
  reporter.Result(Cat("backend      ", Printable(stats->backend)));
  reporter.Result(Cat("entries      ", FormatCount(stats->entry_count)));
  reporter.Result(Cat("epoch        ", stats->epoch));
  return ExitCode::kOk;
}

}  // namespace

void AddRepoStats(Context& context, const Verb& repo_verb) {
  auto flags = std::make_shared<RepoFlags>();
  const Verb verb = AddRepoSubverb(
      repo_verb, "stats", "Show how large a repository is, and its epoch", kExamples, *flags);
  verb.OnRun([&context, flags] {
    return WithRepository(context, *flags,
                          [&](const RepoTools& tools) { return Run(context, tools); });
  });
}

}  // namespace kerf::agent
