#include "client/store/repair/pack_mend.h"

#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/pack_check.h"
#include "client/store/parity/mender.h"
#include "client/store/snapshots/quarantine.h"

namespace kerf::agent {
namespace {

absl::Status WriteMended(const std::string& path, const PackId& id, const std::string& temporary) {
  KERF_ASSIGN_OR_RETURN(const Mender mender, Mender::Open(path, id));
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, CreateNewFile(temporary));
  KERF_RETURN_IF_ERROR(
      mender.ReadAll([&](std::uint64_t offset, std::span<const std::uint8_t> bytes) {
        return PWriteExactly(fd.get(), bytes, offset, temporary);
      }));
  KERF_RETURN_IF_ERROR(SyncFile(fd.get(), temporary));
  // Parity says what the file was, and only the digests of chunks that this was right.
  return CheckPack(temporary, id);
}

absl::StatusOr<std::string> Replace(const std::string& store_directory, const std::string& path,
                                    const std::string& temporary) {
  absl::StatusOr<std::string> quarantined = LinkToQuarantine(store_directory, path);
  const absl::Status& status = quarantined.status();
  // All that the damaged file has is in the new one.
  if (absl::IsUnimplemented(status) || absl::IsPermissionDenied(status)) quarantined = "";
  if (!quarantined.ok()) return quarantined;
  KERF_RETURN_IF_ERROR(PublishFile(temporary, path));
  return quarantined;
}

}  // namespace

absl::StatusOr<std::string> MendPack(const std::string& store_directory, const std::string& path,
                                     const PackId& id) {
  const std::string temporary = Cat(store_directory, "/tmp/", RandomHex(), ".pack");
  const absl::Status written = WriteMended(path, id, temporary);
  absl::StatusOr<std::string> quarantined =
      written.ok() ? Replace(store_directory, path, temporary) : written;
  if (!quarantined.ok()) RemoveFile(temporary).IgnoreError();
  return quarantined;
}

}  // namespace kerf::agent
