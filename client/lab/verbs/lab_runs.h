// What the verbs of the laboratory do.
#pragma once

#include "client/lab/flags/lab_verbs.h"

namespace kerf::agent {

ExitCode RunAnalyze(Context& context, const AnalyzeFlags& flags);
ExitCode RunBenchGpu(Context& context, const GpuFlags& flags);
ExitCode RunBenchKernels(Context& context, const KernelFlags& flags);
ExitCode RunBenchRapid(Context& context, const RapidFlags& flags);
ExitCode RunBenchService(Context& context, const ServiceFlags& flags);
ExitCode RunRawPeer(Context& context, const RawPeerFlags& flags);

}  // namespace kerf::agent
