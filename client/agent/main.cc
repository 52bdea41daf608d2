// `kerf`, the agent and toolbox.

#include "client/agent/command.h"
#include "client/cli/program.h"

int main(int argc, char** argv) {
  return kerf::agent::ProgramMain(argc, argv, kerf::agent::RunCommand);
}
