// Programs that lie beside the one that runs.
#pragma once

#include <string>
#include <string_view>

namespace kerf::agent {

// The folder of the program that runs, with a slash at its end; empty if the system does not say.
std::string ProgramFolder();

// The program `name`: in `folder`, which ends with a slash, or else in the first of the folders of
// `path`, with colons between them, that has it. Empty if none does. Folders that are not absolute
// are passed over: the current one may be anybody's.
std::string FindProgram(const std::string& folder, std::string_view path, std::string_view name);

// The same beside the program that runs, and in PATH.
std::string FindProgram(std::string_view name);

}  // namespace kerf::agent
