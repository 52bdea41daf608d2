#include "client/store/snapshots/reserve.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <functional>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {
namespace {

bool HasRoom(const std::string& directory) {
  struct statvfs info{};
  return statvfs(directory.c_str(), &info) == 0 &&
         std::uint64_t{info.f_bavail} * info.f_frsize >= kMinReserveRoom * kReserveBytes;
}

// Neither a hole nor what a file system compresses, or has already, takes any room.
std::vector<std::uint8_t> Noise(std::uint64_t size_bytes, std::string_view seed) {
  std::vector<std::uint8_t> bytes(size_bytes);
  Random(std::hash<std::string_view>()(seed)).Fill(bytes);
  return bytes;
}

absl::Status Write(std::uint64_t size_bytes, const std::string& directory,
                   const std::string& path) {
  const std::string temporary = Cat(directory, "/tmp/", RandomHex());
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, CreateNewFile(temporary));
  absl::Status status = AllocateFile(fd.get(), size_bytes, temporary);
  if (absl::IsUnimplemented(status)) {
    status = PWriteExactly(fd.get(), Noise(size_bytes, temporary), 0, temporary);
  }
  if (status.ok()) status = SyncFile(fd.get(), temporary);
  if (status.ok()) status = PublishFile(temporary, path);
  if (!status.ok()) RemoveFile(temporary).IgnoreError();
  return status;
}

}  // namespace

Reserve::Reserve(std::string_view directory)
    : directory_(directory), path_(Cat(directory, "/gc/reserve")) {}

bool Reserve::IsThere() const { return MayExist(path_); }

bool Reserve::IsWhole() const {
  struct stat info{};
  return stat(path_.c_str(), &info) == 0 &&
         static_cast<std::uint64_t>(info.st_size) >= kReserveBytes;
}

absl::Status Reserve::Make() const {
  if (IsWhole() || MayExist(Cat(directory_, "/gc/plan")) || !HasRoom(directory_)) {
    return absl::OkStatus();
  }
  const absl::Status status = Write(kReserveBytes, directory_, path_);
  // A quota, or somebody was faster.
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

absl::Status Reserve::TakeBack() const {
  if (IsWhole()) return absl::OkStatus();
  absl::Status status = Write(kReserveBytes, directory_, path_);
  // A plan that could not be carried out has taken its part, say. Half of it is better than
  // nothing.
  for (std::uint64_t size_bytes = kReserveBytes / 2;
       absl::IsResourceExhausted(status) && !IsThere() && size_bytes >= kMinReserveBytes;
       size_bytes /= 2) {
    status = Write(size_bytes, directory_, path_);
  }
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

absl::Status Reserve::Spend(const std::function<absl::Status()>& write) const {
  absl::Status status = write();
  if (!absl::IsResourceExhausted(status)) return status;
  const absl::Status given = RemoveFile(path_);
  // Another one may have given it up for itself: what that left is for both.
  if (!given.ok() && !absl::IsNotFound(given)) return status;
  // File systems with a journal give blocks back when the removal is durable.
  if (given.ok()) KERF_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(path_)));
  return write();
}

}  // namespace kerf::agent
