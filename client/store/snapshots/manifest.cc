#include "client/store/snapshots/manifest.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/hex.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kNoteSuffix = ".note";
constexpr std::string_view kGenerationPrefix = "generation-";
constexpr std::size_t kSnapshotIdDigits = 16;
// Paths of a backup, some thousands of long ones.
constexpr std::uint64_t kMaxNoteBytes = std::uint64_t{64} << 20;

// 0 for a name that is no generation's.
std::uint64_t GenerationOf(std::string_view name) {
  std::uint64_t generation = 0;
  if (!name.starts_with(kGenerationPrefix)) return 0;
  name.remove_prefix(kGenerationPrefix.size());
  return absl::SimpleHexAtoi(ToAbsl(name), &generation) ? generation : 0;
}

}  // namespace

bool IsSnapshotId(std::string_view text) { return text.size() == kSnapshotIdDigits && IsHex(text); }

store::v1::SnapshotNote NoteOf(const store::v1::Snapshot& snapshot) {
  store::v1::SnapshotNote note;
  note.set_id(snapshot.id());
  note.set_started_unix_ns(snapshot.started_unix_ns());
  note.set_host(snapshot.host());
  *note.mutable_paths() = snapshot.paths();
  return note;
}

Manifest::Manifest(std::string_view directory)
    : directory_(Cat(directory, "/manifest")), temporary_directory_(Cat(directory, "/tmp")) {}

bool Manifest::IsThere() const { return MayExist(directory_); }

std::string Manifest::NotePath(std::string_view id) const {
  return Cat(directory_, "/", id, kNoteSuffix);
}

absl::StatusOr<std::vector<std::string>> Manifest::ListIds() const {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory_));
  std::vector<std::string> ids;
  for (std::string_view name : names) {
    if (!name.ends_with(kNoteSuffix)) continue;
    name.remove_suffix(kNoteSuffix.size());
    if (IsSnapshotId(name)) ids.emplace_back(name);
  }
  return ids;
}

absl::StatusOr<store::v1::SnapshotNote> Manifest::Read(std::string_view id) const {
  const std::string path = NotePath(id);
  KERF_ASSIGN_OR_RETURN(const std::string payload, ReadFramedFile(path, kNoteMagic, kMaxNoteBytes));
  store::v1::SnapshotNote note;
  if (!note.ParseFromString(payload) || note.id() != id) {
    return absl::DataLossError(Cat(path, ": it is no note of snapshot ", id));
  }
  return note;
}

bool Manifest::Has(std::string_view id) const { return MayExist(NotePath(id)); }

absl::Status Manifest::Add(const store::v1::SnapshotNote& note) const {
  return WriteFileDurably(NotePath(note.id()), temporary_directory_,
                          EncodeFramed(kNoteMagic, note.SerializeAsString()));
}

absl::Status Manifest::Remove(std::string_view id) const {
  const absl::Status status = RemoveFile(NotePath(id));
  if (absl::IsNotFound(status) && !IsThere()) return absl::OkStatus();
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return SyncDirectory(directory_);
}

absl::StatusOr<std::uint64_t> Manifest::ReadGeneration() const {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(directory_);
  if (absl::IsNotFound(names.status())) return 0;
  if (!names.ok()) return names.status();
  std::uint64_t generation = 0;
  for (const std::string& name : *names) generation = std::max(generation, GenerationOf(name));
  return generation;
}

// The number is the name of a file, the highest one counts, and only what is lower than one that is
// durable is removed: so it never goes back, whoever raises it beside.
absl::Status Manifest::RaiseGeneration() const {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory_));
  std::uint64_t generation = 0;
  for (const std::string& name : names) generation = std::max(generation, GenerationOf(name));
  KERF_RETURN_IF_ERROR(WriteFileDurably(
      Cat(directory_, "/", kGenerationPrefix, absl::StrFormat("%016x", generation + 1)),
      temporary_directory_, {}));
  for (const std::string& name : names) {
    if (GenerationOf(name) != 0) RemoveFile(Cat(directory_, "/", name)).IgnoreError();
  }
  return absl::OkStatus();
}

}  // namespace kerf::agent
