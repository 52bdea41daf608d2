#include "client/store/snapshots/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"

namespace kerf::agent {
namespace {

// More than a frame and an id add to a snapshot.
constexpr std::uint64_t kMaxFramingBytes = 4096;
constexpr std::uint64_t kMaxConfigBytes = 64 * 1024;
// What protobuf can parse, less a frame.
constexpr std::uint64_t kMaxSnapshotBytes = (std::uint64_t{1} << 31) - kMaxFramingBytes;
constexpr std::string_view kSnapshotSuffix = ".snap";
constexpr std::size_t kSnapshotIdDigits = 16;
// Small chunks, so that the metadata of unchanged files around a changed one is found again
// (docs/adr/0004).
constexpr std::string_view kMetadataProfile = "fastcdc2020:min=512,avg=2048,max=16384,level=1";
constexpr std::string_view kEpochName = "epoch";
constexpr std::string_view kConfigName = "config";
constexpr std::string_view kFolders[] = {"packs", "snapshots", "pending", "tmp", "gc", "locks"};

absl::StatusOr<std::string> ReadFramed(const std::string& path, const FileMagic& magic,
                                       std::uint64_t max_bytes) {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> bytes, ReadWholeFile(path, max_bytes));
  absl::StatusOr<std::string> payload = DecodeFramed(magic, bytes);
  if (!payload.ok()) return Annotate(payload.status(), path);
  return payload;
}

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

absl::StatusOr<store::v1::Snapshot> ReadSnapshot(const std::string& path) {
  KERF_ASSIGN_OR_RETURN(const std::string payload,
                        ReadFramed(path, kSnapshotMagic, kMaxSnapshotBytes));
  store::v1::Snapshot snapshot;
  if (!snapshot.ParseFromString(payload)) {
    return absl::DataLossError(Cat(path, ": it is no snapshot"));
  }
  if (path.substr(path.rfind('/') + 1) != Cat(snapshot.id(), kSnapshotSuffix)) {
    return absl::DataLossError(Cat(path, ": it is snapshot ", snapshot.id()));
  }
  return snapshot;
}

// Durable on return; a file that is there already stays.
absl::Status WriteUnlessThere(const std::string& path, const std::string& temporary_directory,
                              std::span<const std::uint8_t> bytes) {
  const std::string temporary = Cat(temporary_directory, "/new-", RandomHex());
  KERF_RETURN_IF_ERROR(WriteFileDurably(temporary, temporary_directory, bytes));
  const absl::Status status = PublishUnlessThere(temporary, path);
  RemoveFile(temporary).IgnoreError();
  return status;
}

bool IsSnapshotId(std::string_view text) {
  return text.size() == kSnapshotIdDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

absl::StatusOr<SnapshotList> ListSnapshotsIn(const std::string& directory) {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  SnapshotList list;
  for (const std::string_view name : names) {
    if (!name.ends_with(kSnapshotSuffix)) continue;
    const std::string path = Cat(directory, "/", name);
    absl::StatusOr<store::v1::Snapshot> snapshot = ReadSnapshot(path);
    if (snapshot.ok()) {
      list.snapshots.push_back(*std::move(snapshot));
    } else if (!absl::IsNotFound(snapshot.status())) {
      list.damaged.push_back({path, snapshot.status()});
    }
  }
  std::sort(list.snapshots.begin(), list.snapshots.end(), [](const auto& a, const auto& b) {
    return std::pair(a.started_unix_ns(), a.id()) < std::pair(b.started_unix_ns(), b.id());
  });
  return list;
}

}  // namespace

Store::Store(std::string directory, store::v1::StoreConfig config)
    : directory_(std::move(directory)), config_(std::move(config)) {}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& directory) {
  struct stat info{};
  if (stat(directory.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(Cat(directory, " is no folder, so it holds no store"));
  }
  absl::StatusOr<std::string> payload =
      ReadFramed(Cat(directory, "/config"), kConfigMagic, kMaxConfigBytes);
  if (absl::IsNotFound(payload.status())) {
    return absl::NotFoundError(
        Cat(directory, " holds no store: `kerf backup --store ", directory, "` makes one"));
  }
  if (!payload.ok()) return payload.status();
  store::v1::StoreConfig config;
  if (!config.ParseFromString(*payload) || config.id().empty() || config.digest_algorithm() < 1 ||
      config.digest_algorithm() > 3) {
    return absl::DataLossError(Cat(directory, "/config: it is no configuration of a store"));
  }
  return std::unique_ptr<Store>(new Store(directory, std::move(config)));
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenOrCreate(const std::string& directory,
                                                           std::string_view profile,
                                                           DigestAlgorithm digest_algorithm) {
  absl::StatusOr<std::unique_ptr<Store>> opened = Open(directory);
  if (opened.ok()) {
    // Whoever makes it may not have come to this yet.
    KERF_RETURN_IF_ERROR(SyncDirectory(directory));
    return opened;
  }
  if (!absl::IsNotFound(opened.status())) return opened;
  KERF_RETURN_IF_ERROR(MakeDirectories(directory));
  KERF_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(directory)));
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  for (const std::string& name : names) {
    // Another agent may be making the store right now.
    if (name == kEpochName || name == kConfigName) continue;
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
    opened = Open(directory);
    if (!absl::IsNotFound(opened.status())) return opened;
    return absl::DataLossError(
        Cat(directory, "/config is gone, and the store holds packs: bring the file back"));
  }
  store::v1::StoreConfig config;
  config.set_id(RandomHex());
  config.set_profile(std::string(profile));
  config.set_metadata_profile(std::string(kMetadataProfile));
  config.set_digest_algorithm(static_cast<kerf::v1::DigestAlgorithm>(digest_algorithm));
  config.set_created_unix_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count());
  const std::unique_ptr<Store> store(new Store(directory, config));
  // The configuration comes last: with it the store exists. Of agents that make one at once, all go
  // on with what came first; an epoch that has been raised meanwhile must not go back.
  // This also makes the folders durable.
  KERF_RETURN_IF_ERROR(WriteUnlessThere(Cat(directory, "/", kEpochName),
                                        store->temporary_directory(),
                                        EncodeFramed(kEpochMagic, Cat(1))));
  KERF_RETURN_IF_ERROR(WriteUnlessThere(Cat(directory, "/", kConfigName),
                                        store->temporary_directory(),
                                        EncodeFramed(kConfigMagic, config.SerializeAsString())));
  return Open(directory);
}

absl::StatusOr<std::uint64_t> Store::ReadEpoch() const {
  const std::string path = Cat(directory_, "/epoch");
  KERF_ASSIGN_OR_RETURN(const std::string text, ReadFramed(path, kEpochMagic, kMaxConfigBytes));
  std::uint64_t epoch = 0;
  if (!absl::SimpleAtoi(text, &epoch) || epoch == 0) {
    return absl::DataLossError(Cat(path, ": it is no epoch"));
  }
  return epoch;
}

absl::Status Store::WriteEpoch(std::uint64_t epoch) const {
  return WriteFileDurably(Cat(directory_, "/epoch"), temporary_directory(),
                          EncodeFramed(kEpochMagic, Cat(epoch)));
}

std::string Store::SnapshotPath(const std::string& directory, std::string_view id) {
  return Cat(directory, "/", id, kSnapshotSuffix);
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
  return WriteFileDurably(SnapshotPath(directory, snapshot.id()), temporary_directory(),
                          EncodeFramed(kSnapshotMagic, snapshot.SerializeAsString()));
}

absl::Status Store::WriteSnapshot(store::v1::Snapshot& snapshot) const {
  return WriteSnapshotTo(snapshots_directory(), snapshot);
}

absl::StatusOr<SnapshotList> Store::ListSnapshots() const {
  return ListSnapshotsIn(snapshots_directory());
}

absl::StatusOr<SnapshotList> Store::ListPending() const {
  return ListSnapshotsIn(pending_directory());
}

absl::StatusOr<store::v1::Snapshot> Store::FindSnapshot(std::string_view name) const {
  const absl::Status none = absl::NotFoundError(
      Cat("no snapshot '", name, "' in ", directory_, ": `kerf snapshots` lists them"));
  if (IsSnapshotId(name)) {
    absl::StatusOr<store::v1::Snapshot> snapshot =
        ReadSnapshot(Cat(snapshots_directory(), "/", name, kSnapshotSuffix));
    return absl::IsNotFound(snapshot.status()) ? none : snapshot;
  }
  KERF_ASSIGN_OR_RETURN(SnapshotList list, ListSnapshots());
  if (name == "latest") {
    if (!list.snapshots.empty()) return std::move(list.snapshots.back());
    return absl::NotFoundError(Cat(directory_, " holds no snapshot yet"));
  }
  store::v1::Snapshot* found = nullptr;
  for (store::v1::Snapshot& snapshot : list.snapshots) {
    if (name.empty() || !snapshot.id().starts_with(name)) continue;
    if (found != nullptr) {
      return absl::InvalidArgumentError(
          Cat("several snapshots begin with '", name, "': give more of the id"));
    }
    found = &snapshot;
  }
  if (found != nullptr) return std::move(*found);
  return none;
}

absl::Status Store::RemoveSnapshot(const std::string& id) const {
  const std::string path = Cat(snapshots_directory(), "/", id, kSnapshotSuffix);
  if (!IsSnapshotId(id)) return absl::InvalidArgumentError(Cat("'", id, "' is no snapshot id"));
  // Whoever forgets this one may count on a later one: that one must not be lost when this one is.
  KERF_RETURN_IF_ERROR(SyncDirectory(snapshots_directory()));
  KERF_RETURN_IF_ERROR(RemoveFile(path));
  return SyncDirectory(snapshots_directory());
}

}  // namespace kerf::agent
