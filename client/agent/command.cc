#include "client/agent/command.h"

#include "client/agent/verbs/start_lab.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/program.h"

namespace kerf::agent {
namespace {

void AddVerbs(Context& context) {
  AddInitVerb(context);
  AddBackupVerb(context);
  AddRestoreVerb(context);
  AddSnapshotsVerb(context);
  AddLsVerb(context);
  AddVerifyVerb(context);
  AddCopyVerb(context);
  AddRepairVerb(context);
  AddParityVerb(context);
  AddForgetVerb(context);
  AddUndeleteVerb(context);
  AddPinVerb(context);
  AddUnpinVerb(context);
  AddGcVerb(context);
  AddStatsVerb(context);
  AddIndexVerb(context);
  AddRepoVerb(context);
  AddStoreVerb(context);
  AddProfilesVerb(context);
  AddChunkVerb(context);
  AddLabAnalyzeVerb(context);
  AddPlanVerb(context);
  AddPingVerb(context);
  AddTopVerb(context);
  AddTlsVerb(context);
  AddTokenVerb(context);
  AddAuditVerb(context);
  AddLabBenchVerb(context);
  AddCompletionVerb(context);
}

}  // namespace

int RunCommand(int argc, char** argv, const std::atomic<bool>& cancelled) {
  ProgramOptions program;
  program.name = "kerf";
  program.description =
      "kerf backs up folders into a store, with the help of a kerfd that cuts and deduplicates";
  program.some_verbs = "backup, restore";
  program.add_verbs = AddVerbs;
  return RunProgram(program, argc, argv, cancelled);
}

}  // namespace kerf::agent
