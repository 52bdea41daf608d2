// Paths of nodes: components joined by single '/', no leading '/'. Bytes, in no encoding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf::agent {

// What the kernel takes in one call, its final NUL included (PATH_MAX).
inline constexpr std::size_t kMaxPathCallBytes = 4096;
// The longest name that a file system of Linux takes (NAME_MAX).
inline constexpr std::size_t kMaxNameBytes = 255;

// InvalidArgument unless `path` is a node's path: not empty, every component 1 to 255 bytes, none
// of them "." or "..", no NUL.
absl::Status CheckNodePath(std::string_view path);

// "a/b/c" -> "a/b"; "a" -> "".
std::string_view ParentOf(std::string_view path);
// "a/b/c" -> "c".
std::string_view NameOf(std::string_view path);
std::vector<std::string_view> SplitPath(std::string_view path);

// True if `path` is `ancestor` or lies below it; everything lies below "".
bool IsAtOrBelow(std::string_view path, std::string_view ancestor);

// The order of a snapshot: a directory before its children, children in byte order of their names
// ("a", "a/b", "a.c"). Negative, 0 or positive, like memcmp.
int ComparePaths(std::string_view left, std::string_view right);

// Opens the node path `path` below `root_fd`, following no symlink, however long the path is.
// `flags` apply to the last component; O_NOFOLLOW and O_CLOEXEC are added. A symlink on the way is
// FailedPrecondition, like a non-directory. In one call where the kernel can (openat2, Linux 5.6),
// else as OpenBelowStepByStep, which also finds the words for what is wrong.
absl::StatusOr<UniqueFd> OpenBelow(int root_fd, std::string_view path, int flags);

// The same below "/"; of "" that itself.
absl::StatusOr<UniqueFd> OpenFromRoot(std::string_view node_path, int flags);

// As OpenBelow, one component after the other: below many levels that is most of the work.
absl::StatusOr<UniqueFd> OpenBelowStepByStep(int root_fd, std::string_view path, int flags);

}  // namespace kerf::agent
