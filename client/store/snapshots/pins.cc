#include "client/store/snapshots/pins.h"

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"

namespace kerf::agent {
namespace {

constexpr std::uint64_t kMaxPinBytes = std::uint64_t{1} << 20;

}  // namespace

Pins::Pins(std::string_view directory)
    : directory_(Cat(directory, "/pins")), temporary_directory_(Cat(directory, "/tmp")) {}

std::string Pins::PathOf(std::string_view id) const { return Cat(directory_, "/", id, ".pin"); }

bool Pins::Has(std::string_view id) const { return MayExist(PathOf(id)); }

absl::StatusOr<store::v1::SnapshotPin> Pins::Read(std::string_view id) const {
  const std::string path = PathOf(id);
  KERF_ASSIGN_OR_RETURN(const std::string payload, ReadFramedFile(path, kPinMagic, kMaxPinBytes));
  store::v1::SnapshotPin pin;
  if (!pin.ParseFromString(payload) || pin.id() != id) {
    return absl::DataLossError(Cat(path, ": it is no pin of snapshot ", id));
  }
  return pin;
}

absl::Status Pins::Add(const store::v1::SnapshotPin& pin) const {
  const std::string payload = pin.SerializeAsString();
  if (payload.size() + kMaxPinBytes / 2 > kMaxPinBytes) {
    return absl::InvalidArgumentError("the reason is too long");
  }
  KERF_RETURN_IF_ERROR(MakeDirectory(directory_));
  KERF_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(directory_)));
  return WriteFileDurably(PathOf(pin.id()), temporary_directory_, EncodeFramed(kPinMagic, payload));
}

absl::Status Pins::Remove(std::string_view id) const {
  KERF_RETURN_IF_ERROR(RemoveFile(PathOf(id)));
  return SyncDirectory(directory_);
}

}  // namespace kerf::agent
