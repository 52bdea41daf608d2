#include "client/lab/command.h"

#include "client/cli/program.h"
#include "client/lab/flags/lab_verbs.h"
#include "client/lab/verbs/lab_runs.h"

namespace kerf::agent {
namespace {

void AddVerbs(Context& context) {
  AddAnalyzeVerb(context, RunAnalyze);
  BenchRuns runs;
  runs.bench_kernels = RunBenchKernels;
  runs.bench_service = RunBenchService;
  runs.raw_peer = RunRawPeer;
  runs.bench_rapid = RunBenchRapid;
  runs.bench_gpu = RunBenchGpu;
  AddBenchVerb(context, runs);
}

}  // namespace

int RunLabCommand(int argc, char** argv, const std::atomic<bool>& cancelled) {
  ProgramOptions program;
  program.name = "kerf-lab";
  program.description =
      "kerf-lab measures kerf, and what chunking does to your data; `kerf bench` and `kerf "
      "analyze`\n"
      "start it";
  program.some_verbs = "analyze, bench";
  program.add_verbs = AddVerbs;
  // The file is kerf's, which has more verbs and says what is wrong in it.
  program.shares_config = true;
  return RunProgram(program, argc, argv, cancelled);
}

}  // namespace kerf::agent
