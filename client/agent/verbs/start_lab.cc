#include "client/agent/verbs/start_lab.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/strings.h"
#include "client/cli/find_program.h"
#include "client/cli/interrupt.h"
#include "client/lab/flags/lab_verbs.h"

namespace kerf::agent {
namespace {

constexpr char kLab[] = "kerf-lab";

template <typename Flags>
ExitCode StartLabFor(Context& context, const Flags&) {
  return StartLab(context);
}

}  // namespace

ExitCode StartLab(Context& context) {
  std::string lab = FindProgram(kLab);
  if (lab.empty()) {
    return FailWith(context, absl::UnavailableError(Cat(
                                 "kerf bench and kerf analyze need the program kerf-lab, which is "
                                 "neither beside kerf, in ",
                                 ProgramFolder(),
                                 ", nor in a folder of PATH: tools/build makes both; put it "
                                 "beside kerf")));
  }
  std::vector<std::string> arguments = context.arguments;
  std::vector<char*> argv = {lab.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // A signal that comes from here on is kerf-lab's.
  HoldInterrupts();
  if (context.cancelled) return ExitCode::kInterrupted;
  execv(lab.c_str(), argv.data());
  return FailWith(context,
                  absl::UnavailableError(Cat("cannot run ", lab, ": ", std::strerror(errno))));
}

void AddLabAnalyzeVerb(Context& context) { AddAnalyzeVerb(context, StartLabFor<AnalyzeFlags>); }

void AddLabBenchVerb(Context& context) {
  BenchRuns runs;
  runs.bench_kernels = StartLabFor<KernelFlags>;
  runs.bench_service = StartLabFor<ServiceFlags>;
  runs.raw_peer = StartLabFor<RawPeerFlags>;
  runs.bench_rapid = StartLabFor<RapidFlags>;
  runs.bench_gpu = StartLabFor<GpuFlags>;
  AddBenchVerb(context, runs);
}

}  // namespace kerf::agent
