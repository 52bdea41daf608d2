// Files that are either whole and durable, or not there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf::agent {

// What errno says, about `what`; ENOSPC and EDQUOT become ResourceExhausted, ENOENT NotFound,
// EACCES and EPERM PermissionDenied, EEXIST AlreadyExists, EXDEV FailedPrecondition, all else
// Unknown.
absl::Status ErrnoStatus(int error_number, std::string_view what);

// All changes of a store go through the functions below, and so does all reading of its packs: that
// is what a FileHook sees.

// A new file that is open for writing, mode 0600. AlreadyExists if there is one. Until it is
// renamed or removed it is unfinished (base/unfinished_paths.h).
absl::StatusOr<UniqueFd> CreateNewFile(const std::string& path);

// Makes the content of the open file durable.
absl::Status SyncFile(int fd, const std::string& path);

// Begins to write the range back, so that a SyncFile later has little left to do. Promises nothing.
void StartWriteback(int fd, std::uint64_t offset, std::uint64_t size_bytes);

// From now on SyncFile, StartWriteback and SyncDirectory sync nothing. Simulations only, of which
// nothing is to survive the machine.
void SkipSyncForTest();

// Makes the directory's entries durable.
absl::Status SyncDirectory(const std::string& directory);

// The directory that the entry `path` lies in.
std::string DirectoryOf(const std::string& path);

// Makes a directory, mode 0700; OK if it is there. Not durable before its parent is synced.
absl::Status MakeDirectory(const std::string& path);

// False only if nothing is there for certain: what cannot be looked at may be there.
bool MayExist(const std::string& path);

// Names of all entries without those that begin with a dot, in order. An error if only some of them
// can be read.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// Renames and makes the new name durable; the content must have been synced.
absl::Status PublishFile(const std::string& from, const std::string& to);

// The same for a name that is new: a file that is there already stays, and is made durable.
absl::Status PublishUnlessThere(const std::string& from, const std::string& to);

// Gives a file a second name, durably. AlreadyExists if there is a file of that name; Unimplemented
// or PermissionDenied where the file system has no hard links.
absl::Status LinkFile(const std::string& from, const std::string& to);

// Not durable before the directory is synced. NotFound if it is not there.
absl::Status RemoveFile(const std::string& path);

// Writes `bytes` to a new file in `temporary_directory`, syncs it, and renames it to `path`.
absl::Status WriteFileDurably(const std::string& path, const std::string& temporary_directory,
                              std::span<const std::uint8_t> bytes);

// For reading. DataLoss if it is no regular file: opening a fifo would wait for somebody to write.
absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path);

// The whole file; OutOfRange if it is larger than `max_bytes`.
absl::StatusOr<std::vector<std::uint8_t>> ReadWholeFile(const std::string& path,
                                                        std::uint64_t max_bytes);

// What of the open file is in memory and not changed is read from the disk the next time. A hint,
// which file systems in memory do not follow.
void DropFromPageCache(int fd);

// DataLoss if the file ends before.
absl::Status PReadExactly(int fd, std::span<std::uint8_t> bytes, std::uint64_t offset,
                          const std::string& path);
absl::Status PWriteExactly(int fd, std::span<const std::uint8_t> bytes, std::uint64_t offset,
                           const std::string& path);

// Has the file system keep room for so many bytes of a new file. Unimplemented where it cannot, or
// says so and does not.
absl::Status AllocateFile(int fd, std::uint64_t size_bytes, const std::string& path);

// 16 random bytes from the kernel, for ids and names of temporary files.
std::string RandomHex();

// From now on RandomHex gives what follows from `seed`, so that a simulation can be replayed. Tests
// only; not while other threads call RandomHex.
void SeedRandomHexForTest(std::uint64_t seed);

}  // namespace kerf::agent
