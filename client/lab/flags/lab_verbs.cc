#include "client/lab/flags/lab_verbs.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf bench kernels\n"
    "  kerf bench service\n"
    "  kerf bench service --json > service.json\n"
    "  kerf bench rapid version-1 version-2\n"
    "  kerf bench gpu";

}  // namespace

void AddBenchVerb(Context& context, const BenchRuns& runs) {
  const Verb verb = AddVerb(context, "bench", "Measure how fast kerf is here", kExamples);
  verb.RequireVerb();
  AddBenchKernels(context, verb, runs.bench_kernels);
  AddBenchService(context, verb, runs.bench_service);
  AddRawPeer(context, verb, runs.raw_peer);
  AddBenchRapid(context, verb, runs.bench_rapid);
  AddBenchGpu(context, verb, runs.bench_gpu);
}

}  // namespace kerf::agent
