#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/agent/verbs/repo_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/cpp/server_index.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf repo drop anna --server unix:/run/kerfd.sock\n"
    "  kerf repo drop --store /backup --server unix:/run/kerfd.sock --yes\n"
    "The server forgets all that it knows of the repository, its epoch too; the store stays as it "
    "is,\n"
    "and `kerf index rebuild` makes it known again. Until it is done backups to it are refused. "
    "One\n"
    "that was interrupted is to be run again.";

struct DropFlags {
  RepoFlags repo;
  bool yes = false;
};

// Whether whoever sits there wants it.
bool IsWanted(const client::ServerRepository& repository) {
  std::fprintf(stderr, "Drop %s and all that the server knows of it? Type yes: ",
               Printable(repository.name).c_str());
  std::string answer;
  return std::getline(std::cin, answer) && answer == "yes";
}

absl::StatusOr<std::uint64_t> DropWithProgress(Context& context, const RepoTools& tools) {
  // Of one that nobody has created it may not be told: then the total is not known.
  client::ServerIndex index(tools.channel, tools.repository.name, tools.repository.digest_algorithm,
                            tools.calls);
  const auto stats = index.ReadStats();
  const std::uint64_t total_count = stats.ok() ? stats->entry_count : 0;
  std::atomic<std::uint64_t> done_count{0};
  const ProgressDisplay display(context.reporter, "repo drop", [&] {
    ProgressState state;
    state.noun = "entries";
    state.counts_only = true;
    state.done_files = done_count.load();
    state.total_files = std::max(total_count, state.done_files);
    return state;
  });
  return tools.repositories.Drop(tools.repository, [&](std::uint64_t count) {
    done_count.store(count);
    return context.cancelled ? absl::CancelledError("it was interrupted: run kerf repo drop again")
                             : absl::OkStatus();
  });
}

ExitCode Run(Context& context, bool yes, const RepoTools& tools) {
  if (!yes) {
    if (context.reporter.json() || isatty(STDIN_FILENO) == 0) {
      return FailUsage(
          context, absl::InvalidArgumentError("nobody is there to be asked: say --yes to drop it"));
    }
    if (!IsWanted(tools.repository)) {
      return FailWith(context, absl::AbortedError("nothing was dropped"));
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<std::uint64_t> dropped_count = DropWithProgress(context, tools);
  if (!dropped_count.ok()) {
    return FailWithRepositories(context, dropped_count.status(), tools.server);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string digest(DigestAlgorithmName(tools.repository.digest_algorithm));
  context.reporter.Json("summary", {{"repository", tools.repository.name},
                                    {"digest", digest},
                                    {"dropped_entries", *dropped_count},
                                    {"seconds", seconds}});
  context.reporter.Line(Cat("dropped ", tools.repository.name, " (", digest, "), ",
                            FormatCounted(*dropped_count, "entry"),
                            absl::StrFormat("; %.2f s", seconds)));
  return ExitCode::kOk;
}

}  // namespace

void AddRepoDrop(Context& context, const Verb& repo_verb) {
  auto flags = std::make_shared<DropFlags>();
  const Verb verb = AddRepoSubverb(repo_verb, "drop", "Make a server forget a repository",
                                   kExamples, flags->repo);
  verb.AddFlag("--yes", flags->yes, "Do not ask");
  verb.OnRun([&context, flags] {
    return WithRepository(context, flags->repo,
                          [&](const RepoTools& tools) { return Run(context, flags->yes, tools); });
  });
}

}  // namespace kerf::agent
