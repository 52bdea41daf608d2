// Where this program lies: what came with it lies beside it.
#pragma once

#include <string>

namespace kerf::agent {

// With a slash at its end; empty where the system does not say.
std::string ProgramFolder();

}  // namespace kerf::agent
