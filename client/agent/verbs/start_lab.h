// Starts kerf-lab in the place of this process (docs/adr/0014-kerf-lab.md).
#pragma once

#include <string>
#include <string_view>

#include "client/cli/context.h"

namespace kerf::agent {

// The program kerf-lab: in `folder`, which ends with a slash, or else in the first of the folders
// of `path`, with colons between them, that has it. Empty if none does.
std::string FindLab(const std::string& folder, std::string_view path);

// Does not return if kerf-lab was started with this process's arguments; else reports why not.
ExitCode StartLab(Context& context);

// `kerf analyze` and `kerf bench`: their flags are checked and shown here; kerf-lab does the rest.
void AddLabAnalyzeVerb(Context& context);
void AddLabBenchVerb(Context& context);

}  // namespace kerf::agent
