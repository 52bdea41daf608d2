// Starts kerf-lab in the place of this process (docs/adr/0014-kerf-lab.md).
#pragma once

#include "client/cli/context.h"

namespace kerf::agent {

// Does not return if kerf-lab was started with this process's arguments; else reports why not.
ExitCode StartLab(Context& context);

// `kerf analyze` and `kerf bench`: their flags are checked and shown here; kerf-lab does the rest.
void AddLabAnalyzeVerb(Context& context);
void AddLabBenchVerb(Context& context);

}  // namespace kerf::agent
