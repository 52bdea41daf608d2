#include "client/store/snapshots/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"
#include "client/store/parity/parity_setting.h"

namespace kerf::agent {
namespace {

// More than a frame and an id add to a snapshot.
constexpr std::uint64_t kMaxFramingBytes = 4096;
// What protobuf can parse, less a frame.
constexpr std::uint64_t kMaxSnapshotBytes = (std::uint64_t{1} << 31) - kMaxFramingBytes;
constexpr std::size_t kSnapshotIdDigits = 16;
constexpr std::string_view kEpochName = "epoch";
constexpr std::string_view kConfigName = "config";
constexpr std::string_view kManifestName = "manifest";
constexpr std::string_view kQuarantineName = "quarantine";
constexpr std::string_view kParityName = "parity";
// The first ones hold what nobody can make again: where they are gone they stay so.
constexpr std::string_view kFolders[] = {"packs", "snapshots", "manifest", "copies", "forgotten",
                                         "pins",  "pending",   "tmp",      "gc",     "locks"};
constexpr std::size_t kLossyFolderCount = 3;

// Makes it and what is missing above it, durably.
absl::Status MakeDirectories(const std::string& directory) {
  for (std::size_t slash = directory.find('/', 1);; slash = directory.find('/', slash + 1)) {
    const std::string part = directory.substr(0, slash);
    if (access(part.c_str(), F_OK) != 0) {
      KERF_RETURN_IF_ERROR(MakeDirectory(part));
      KERF_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(part)));
    }
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

// Of one that is damaged nothing is known but that it was there.
store::v1::SnapshotNote NoteOfFile(const std::string& id,
                                   const absl::StatusOr<store::v1::Snapshot>& snapshot) {
  store::v1::SnapshotNote note;
  if (snapshot.ok()) note = NoteOf(*snapshot);
  note.set_id(id);
  return note;
}

std::vector<StoreFlaw> FindFlaws(const std::string& directory, const ConfigCopies& configs,
                                 const EpochCopies& epochs) {
  std::vector<StoreFlaw> flaws = FlawsOf(directory, configs, epochs);
  // What has a second configuration had a manifest before.
  const Manifest manifest(directory);
  if (configs.copy.ok() && !manifest.IsThere()) {
    flaws.push_back({manifest.directory(),
                     absl::DataLossError(Cat(manifest.directory(), " is gone: whether snapshots ",
                                             "are is not known; `kerf repair` tells more"))});
  }
  if (const absl::Status status = ReadParityPercent(directory).status(); !status.ok()) {
    flaws.push_back({ParitySettingPath(directory), status});
  }
  return flaws;
}

}  // namespace

std::vector<StoreFlaw> FindFlaws(const std::string& directory) {
  return FindFlaws(directory, ReadConfigCopies(directory), ReadEpochCopies(directory));
}

std::vector<StoreFlaw> FindMissingCopies(const std::string& directory) {
  std::vector<StoreFlaw> missing;
  // Who notes a snapshot has opened the store for writing before, and made them: where nothing is
  // noted it may be about to be made, or be one of kerf 0.1.0, which had none.
  const absl::StatusOr<std::vector<std::string>> noted = Manifest(directory).ListIds();
  if (!noted.ok() || noted->empty()) return missing;
  const auto look = [&](const std::string& path, const absl::Status& status) {
    if (!absl::IsNotFound(status)) return;
    const std::string text =
        Cat(path, " is gone: there is no second copy. The next verb that writes ",
            "to the store makes it, as `kerf repair --apply` does");
    missing.push_back({path, absl::DataLossError(ToAbsl(text))});
  };
  look(ConfigCopyPath(directory), ReadConfigCopies(directory).copy.status());
  look(EpochCopyPath(directory), ReadEpochCopies(directory).copy.status());
  return missing;
}

Store::Store(std::string directory, store::v1::StoreConfig config, std::vector<StoreFlaw> flaws)
    : directory_(std::move(directory)),
      config_(std::move(config)),
      manifest_(directory_),
      flaws_(std::move(flaws)) {}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& directory) {
  struct stat info{};
  if (stat(directory.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(Cat(directory, " is no folder, so it holds no store"));
  }
  const ConfigCopies configs = ReadConfigCopies(directory);
  absl::StatusOr<store::v1::StoreConfig> config = ChooseConfig(configs);
  if (absl::IsNotFound(config.status())) {
    return absl::NotFoundError(
        Cat(directory, " holds no store: `kerf backup --store ", directory, "` makes one"));
  }
  if (!config.ok()) return config.status();
  return std::unique_ptr<Store>(new Store(
      directory, *std::move(config), FindFlaws(directory, configs, ReadEpochCopies(directory))));
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenForWriting(const std::string& directory) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Open(directory));
  // Whoever makes it may not have come to this yet.
  KERF_RETURN_IF_ERROR(SyncDirectory(directory));
  const ConfigCopies configs = ReadConfigCopies(directory);
  if (configs.config.ok() && configs.copy.ok() && configs.config->id() != configs.copy->id()) {
    return absl::FailedPreconditionError(
        Cat(ConfigPath(directory), " and ", ConfigCopyPath(directory),
            " are of two different stores: `kerf repair` tells more"));
  }
  // Where the disk is full a collection must still run.
  absl::Status status = store->MakeWhatIsMissing(configs, ReadEpochCopies(directory));
  if (!status.ok()) {
    store->flaws_.push_back({directory, Annotate(status, "what it lacks could not be made"), true});
  }
  return store;
}

// The second configuration comes last: a store that has it was noted in full.
absl::Status Store::MakeWhatIsMissing(const ConfigCopies& configs,
                                      const EpochCopies& epochs) const {
  const bool is_new = absl::IsNotFound(configs.copy.status());
  for (std::size_t index = 0; index < std::size(kFolders); ++index) {
    const std::string folder = Cat(directory_, "/", kFolders[index]);
    if (MayExist(folder)) continue;
    const bool may_be_made =
        index >= kLossyFolderCount || (is_new && kFolders[index] == kManifestName);
    if (!may_be_made) continue;
    KERF_RETURN_IF_ERROR(MakeDirectory(folder));
    KERF_RETURN_IF_ERROR(SyncDirectory(directory_));
  }
  if (manifest_.IsThere()) KERF_RETURN_IF_ERROR(NoteAll());
  if (absl::IsNotFound(epochs.copy.status()) && epochs.epoch.ok()) {
    KERF_RETURN_IF_ERROR(
        AddEpochFile(EpochCopyPath(directory_), temporary_directory(), *epochs.epoch));
  }
  if (is_new && configs.config.ok()) {
    KERF_RETURN_IF_ERROR(
        AddConfigFile(ConfigCopyPath(directory_), temporary_directory(), *configs.config));
  }
  return reserve().Make();
}

// Notes the snapshots that kerf 0.1.0 made, or whose agent died before it had noted them.
absl::Status Store::NoteAll() const {
  absl::StatusOr<std::vector<std::string>> names = ListDirectory(snapshots_directory());
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> noted, manifest_.ListIds());
  bool has_noted = false;
  for (const std::string& name : *names) {
    const std::string id = name.substr(0, name.find('.'));
    const std::string path = SnapshotPath(snapshots_directory(), id);
    if (!IsSnapshotId(id) || !path.ends_with(Cat("/", name))) continue;
    if (std::binary_search(noted.begin(), noted.end(), id)) continue;
    const absl::StatusOr<store::v1::Snapshot> snapshot = ReadSnapshot(path);
    if (absl::IsNotFound(snapshot.status())) continue;
    // Before its note is: one that is lost in between would never have been.
    if (!has_noted) KERF_RETURN_IF_ERROR(SyncDirectory(snapshots_directory()));
    has_noted = true;
    KERF_RETURN_IF_ERROR(manifest_.Add(NoteOfFile(id, snapshot)));
    // Whoever forgets it may have come in between.
    if (!MayExist(path)) KERF_RETURN_IF_ERROR(SettleNote(id));
  }
  return has_noted ? manifest_.RaiseGeneration() : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenOrCreate(const std::string& directory,
                                                           std::string_view profile,
                                                           DigestAlgorithm digest_algorithm) {
  absl::StatusOr<std::unique_ptr<Store>> opened = OpenForWriting(directory);
  if (opened.ok()) return opened;
  if (!absl::IsNotFound(opened.status())) return opened;
  KERF_RETURN_IF_ERROR(MakeDirectories(directory));
  KERF_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(directory)));
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  for (const std::string& name : names) {
    // Another agent may be making the store right now.
    if (name == kEpochName || name == kConfigName || name == kQuarantineName ||
        name == kParityName) {
      continue;
    }
    if (std::find(std::begin(kFolders), std::end(kFolders), name) == std::end(kFolders)) {
      return absl::FailedPreconditionError(
          Cat(directory, " is not empty and holds no store: name an empty or a new directory"));
    }
  }
  for (const std::string_view folder : kFolders) {
    KERF_RETURN_IF_ERROR(MakeDirectory(Cat(directory, "/", folder)));
  }
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> packs,
                        ListDirectory(Cat(directory, "/packs")));
  if (!packs.empty()) {
    // By now another agent has made it, or it was lost. Another id and digest algorithm would make
    // the packs useless.
    opened = OpenForWriting(directory);
    if (!absl::IsNotFound(opened.status())) return opened;
    return absl::DataLossError(Cat(directory, "/config is gone, and the store holds packs: bring ",
                                   "the file back, or let `kerf repair` make it anew"));
  }
  store::v1::StoreConfig config;
  config.set_id(RandomHex());
  config.set_profile(std::string(profile));
  config.set_metadata_profile(std::string(kMetadataProfile));
  config.set_digest_algorithm(static_cast<kerf::v1::DigestAlgorithm>(digest_algorithm));
  config.set_created_unix_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count());
  // The configuration comes last: with it the store exists. Of agents that make one at once, all go
  // on with what came first; an epoch that has been raised meanwhile must not go back.
  // This also makes the folders durable.
  const std::string temporary_directory = Cat(directory, "/tmp");
  KERF_RETURN_IF_ERROR(AddEpochFile(EpochPath(directory), temporary_directory, 1));
  KERF_RETURN_IF_ERROR(AddConfigFile(ConfigPath(directory), temporary_directory, config));
  return OpenForWriting(directory);
}

absl::StatusOr<std::uint64_t> Store::ReadEpoch() const {
  return ChooseEpoch(ReadEpochCopies(directory_));
}

absl::Status Store::WriteEpoch(std::uint64_t epoch) const {
  return reserve().Spend([&] { return WriteEpochs(epoch); });
}

// Kerf 0.1.0 reads the first one only: the second one never lies behind what anybody has read.
absl::Status Store::WriteEpochs(std::uint64_t epoch) const {
  const absl::Status status =
      WriteEpochFile(EpochCopyPath(directory_), temporary_directory(), epoch);
  // There is no folder for it before the store was opened for writing.
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return WriteEpochFile(EpochPath(directory_), temporary_directory(), epoch);
}

absl::Status Store::WriteSnapshotTo(const std::string& directory,
                                    store::v1::Snapshot& snapshot) const {
  // Larger ones could not be read back.
  if (snapshot.ByteSizeLong() + kMaxFramingBytes > kMaxSnapshotBytes) {
    return absl::ResourceExhaustedError(
        Cat("the snapshot's file would have more than ", kMaxSnapshotBytes,
            " bytes: split the backup into several of fewer paths"));
  }
  if (snapshot.id().empty()) snapshot.set_id(RandomHex().substr(0, kSnapshotIdDigits));
  const std::uint32_t version =
      snapshot.has_linked_specials() ? kLinkedSnapshotVersion : kFirstFramedVersion;
  return WriteFileDurably(SnapshotPath(directory, snapshot.id()), temporary_directory(),
                          EncodeFramed(kSnapshotMagic, snapshot.SerializeAsString(), version));
}

absl::Status Store::WriteSnapshot(store::v1::Snapshot& snapshot) const {
  KERF_RETURN_IF_ERROR(WriteSnapshotTo(snapshots_directory(), snapshot));
  return NoteSnapshot(snapshot);
}

absl::Status Store::NoteSnapshot(const store::v1::Snapshot& snapshot) const {
  // Where the manifest is gone, that was said when the store was opened.
  if (!manifest_.IsThere()) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(manifest_.Add(NoteOf(snapshot)));
  // Whoever forgets it may have come in between.
  if (!MayExist(SnapshotPath(snapshots_directory(), snapshot.id()))) {
    KERF_RETURN_IF_ERROR(SettleNote(snapshot.id()));
  }
  return manifest_.RaiseGeneration();
}

// Whoever publishes a snapshot, or takes one away, does this behind that. It looks behind what it
// has written: of several at once the one that writes last has seen where the snapshot is.
absl::Status Store::SettleNote(const std::string& id) const {
  const std::string path = SnapshotPath(snapshots_directory(), id);
  bool was_there = false;
  bool is_there = MayExist(path);
  do {
    if (!is_there) {
      KERF_RETURN_IF_ERROR(manifest_.Remove(id));
    } else if (manifest_.IsThere() && !manifest_.Has(id)) {
      const absl::StatusOr<store::v1::Snapshot> snapshot = ReadSnapshot(path);
      if (!absl::IsNotFound(snapshot.status())) {
        KERF_RETURN_IF_ERROR(manifest_.Add(NoteOfFile(id, snapshot)));
      }
    }
    was_there = std::exchange(is_there, MayExist(path));
  } while (was_there != is_there);
  return absl::OkStatus();
}

absl::StatusOr<SnapshotList> Store::ListSnapshots() const {
  absl::StatusOr<SnapshotList> list = ListSnapshotsIn(snapshots_directory());
  if (absl::IsNotFound(list.status())) {
    return absl::DataLossError(Cat(
        snapshots_directory(), " is gone, and with it all snapshots: ", "bring the folder back"));
  }
  if (!list.ok()) return list;
  CompareWithManifest(manifest_, snapshots_directory(), forgotten_directory(), *list);
  return list;
}

absl::StatusOr<SnapshotList> Store::ListPending() const {
  return ListSnapshotsIn(pending_directory());
}

absl::StatusOr<SnapshotList> Store::ListForgotten() const {
  absl::StatusOr<SnapshotList> list = ListSnapshotsIn(forgotten_directory());
  // Kerf 0.1.0 keeps none.
  return absl::IsNotFound(list.status()) ? SnapshotList() : std::move(list);
}

absl::StatusOr<store::v1::Snapshot> Store::FindSnapshot(std::string_view name) const {
  const absl::Status none = absl::NotFoundError(
      Cat("no snapshot '", name, "' in ", directory_, ": `kerf snapshots` lists them"));
  if (IsSnapshotId(name)) {
    absl::StatusOr<store::v1::Snapshot> snapshot =
        ReadSnapshot(SnapshotPath(snapshots_directory(), name));
    if (!absl::IsNotFound(snapshot.status())) return snapshot;
  }
  KERF_ASSIGN_OR_RETURN(SnapshotList list, ListSnapshots());
  if (name == "latest") return FindLatest(directory_, std::move(list));
  if (name.empty()) return none;
  std::size_t found_count = 0;
  absl::StatusOr<store::v1::Snapshot> found = none;
  const auto find = [&](std::string_view id, const auto& what) {
    if (!id.starts_with(name)) return;
    ++found_count;
    found = what;
  };
  for (const store::v1::Snapshot& snapshot : list.snapshots) find(snapshot.id(), snapshot);
  for (const DamagedSnapshot& damaged : list.damaged) find(damaged.id, damaged.status);
  for (const MissingSnapshot& missing : list.missing) find(missing.id, DescribeLoss(missing));
  if (found_count > 1) {
    return absl::InvalidArgumentError(
        Cat("several snapshots begin with '", name, "': give more of the id"));
  }
  return found;
}

absl::Status Store::PinSnapshot(const store::v1::SnapshotPin& pin) const {
  if (!IsSnapshotId(pin.id())) {
    return absl::InvalidArgumentError(Cat("'", pin.id(), "' is no snapshot id"));
  }
  KERF_RETURN_IF_ERROR(pins().Add(pin));
  if (manifest_.Has(pin.id()) && MayExist(SnapshotPath(snapshots_directory(), pin.id()))) {
    return absl::OkStatus();
  }
  KERF_RETURN_IF_ERROR(pins().Remove(pin.id()));
  return absl::NotFoundError(Cat("snapshot ", pin.id(), " is not there, or is being forgotten"));
}

absl::Status Store::RemoveSnapshot(const std::string& id) const {
  if (!IsSnapshotId(id)) return absl::InvalidArgumentError(Cat("'", id, "' is no snapshot id"));
  const absl::StatusOr<store::v1::SnapshotNote> note = manifest_.Read(id);
  // On a full disk snapshots are forgotten to make room.
  const bool had_reserve = reserve().IsThere();
  const absl::Status status = reserve().Spend([&] { return RemoveNoted(id, note); });
  // Whoever opens the store next tries again.
  if (had_reserve && !reserve().IsThere()) reserve().TakeBack().IgnoreError();
  return status;
}

absl::Status Store::DescribePinned(const std::string& id) const {
  const absl::StatusOr<store::v1::SnapshotPin> pin = pins().Read(id);
  return absl::FailedPreconditionError(Cat("snapshot ", id, " is pinned",
                                           pin.ok() ? Cat(" (", pin->reason(), ")") : "",
                                           ": `kerf unpin ", id, "` lets it be forgotten"));
}

// The note goes first, so that nobody misses the snapshot, and once more behind it: who noted what
// seemed to be forgotten by nobody may have come in between, or who has brought it back already.
absl::Status Store::RemoveNoted(const std::string& id,
                                const absl::StatusOr<store::v1::SnapshotNote>& note) const {
  const std::string path = SnapshotPath(snapshots_directory(), id);
  KERF_RETURN_IF_ERROR(MakeDirectory(forgotten_directory()));
  // Whoever forgets this one may count on a later one: that one must not be lost when this one is.
  KERF_RETURN_IF_ERROR(SyncDirectory(snapshots_directory()));
  KERF_RETURN_IF_ERROR(manifest_.Remove(id));
  // Behind the note, which whoever pins looks for behind the pin: one of the two sees the other.
  if (pins().Has(id)) {
    if (note.ok()) KERF_RETURN_IF_ERROR(manifest_.Add(*note));
    return DescribePinned(id);
  }
  const std::string forgotten = SnapshotPath(forgotten_directory(), id);
  const absl::Status status = PublishFile(path, forgotten);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  // The note may have been there again for whoever pinned: then the snapshot still was, too.
  if (status.ok() && pins().Has(id)) {
    const absl::Status moved = PublishFile(forgotten, path);
    // Who brings it back has been quicker.
    if (!moved.ok() && !(absl::IsNotFound(moved) && MayExist(path))) return moved;
    KERF_RETURN_IF_ERROR(SettleNote(id));
    return DescribePinned(id);
  }
  KERF_RETURN_IF_ERROR(SyncDirectory(snapshots_directory()));
  KERF_RETURN_IF_ERROR(SettleNote(id));
  return manifest_.IsThere() ? manifest_.RaiseGeneration() : absl::OkStatus();
}

}  // namespace kerf::agent
