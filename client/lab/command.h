// The command line of kerf-lab.
#pragma once

#include <atomic>

namespace kerf::agent {

// As client/agent/command.h has it of `kerf`.
int RunLabCommand(int argc, char** argv, const std::atomic<bool>& cancelled);

}  // namespace kerf::agent
