#include <memory>

#include "base/strings.h"
#include "client/agent/verbs/repo_flags.h"
#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf repo create anna --server unix:/run/kerfd.sock\n"
    "  kerf repo create --store /backup --server unix:/run/kerfd.sock\n"
    "A kerfd with --repositories created serves those alone. One that is there already stays as "
    "it\n"
    "is.";

ExitCode Run(Context& context, const RepoTools& tools) {
  const absl::StatusOr<bool> is_new = tools.repositories.Create(tools.repository);
  if (!is_new.ok()) return FailWithRepositories(context, is_new.status(), tools.server);
  const std::string digest(DigestAlgorithmName(tools.repository.digest_algorithm));
  context.reporter.Json(
      "summary", {{"repository", tools.repository.name}, {"digest", digest}, {"is_new", *is_new}});
  context.reporter.Line(
      Cat(*is_new ? "created " : "was there: ", tools.repository.name, " (", digest, ")"));
  return ExitCode::kOk;
}

}  // namespace

void AddRepoCreate(Context& context, const Verb& repo_verb) {
  auto flags = std::make_shared<RepoFlags>();
  const Verb verb =
      AddRepoSubverb(repo_verb, "create", "Make a repository known to a server", kExamples, *flags);
  verb.OnRun([&context, flags] {
    return WithRepository(context, *flags,
                          [&](const RepoTools& tools) { return Run(context, tools); });
  });
}

}  // namespace kerf::agent
