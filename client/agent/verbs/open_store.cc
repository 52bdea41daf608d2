#include "client/agent/verbs/open_store.h"

#include <optional>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/snapshots/store_memory.h"

namespace kerf::agent {

absl::StatusOr<std::unique_ptr<Store>> OpenStore(Context& context, const std::string& directory) {
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(directory);
  if (store.ok()) {
    WarnOfFlaws(context, **store);
    WarnOfSetBack(context, **store);
  }
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> OpenStoreForWriting(Context& context,
                                                           const std::string& directory) {
  absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForWriting(directory);
  if (store.ok()) WarnOfFlaws(context, **store);
  return store;
}

void WarnOfFlaws(Context& context, const Store& store) {
  for (const StoreFlaw& flaw : store.flaws()) {
    context.reporter.Warning(flaw.path, flaw.status);
    if (flaw.was_not_made) context.is_partial = true;
  }
}

void WarnOfSetBack(Context& context, const Store& store) {
  const absl::Status status = CheckNotSetBack(store);
  if (!status.ok()) context.reporter.Warning(store.directory(), status);
}

absl::Status CheckStoreMayBeMade(const std::string& directory, const MountTables& tables) {
  const std::vector<std::string> ids = StoreMemory(StoreMemory::UsualDirectory()).IdsOf(directory);
  if (!ids.empty()) {
    return absl::FailedPreconditionError(
        Cat(directory, " holds no store, and you have had one there (", ids.front(),
            "): is its disk mounted? `kerf init --store ", directory, "` makes a new one"));
  }
  if (const std::optional<std::string> point = FindUnmounted(directory, tables)) {
    return absl::FailedPreconditionError(
        Cat(directory, " holds no store, and nothing is mounted at ", *point, ", which ",
            tables.known, " has: `mount ", *point, "` and run this again, or `kerf init --store ",
            directory, "` makes a new one where you are"));
  }
  return absl::OkStatus();
}

void SayStoreWasMade(Context& context, const Store& store) {
  context.reporter.Json("store_made",
                        {{"repository", store.config().id()}, {"path", store.directory()}});
  context.reporter.Notice(
      Cat("there was no store in ", store.directory(), ": made a new one, ", store.config().id()));
}

ExitCode FailDamaged(Context& context, const Store& store, const store::v1::Snapshot& snapshot) {
  if (!absl::IsNotFound(store.FindSnapshot(snapshot.id()).status())) return ExitCode::kIntegrity;
  return FailWith(context, absl::NotFoundError(
                               Cat("snapshot ", snapshot.id(), " was forgotten meanwhile, and a ",
                                   "collection took chunks of it: nothing is damaged, but not ",
                                   "all of it could be read")));
}

absl::Status CheckNotSetBack(const Store& store) {
  const absl::Status status = StoreMemory(StoreMemory::UsualDirectory()).Meet(store);
  // A store whose epoch cannot be read says so by itself.
  return absl::IsDataLoss(status) && !store.ReadEpoch().ok() ? absl::OkStatus() : status;
}

void RememberStore(const Store& store) {
  StoreMemory(StoreMemory::UsualDirectory()).Meet(store).IgnoreError();
}

}  // namespace kerf::agent
