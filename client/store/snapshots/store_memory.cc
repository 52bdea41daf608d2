#include "client/store/snapshots/store_memory.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/hex.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"
#include "client/store/snapshots/copies.h"

namespace kerf::agent {
namespace {

constexpr std::uint64_t kMaxMemoryBytes = std::uint64_t{1} << 20;
// More copies of one store than anybody has.
constexpr int kMaxBehindDirectories = 64;
// At a store that seems to lie behind.
constexpr int kMaxLooks = 4;
// Many times what a few agents take that write to a busy disk, one behind the other.
constexpr std::chrono::milliseconds kLockPatience{5'000};
constexpr std::chrono::milliseconds kLockPause{5};

std::string Resolved(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(directory, error);
  return error ? directory : path.string();
}

// Whoever wrote what was read may have died before it was durable: a power cut takes it then, and
// that sets no store back.
absl::Status MakeDurable(const Store& store) {
  for (const std::string& folder :
       {store.directory(), CopiesDirectory(store.directory()), store.manifest().directory()}) {
    // Stores of 0.1.0 have the first alone.
    const absl::Status status = SyncDirectory(folder);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  return absl::OkStatus();
}

// Against agents that change what is remembered at the same time: what one of them has added is
// lost else, and no more than that. So nobody waits long for one that hangs, nor fails without the
// lock.
UniqueFd LockFolder(const std::string& directory) {
  UniqueFd lock(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto until = std::chrono::steady_clock::now() + kLockPatience;
  while (lock.valid() && flock(lock.get(), LOCK_EX | LOCK_NB) != 0 &&
         (errno == EWOULDBLOCK || errno == EINTR) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLockPause);
  }
  return lock;
}

template <typename List>
bool Holds(const List& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

std::string StoreMemory::UsualDirectory() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return Cat(state, "/kerf/stores");
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return Cat(home, "/.local/state/kerf/stores");
  return "";
}

// Ids come from files: one that is no plain name has no memory.
std::string StoreMemory::PathOf(std::string_view id) const {
  const bool is_plain = !id.empty() && IsHex(id);
  return directory_.empty() || !is_plain ? std::string() : Cat(directory_, "/", id);
}

store::v1::StoreMemory StoreMemory::Read(std::string_view id) const {
  const std::string path = PathOf(id);
  store::v1::StoreMemory memory;
  if (path.empty()) return memory;
  const absl::StatusOr<std::string> payload = ReadFramedFile(path, kMemoryMagic, kMaxMemoryBytes);
  if (!payload.ok() || !memory.ParseFromString(*payload)) return {};
  return memory;
}

absl::Status StoreMemory::Change(std::string_view id,
                                 const std::function<void(store::v1::StoreMemory&)>& change) const {
  const std::string path = PathOf(id);
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  const UniqueFd lock = LockFolder(directory_);
  store::v1::StoreMemory memory = Read(id);
  const std::string before = memory.SerializeAsString();
  change(memory);
  const std::string after = memory.SerializeAsString();
  if (after == before) return absl::OkStatus();
  return WriteFileDurably(path, directory_, EncodeFramed(kMemoryMagic, after));
}

absl::Status StoreMemory::Meet(const Store& store) const {
  const std::string& id = store.config().id();
  const std::string folder = Resolved(store.directory());
  // Before the store is looked at: another agent may take it further in between, and remember that.
  const store::v1::StoreMemory before = Read(id);
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
  bool is_behind = true;
  // Once more, for a listing of the folder may miss a generation that is replaced meanwhile. The
  // numbers only rise: one reading that is high enough is proof.
  for (int look = 0; is_behind && look < kMaxLooks; ++look) {
    KERF_ASSIGN_OR_RETURN(const std::uint64_t epoch_now, store.ReadEpoch());
    KERF_ASSIGN_OR_RETURN(const std::uint64_t generation_now, store.manifest().ReadGeneration());
    epoch = std::max(epoch, epoch_now);
    generation = std::max(generation, generation_now);
    is_behind = epoch < before.epoch() || generation < before.generation();
  }
  const bool was_behind = Holds(before.behind_directories(), folder);
  const bool has_risen = epoch > before.epoch() || generation > before.generation();
  const bool is_durable = has_risen && MakeDurable(store).ok();
  Change(id, [&](store::v1::StoreMemory& memory) {
    if (is_durable) {
      memory.set_epoch(std::max(memory.epoch(), epoch));
      memory.set_generation(std::max(memory.generation(), generation));
    }
    memory.set_directory(folder);
    if (is_behind && !Holds(memory.behind_directories(), folder) &&
        memory.behind_directories_size() < kMaxBehindDirectories) {
      memory.add_behind_directories(folder);
    }
  }).IgnoreError();
  if (!is_behind && !was_behind) return absl::OkStatus();
  const std::string how =
      is_behind ? Cat(" (generation ", generation, " and epoch ", epoch, "; you have seen it at ",
                      before.generation(), " and ", before.epoch(), ")")
                : std::string();
  return absl::DataLossError(
      Cat(store.directory(), " was set back to an older copy of itself", how,
          ": snapshots may be lost. Bring the newer one back, or accept it with `kerf repair ",
          "--accept-set-back`; if it is a copy beside its original, give it an id of its own with ",
          "`kerf store adopt --new-id`"));
}

absl::Status StoreMemory::Accept(const Store& store) const {
  KERF_ASSIGN_OR_RETURN(const std::uint64_t epoch, store.ReadEpoch());
  KERF_ASSIGN_OR_RETURN(const std::uint64_t generation, store.manifest().ReadGeneration());
  return Change(store.config().id(), [&](store::v1::StoreMemory& memory) {
    memory.set_epoch(epoch);
    memory.set_generation(generation);
    const std::string folder = Resolved(store.directory());
    memory.set_directory(folder);
    auto& behind = *memory.mutable_behind_directories();
    behind.erase(std::remove(behind.begin(), behind.end(), folder), behind.end());
  });
}

std::vector<std::string> StoreMemory::IdsOf(const std::string& store_directory) const {
  std::vector<std::string> ids;
  if (directory_.empty()) return ids;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(directory_);
  if (!names.ok()) return ids;
  const std::string folder = Resolved(store_directory);
  for (const std::string& name : *names) {
    if (Read(name).directory() == folder) ids.push_back(name);
  }
  return ids;
}

}  // namespace kerf::agent
