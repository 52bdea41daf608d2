// How verbs open the store that they work on.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/verbs/mount_check.h"
#include "client/cli/context.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// As Store::Open. What is not as it should be, though the verb can go on, is a warning.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(Context& context, const std::string& directory);
// As Store::OpenForWriting, likewise; whether the store was set back is for the verb to ask.
absl::StatusOr<std::unique_ptr<Store>> OpenStoreForWriting(Context& context,
                                                           const std::string& directory);
// For a store that was opened otherwise.
void WarnOfFlaws(Context& context, const Store& store);
void WarnOfSetBack(Context& context, const Store& store);

// FailedPrecondition if this user has seen a store in the folder, an absolute path, where now is
// none, or the machine knows a disk for it that is not mounted.
absl::Status CheckStoreMayBeMade(const std::string& directory, const MountTables& tables = {});
// Says that it was made, also to those who want to hear little.
void SayStoreWasMade(Context& context, const Store& store);

// What a verb ends with that missed something of the snapshot: kIntegrity, unless it was forgotten
// meanwhile, and a collection took its chunks. That is said.
ExitCode FailDamaged(Context& context, const Store& store, const store::v1::Snapshot& snapshot);

// DataLoss if the store lies behind what this user has seen of it.
absl::Status CheckNotSetBack(const Store& store);
// After the store was changed: so far has it come.
void RememberStore(const Store& store);

}  // namespace kerf::agent
