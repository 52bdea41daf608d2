// `kerf-lab`: what measures, apart from what backs up (docs/adr/0014-kerf-lab.md).

#include "client/cli/program.h"
#include "client/lab/command.h"

int main(int argc, char** argv) {
  return kerf::agent::ProgramMain(argc, argv, kerf::agent::RunLabCommand);
}
