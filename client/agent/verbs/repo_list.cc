#include <algorithm>
#include <memory>

#include "base/strings.h"
#include "client/agent/verbs/interrupted_calls.h"
#include "client/agent/verbs/repo_flags.h"
#include "client/agent/verbs/retry_notice.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/cpp/channel.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf repo list --server unix:/run/kerfd.sock\n"
    "  kerf repo list --server localhost:7461 --json\n"
    "Those that were created, and those that were met when somebody named them.";

ExitCode Run(Context& context, const ServerFlags& flags) {
  const auto server = ServerOf(context, flags);
  if (!server.ok()) return FailUsage(context, server.status());
  const auto channel = client::OpenChannel(*server);
  if (!channel.ok()) return FailUsage(context, channel.status());
  if (const absl::Status started = StartOwnKerfd(context); !started.ok()) {
    return FailWith(context, started);
  }
  InterruptedCalls calls(context);
  const auto all =
      client::ServerRepositories(*channel, CallOptionsOf(context, calls, *server)).List();
  if (!all.ok()) return FailWithRepositories(context, all.status(), *server);
  Reporter& reporter = context.reporter;
  std::size_t width = 0;
  for (const client::ServerRepository& repository : *all) {
    width = std::max(width, repository.name.size());
  }
  for (const client::ServerRepository& repository : *all) {
    const std::string digest(DigestAlgorithmName(repository.digest_algorithm));
    reporter.Json("repository", {{"repository", repository.name},
                                 {"digest", digest},
                                 {"is_created", repository.is_created}});
    const std::string name = Printable(repository.name);
    reporter.Result(Cat(name, std::string(width - std::min(width, name.size()) + 2, ' '), digest,
                        repository.is_created ? "  created" : "  met"));
  }
  reporter.Json("summary", {{"repositories", all->size()}});
  reporter.Line(Cat(all->size(), all->size() == 1 ? " repository" : " repositories"));
  return ExitCode::kOk;
}

}  // namespace

void AddRepoList(Context& context, const Verb& repo_verb) {
  auto flags = std::make_shared<ServerFlags>();
  const Verb verb = repo_verb.AddVerb("list", "Show all repositories of a server", kExamples);
  AddServerOption(verb, *flags);
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
