// Files that are either whole and durable, or not there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf::agent {

// What errno says, about `what`; ENOSPC and EDQUOT become ResourceExhausted, ENOENT NotFound,
// EACCES and EPERM PermissionDenied, EEXIST AlreadyExists, all else Unknown.
absl::Status ErrnoStatus(int error_number, std::string_view what);

// A file descriptor that closes itself.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.Release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd();

  int get() const { return fd_; }
  int Release();

 private:
  int fd_ = -1;
};

// Makes the content of the file durable.
absl::Status SyncFile(int fd, std::string_view what);

// Begins to write the range back, so that a SyncFile later has little left to do. Promises nothing.
void StartWriteback(int fd, std::uint64_t offset, std::uint64_t size_bytes);

// From now on SyncFile, StartWriteback and SyncDirectory do nothing. Simulations only, of which
// nothing is to survive the machine.
void SkipSyncForTest();

// Makes the directory's entries durable.
absl::Status SyncDirectory(const std::string& directory);

// Renames and makes the new name durable; the content must have been synced.
absl::Status PublishFile(const std::string& from, const std::string& to);

// Writes `bytes` to a new file in `temporary_directory`, syncs it, and renames it to `path`.
absl::Status WriteFileDurably(const std::string& path, const std::string& temporary_directory,
                              std::span<const std::uint8_t> bytes);

// The whole file; OutOfRange if it is larger than `max_bytes`.
absl::StatusOr<std::vector<std::uint8_t>> ReadWholeFile(const std::string& path,
                                                        std::uint64_t max_bytes);

absl::Status PReadExactly(int fd, std::span<std::uint8_t> bytes, std::uint64_t offset,
                          std::string_view what);
absl::Status PWriteExactly(int fd, std::span<const std::uint8_t> bytes, std::uint64_t offset,
                           std::string_view what);

// 16 random bytes from the kernel, for ids and names of temporary files.
std::string RandomHex();

// From now on RandomHex gives what follows from `seed`, so that a simulation can be replayed. Tests
// only; not while other threads call RandomHex.
void SeedRandomHexForTest(std::uint64_t seed);

}  // namespace kerf::agent
