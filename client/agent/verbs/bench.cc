#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf bench kernels\n"
    "  kerf bench service\n"
    "  kerf bench service --json > service.json\n"
    "  kerf bench rapid version-1 version-2\n"
    "  kerf bench gpu";

}  // namespace

void AddBenchVerb(Context& context) {
  const Verb verb = AddVerb(context, "bench", "Measure how fast kerf is here", kExamples);
  verb.RequireVerb();
  AddBenchKernels(context, verb);
  AddBenchService(context, verb);
  AddBenchRapid(context, verb);
  AddBenchGpu(context, verb);
}

}  // namespace kerf::agent
