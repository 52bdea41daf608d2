#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf index stats --store /backup\n"
    "  kerf index check --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf index rebuild --store /backup\n"
    "  kerf index export --store /backup --output entries.txt\n"
    "The store is the truth. Its index can be lost: then backups are slower until it is rebuilt.";

}  // namespace

void AddIndexVerb(Context& context) {
  const Verb verb = AddVerb(context, "index",
                            "Look at, check or rebuild what a kerfd knows of a store", kExamples);
  verb.RequireVerb();
  AddIndexStats(context, verb);
  AddIndexCheck(context, verb);
  AddIndexRebuild(context, verb);
  AddIndexExport(context, verb);
}

}  // namespace kerf::agent
