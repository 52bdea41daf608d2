#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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
  const absl::StatusOr<std::optional<bool>> is_new = tools.repositories.Create(tools.repository);
  if (!is_new.ok()) return FailWithRepositories(context, is_new.status(), tools.server);
  const std::string digest(DigestAlgorithmName(tools.repository.digest_algorithm));
  nlohmann::json summary = {
      {"repository", tools.repository.name}, {"digest", digest}, {"is_new", nullptr}};
  std::string_view what = "is there: ";
  if (is_new->has_value()) {
    summary["is_new"] = **is_new;
    what = **is_new ? "created " : "was there: ";
  }
  context.reporter.Json("summary", std::move(summary));
  context.reporter.Line(Cat(what, tools.repository.name, " (", digest, ")"));
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
