#include "client/store/check/store_repair.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/store/check/lost_config.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/format/durable_file.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/snapshots/collector_lock.h"
#include "client/store/snapshots/copies.h"
#include "client/store/snapshots/manifest.h"
#include "client/store/snapshots/quarantine.h"
#include "client/store/snapshots/snapshot_list.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {
namespace {

using State = RepairStep::State;

// More than the collections can have raised it that nobody has heard of.
constexpr std::uint64_t kEpochMargin = 4;
// Those that can be made again empty.
constexpr std::string_view kPlainFolders[] = {"copies", "forgotten", "pins", "pending",
                                              "tmp",    "gc",        "locks"};

class Repair {
 public:
  Repair(std::string directory, const RepairOptions& options, RepairReport& report)
      : directory_(std::move(directory)),
        options_(options),
        manifest_(directory_),
        report_(report) {}

  absl::Status Run();

 private:
  std::string Path(std::string_view name) const { return Cat(directory_, "/", name); }
  bool Accepts(std::string_view loss) const {
    return std::find(options_.accepted_losses.begin(), options_.accepted_losses.end(), loss) !=
           options_.accepted_losses.end();
  }
  absl::Status Look();
  absl::Status CheckAcceptedLosses() const;
  void Do(std::string what, std::string path, std::string text,
          const std::function<absl::Status()>& mend);
  void Ask(std::string what, std::string path, std::string text);
  absl::Status PutAside(const std::string& path) const;
  void MendFolders();
  void MendConfig();
  void WriteConfigs(const store::v1::StoreConfig& config, const ConfigCopies& copies,
                    const std::string& text);
  void RebuildConfig(const ConfigCopies& copies);
  void MendEpoch();
  void MendPending();
  void MendSnapshots();
  void MendManifest();
  void AskForParity();
  void MakeWhatIsMissing();
  absl::Status Lose(const std::string& id);

  const std::string directory_;
  const RepairOptions& options_;
  const Manifest manifest_;
  bool manifest_is_lost_ = false;
  SnapshotList checked_;
  SnapshotList pending_;
  RepairReport& report_;
};

void Repair::Do(std::string what, std::string path, std::string text,
                const std::function<absl::Status()>& mend) {
  RepairStep& step = report_.steps.emplace_back();
  step.what = std::move(what);
  step.path = std::move(path);
  step.text = std::move(text);
  if (options_.dry_run) return;
  const absl::Status status = mend();
  step.state = status.ok() ? State::kDone : State::kFailed;
  if (!status.ok()) step.text += Cat(": ", MessageOf(status));
}

void Repair::Ask(std::string what, std::string path, std::string text) {
  report_.steps.push_back({std::move(what), std::move(path), std::move(text), State::kNeedsWord});
}

// What is not there need not be moved.
absl::Status Repair::PutAside(const std::string& path) const {
  const absl::Status status = MoveToQuarantine(directory_, path).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status Repair::Look() {
  const ConfigCopies configs = ReadConfigCopies(directory_);
  const bool is_store = !absl::IsNotFound(configs.config.status()) ||
                        !absl::IsNotFound(configs.copy.status()) ||
                        (MayExist(Path("packs")) && MayExist(Path("snapshots")));
  if (!is_store) return absl::NotFoundError(Cat(directory_, " holds no store"));
  manifest_is_lost_ = configs.copy.ok() && !manifest_.IsThere();
  for (const auto& [name, list] :
       {std::pair("snapshots", &checked_), std::pair("pending", &pending_)}) {
    absl::StatusOr<SnapshotList> read = ListSnapshotsIn(Path(name));
    if (absl::IsNotFound(read.status())) continue;
    if (!read.ok()) return read.status();
    *list = *std::move(read);
  }
  CompareWithManifest(manifest_, Path("snapshots"), Path("forgotten"), checked_);
  return absl::OkStatus();
}

absl::Status Repair::CheckAcceptedLosses() const {
  for (const std::string& loss : options_.accepted_losses) {
    const auto has_id = [&](const auto& one) { return one.id == loss; };
    const bool may_be_in_a_tree =
        options_.trees_follow &&
        (loss == kContentLoss ||
         std::any_of(checked_.snapshots.begin(), checked_.snapshots.end(),
                     [&](const store::v1::Snapshot& one) { return one.id() == loss; }));
    if (may_be_in_a_tree || (loss == kManifestLoss && manifest_is_lost_) ||
        std::any_of(checked_.damaged.begin(), checked_.damaged.end(), has_id) ||
        std::any_of(checked_.missing.begin(), checked_.missing.end(), has_id)) {
      continue;
    }
    return absl::InvalidArgumentError(
        Cat("'", loss, "' is neither a snapshot that is damaged or gone, nor is the manifest: ",
            "name it as `kerf repair` does; one that is whole is removed by `kerf forget`"));
  }
  return absl::OkStatus();
}

void Repair::MendFolders() {
  for (const std::string_view name : kPlainFolders) {
    const std::string path = Path(name);
    // Kerf 0.1.0 has not all of them, and the store gets them when it is opened for writing.
    if (MayExist(path)) continue;
    Do("folder", path, Cat(path, " is gone: it is made anew"), [this, path]() -> absl::Status {
      KERF_RETURN_IF_ERROR(MakeDirectory(path));
      return SyncDirectory(directory_);
    });
  }
  for (const char* name : {"packs", "snapshots"}) {
    const std::string path = Path(name);
    if (MayExist(path)) continue;
    Ask("folder", path,
        Cat(path, " is gone, with all that it held: bring it back; an empty one does if that is ",
            "lost for good"));
  }
}

void Repair::WriteConfigs(const store::v1::StoreConfig& config, const ConfigCopies& copies,
                          const std::string& text) {
  const auto is_as_meant = [&](const absl::StatusOr<store::v1::StoreConfig>& copy) {
    return copy.ok() && copy->SerializeAsString() == config.SerializeAsString();
  };
  const auto mend = [&](const std::string& path) {
    Do("config", path, Cat(path, " ", text), [this, &path, &config]() -> absl::Status {
      KERF_RETURN_IF_ERROR(PutAside(path));
      return WriteConfigFile(path, Path("tmp"), config);
    });
  };
  if (!is_as_meant(copies.config)) mend(ConfigPath(directory_));
  // One that is not there is made last, when all is noted: Store::OpenForWriting.
  if (!is_as_meant(copies.copy) && !absl::IsNotFound(copies.copy.status())) {
    mend(ConfigCopyPath(directory_));
  }
}

void Repair::RebuildConfig(const ConfigCopies& copies) {
  LostConfigHints hints;
  hints.id = options_.store_id;
  hints.new_id = options_.new_id;
  hints.remembered_ids = options_.remembered_ids;
  const absl::StatusOr<store::v1::StoreConfig> config =
      RebuildStoreConfig(directory_, checked_, pending_, hints);
  if (!config.ok()) {
    return Ask("config", ConfigPath(directory_), std::string(MessageOf(config.status())));
  }
  WriteConfigs(*config, copies,
               Cat("is damaged or gone, and so is its copy: it is made anew, from packs and "
                   "snapshots, with the id ",
                   config->id()));
}

void Repair::MendConfig() {
  const ConfigCopies copies = ReadConfigCopies(directory_);
  const absl::StatusOr<store::v1::StoreConfig> config = ChooseConfig(copies);
  if (absl::IsNotFound(config.status()) || absl::IsDataLoss(config.status())) {
    return RebuildConfig(copies);
  }
  if (!config.ok()) {
    return Ask("config", ConfigPath(directory_), std::string(MessageOf(config.status())));
  }
  const bool differ = copies.config.ok() && copies.copy.ok() &&
                      copies.config->SerializeAsString() != copies.copy->SerializeAsString();
  if (!differ) return WriteConfigs(*config, copies, "is damaged or gone: its copy is taken");
  // Which of the two the packs were written with is all that matters for what is stored.
  const absl::StatusOr<DigestAlgorithm> digest = DigestAlgorithmOfPacks(directory_);
  const bool takes_copy = digest.ok() && copies.config->digest_algorithm() != Number(*digest) &&
                          copies.copy->digest_algorithm() == Number(*digest);
  const store::v1::StoreConfig& taken = takes_copy ? *copies.copy : *copies.config;
  WriteConfigs(taken, copies,
               Cat("is not as the other copy: that of store ", taken.id(),
                   takes_copy ? ", which fits the packs, is taken" : ", the first one, is taken"));
}

void Repair::MendEpoch() {
  const EpochCopies copies = ReadEpochCopies(directory_);
  absl::StatusOr<std::uint64_t> epoch = ChooseEpoch(copies);
  std::string text = "is damaged or gone: its copy is taken";
  if (absl::IsDataLoss(epoch.status()) || absl::IsNotFound(epoch.status())) {
    std::uint64_t highest = options_.remembered_epoch;
    for (const SnapshotList* list : {&checked_, &pending_}) {
      for (const store::v1::Snapshot& snapshot : list->snapshots) {
        highest = std::max(highest, snapshot.store_epoch());
      }
    }
    const auto plan = ReadCollectionPlan(Path("gc/plan"));
    if (plan.ok() && plan->has_value()) highest = std::max(highest, (*plan)->target_epoch);
    epoch = highest + kEpochMargin;
    text = Cat("is damaged or gone, and so is its copy: it goes on at ", *epoch,
               ", past all that is known; the index is believed again after the next `kerf gc`");
  }
  if (!epoch.ok()) {
    return Ask("epoch", EpochPath(directory_), std::string(MessageOf(epoch.status())));
  }
  const auto mend = [&](const std::string& path) {
    Do("epoch", path, Cat(path, " ", text), [this, &path, &epoch]() -> absl::Status {
      KERF_RETURN_IF_ERROR(PutAside(path));
      return WriteEpochFile(path, Path("tmp"), *epoch);
    });
  };
  // One that kerf 0.1.0 never made is made when the store is opened for writing.
  if (!copies.copy.ok() && !absl::IsNotFound(copies.copy.status())) mend(EpochCopyPath(directory_));
  if (!copies.epoch.ok()) mend(EpochPath(directory_));
}

// A newer kerf's, or one that this user may not read: nothing of it is known to be lost.
bool IsToBeAskedAbout(const DamagedSnapshot& damaged) {
  return absl::IsFailedPrecondition(damaged.status) || absl::IsPermissionDenied(damaged.status);
}

void Repair::MendPending() {
  for (const DamagedSnapshot& damaged : pending_.damaged) {
    if (IsToBeAskedAbout(damaged)) {
      Ask("pending", damaged.path, std::string(MessageOf(damaged.status)));
      continue;
    }
    Do("pending", damaged.path,
       Cat(MessageOf(damaged.status), ": of a backup that has not ended, and moved to quarantine/"),
       [this, &damaged] { return PutAside(damaged.path); });
  }
}

absl::Status Repair::Lose(const std::string& id) {
  return QuarantineSnapshot(directory_, id).status();
}

void Repair::MendSnapshots() {
  for (const DamagedSnapshot& damaged : checked_.damaged) {
    const std::string wrong(MessageOf(damaged.status));
    if (IsToBeAskedAbout(damaged)) {
      Ask("snapshot", damaged.path, wrong);
    } else if (Accepts(damaged.id)) {
      Do("snapshot", damaged.path, Cat(wrong, ": its loss is accepted, it is moved to quarantine/"),
         [this, &damaged] { return Lose(damaged.id); });
    } else {
      Ask("snapshot", damaged.path,
          Cat(wrong, ": bring the file back from a copy, or accept its loss with --accept-loss ",
              damaged.id));
    }
  }
  for (const MissingSnapshot& missing : checked_.missing) {
    const std::string path = SnapshotPath(Path("snapshots"), missing.id);
    if (Accepts(missing.id) || options_.accept_missing) {
      Do("snapshot", path, Cat(path, " is gone: its loss is accepted"),
         [this, &missing] { return Lose(missing.id); });
    } else {
      Ask("snapshot", path,
          Cat(path, " is gone: bring the file back from a copy, or accept its loss with ",
              "--accept-loss ", missing.id, ", or that of all that are gone with ",
              "--accept-missing"));
    }
  }
}

void Repair::MendManifest() {
  if (manifest_is_lost_) {
    const std::string& path = manifest_.directory();
    if (!Accepts(kManifestLoss)) {
      return Ask("manifest", path,
                 Cat(path, " is gone, so that nobody knows whether snapshots are: bring it back ",
                     "from a copy, or look at `kerf snapshots` and accept it with --accept-loss ",
                     kManifestLoss));
    }
    return Do("manifest", path, Cat(path, " is gone: it is made anew of the snapshots there are"),
              [this, path]() -> absl::Status {
                KERF_RETURN_IF_ERROR(MakeDirectory(path));
                return SyncDirectory(directory_);
              });
  }
  if (!checked_.manifest.ok()) {
    Ask("manifest", manifest_.directory(), std::string(MessageOf(checked_.manifest)));
  }
  for (const store::v1::Snapshot& snapshot : checked_.snapshots) {
    const absl::Status status = manifest_.Read(snapshot.id()).status();
    if (status.ok() || absl::IsNotFound(status)) continue;
    const std::string path = manifest_.NotePath(snapshot.id());
    Do("note", path, Cat(MessageOf(status), ": it is made anew from its snapshot"),
       [this, path, &snapshot]() -> absl::Status {
         KERF_RETURN_IF_ERROR(PutAside(path));
         return manifest_.Add(NoteOf(snapshot));
       });
  }
}

// Of how much parity packs get there is no second copy: people say it again.
void Repair::AskForParity() {
  const absl::Status status = ReadParityPercent(directory_).status();
  if (!status.ok()) Ask("parity", ParitySettingPath(directory_), std::string(MessageOf(status)));
}

// Notes what nobody has noted, and makes copies that are not there. That a store cannot be opened
// was said before.
void Repair::MakeWhatIsMissing() {
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForWriting(directory_);
  if (!store.ok()) return;
  for (const StoreFlaw& flaw : (*store)->flaws()) {
    if (!flaw.was_not_made) continue;
    report_.steps.push_back(
        {"folder", flaw.path, std::string(MessageOf(flaw.status)), State::kFailed});
  }
}

absl::Status Repair::Run() {
  KERF_RETURN_IF_ERROR(Look());
  KERF_RETURN_IF_ERROR(CheckAcceptedLosses());
  MendFolders();
  UniqueFd lock;
  if (!options_.dry_run) {
    KERF_ASSIGN_OR_RETURN(lock, LockCollector(directory_));
  }
  MendConfig();
  MendEpoch();
  MendPending();
  MendSnapshots();
  MendManifest();
  AskForParity();
  if (!options_.dry_run) MakeWhatIsMissing();
  return absl::OkStatus();
}

}  // namespace

std::size_t RepairReport::Count(RepairStep::State state) const {
  return static_cast<std::size_t>(std::count_if(
      steps.begin(), steps.end(), [&](const RepairStep& step) { return step.state == state; }));
}

absl::StatusOr<RepairReport> RepairStore(const std::string& directory,
                                         const RepairOptions& options) {
  RepairReport report;
  KERF_RETURN_IF_ERROR(RepairStore(directory, options, report));
  return report;
}

absl::Status RepairStore(const std::string& directory, const RepairOptions& options,
                         RepairReport& report) {
  return Repair(directory, options, report).Run();
}

absl::StatusOr<std::string> GiveNewId(const std::string& directory) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open(directory));
  KERF_ASSIGN_OR_RETURN(const UniqueFd lock, LockCollector(directory));
  store::v1::StoreConfig config = store->config();
  config.set_id(RandomHex());
  // The first one counts: if this ends between the two, the store has its new id.
  KERF_RETURN_IF_ERROR(
      WriteConfigFile(ConfigPath(directory), store->temporary_directory(), config));
  if (MayExist(CopiesDirectory(directory))) {
    KERF_RETURN_IF_ERROR(
        WriteConfigFile(ConfigCopyPath(directory), store->temporary_directory(), config));
  }
  return config.id();
}

}  // namespace kerf::agent
