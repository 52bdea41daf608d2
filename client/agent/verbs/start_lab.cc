#include "client/agent/verbs/start_lab.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/strings.h"
#include "client/cli/interrupt.h"
#include "client/cli/program_folder.h"
#include "client/lab/flags/lab_verbs.h"

namespace kerf::agent {
namespace {

constexpr char kLab[] = "kerf-lab";

bool IsProgram(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

template <typename Flags>
ExitCode StartLabFor(Context& context, const Flags&) {
  return StartLab(context);
}

}  // namespace

std::string FindLab(const std::string& folder, std::string_view path) {
  if (const std::string beside = Cat(folder, kLab); !folder.empty() && IsProgram(beside)) {
    return beside;
  }
  while (!path.empty()) {
    const std::size_t colon = path.find(':');
    const std::string_view in_path = path.substr(0, colon);
    // An empty one would be the current folder, whose owner may be anybody.
    if (const std::string lab = Cat(in_path, "/", kLab); !in_path.empty() && IsProgram(lab)) {
      return lab;
    }
    path = colon == std::string_view::npos ? "" : path.substr(colon + 1);
  }
  return "";
}

ExitCode StartLab(Context& context) {
  const std::string folder = ProgramFolder();
  const char* const path = std::getenv("PATH");
  std::string lab = FindLab(folder, path == nullptr ? "" : path);
  if (lab.empty()) {
    return FailWith(context, absl::UnavailableError(Cat(
                                 "kerf bench and kerf analyze need the program kerf-lab, which is "
                                 "neither beside kerf, in ",
                                 folder,
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
