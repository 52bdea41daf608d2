// `kerf repo`: repositories of a server's index, for whoever runs it.
#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf repo list --server unix:/run/kerfd.sock\n"
    "  kerf repo create anna --server unix:/run/kerfd.sock\n"
    "  kerf repo stats --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf repo quota anna --server unix:/run/kerfd.sock\n"
    "  kerf repo drop anna --server unix:/run/kerfd.sock --yes\n"
    "  kerf repo reset-epoch --store /backup --server unix:/run/kerfd.sock\n"
    "A repository is what a server's index knows of one store; the store's id is its name. No\n"
    "store is changed by any of these.";

}  // namespace

void AddRepoVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "repo", "Create, list, drop or mend repositories of a server", kExamples);
  verb.RequireVerb();
  AddRepoCreate(context, verb);
  AddRepoList(context, verb);
  AddRepoDrop(context, verb);
  AddRepoStats(context, verb);
  AddRepoQuota(context, verb);
  AddRepoResetEpoch(context, verb);
}

}  // namespace kerf::agent
