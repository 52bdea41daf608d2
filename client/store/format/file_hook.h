// The seam between a store and its file system: tests see, and may refuse, what is about to happen.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace kerf::agent {

struct FileOperation {
  enum class Kind {
    kCreate,
    kWrite,
    kSync,
    kSyncDirectory,
    // Replaces `to`.
    kRename,
    // Fails if `to` is there.
    kLink,
    kRemove,
    kMakeDirectory,
    // From here on nothing is changed.
    kListDirectory,
    // Whether something is there.
    kLook,
    // For reading.
    kOpen,
    kRead,
  };

  Kind kind = Kind::kCreate;
  std::string_view path;
  std::string_view to;
  // Of kWrite and kRead.
  std::uint64_t offset = 0;
  // Of kWrite what is written; of kRead only how much is wanted.
  std::span<const std::uint8_t> bytes;

  bool changes_something() const { return kind < Kind::kListDirectory; }
};

// Thread-safe.
class FileHook {
 public:
  virtual ~FileHook() = default;
  // Called before the operation. A status that is not OK is returned in its place. What is let
  // through may still fail.
  virtual absl::Status Before(const FileOperation& operation) = 0;
};

// Null takes it away. Tests only; not while other threads use a store.
void SetFileHookForTest(FileHook* hook);

}  // namespace kerf::agent
