// A disk that follows a store while it works, and can be told to fail.
#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "base/random.h"
#include "base/strings.h"
#include "client/store/format/file_hook.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/testing/disk_model.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {

// Sees everything below `root` from its construction to its end. Thread-safe.
class DiskHook final : public FileHook {
 public:
  using Refuse = std::function<absl::Status(const FileOperation&)>;

  explicit DiskHook(const std::string& root) : disk_(root) { SetFileHookForTest(this); }
  ~DiskHook() override { SetFileHookForTest(nullptr); }

  // From now on: what it returns, if not OK, comes in place of the operation.
  void RefuseWith(Refuse refuse) {
    const std::lock_guard lock(mutex_);
    refuse_ = std::move(refuse);
  }

  absl::Status Before(const FileOperation& operation) override {
    const std::lock_guard lock(mutex_);
    if (refuse_) {
      if (absl::Status status = refuse_(operation); !status.ok()) return status;
    }
    if (operation.changes_something()) disk_.Apply(operation);
    return absl::OkStatus();
  }

  // What is there if the power goes now and nothing survives that was not synced.
  void CutPower(const std::string& target) {
    Random unused(0);
    CutPower(target, DiskModel::Survival::kNothing, unused);
  }
  void CutPower(const std::string& target, DiskModel::Survival survival, Random& random) {
    const std::lock_guard lock(mutex_);
    disk_.Materialise(target, survival, random);
  }

  // True if the chunk would be in a pack then. `store` lies in the root.
  bool Survives(const Digest& digest) {
    const TemporaryFolder after(TemporaryFolder::Place::kMemory);
    CutPower(after.path());
    ChunkIndex index(after.path() + "/store/packs");
    return index.Refresh().ok() && index.Contains(digest);
  }

 private:
  std::mutex mutex_;
  DiskModel disk_;
  Refuse refuse_;
};

// Fails every operation of a kind whose path has `part` in it.
inline DiskHook::Refuse RefuseEvery(FileOperation::Kind kind, std::string part,
                                    absl::Status status) {
  return [kind, part = std::move(part),
          status = std::move(status)](const FileOperation& operation) {
    const bool hit = operation.kind == kind && operation.path.find(part) != std::string_view::npos;
    return hit ? status : absl::OkStatus();
  };
}

// A disk without a free byte: fails whatever needs one, as long as the file `path` is there.
inline DiskHook::Refuse RefuseWhatNeedsRoomWhile(std::string path) {
  return [path = std::move(path)](const FileOperation& operation) {
    const bool needs_room = operation.kind == FileOperation::Kind::kCreate ||
                            operation.kind == FileOperation::Kind::kWrite ||
                            operation.kind == FileOperation::Kind::kRename ||
                            operation.kind == FileOperation::Kind::kLink;
    return needs_room && std::filesystem::exists(path)
               ? absl::ResourceExhaustedError(Cat(operation.path, ": No space left on device"))
               : absl::OkStatus();
  };
}

// Fails every reading of the file that touches the bytes from `begin` to `end`, as a sector does
// that the disk cannot read.
inline DiskHook::Refuse RefuseReading(std::string path, std::uint64_t begin, std::uint64_t end) {
  return [path = std::move(path), begin, end](const FileOperation& operation) {
    const bool hit = operation.kind == FileOperation::Kind::kRead && operation.path == path &&
                     operation.offset < end && operation.offset + operation.bytes.size() > begin;
    return hit ? absl::UnknownError(Cat(path, ": Input/output error")) : absl::OkStatus();
  };
}

}  // namespace kerf::agent
