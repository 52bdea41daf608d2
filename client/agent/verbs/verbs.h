// The verbs of `kerf`: each declares its flags and says how it runs.
#pragma once

#include "client/cli/context.h"

namespace kerf::agent {

void AddAuditVerb(Context& context);
void AddBackupVerb(Context& context);
void AddChunkVerb(Context& context);
void AddCompletionVerb(Context& context);
void AddCopyVerb(Context& context);
void AddForgetVerb(Context& context);
void AddGcVerb(Context& context);
void AddIndexVerb(Context& context);
void AddInitVerb(Context& context);
void AddLsVerb(Context& context);
void AddParityVerb(Context& context);
void AddPinVerb(Context& context);
void AddPingVerb(Context& context);
void AddPlanVerb(Context& context);
void AddProfilesVerb(Context& context);
void AddRepairVerb(Context& context);
void AddRepoVerb(Context& context);
void AddRestoreVerb(Context& context);
void AddSnapshotsVerb(Context& context);
void AddStatsVerb(Context& context);
void AddStoreVerb(Context& context);
void AddTlsVerb(Context& context);
void AddTokenVerb(Context& context);
void AddTopVerb(Context& context);
void AddUndeleteVerb(Context& context);
void AddUnpinVerb(Context& context);
void AddVerifyVerb(Context& context);

// Of `kerf index`.
void AddIndexStats(Context& context, const Verb& index_verb);
void AddIndexCheck(Context& context, const Verb& index_verb);
void AddIndexRebuild(Context& context, const Verb& index_verb);
void AddIndexExport(Context& context, const Verb& index_verb);

// Of `kerf repo`.
void AddRepoCreate(Context& context, const Verb& repo_verb);
void AddRepoList(Context& context, const Verb& repo_verb);
void AddRepoDrop(Context& context, const Verb& repo_verb);
void AddRepoQuota(Context& context, const Verb& repo_verb);
void AddRepoStats(Context& context, const Verb& repo_verb);
void AddRepoResetEpoch(Context& context, const Verb& repo_verb);

}  // namespace kerf::agent
