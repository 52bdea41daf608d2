#include "e2e/fault_fs/unsynced.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "absl/status/status.h"
#include "base/strings.h"

namespace kerf::fault_fs {
namespace {

constexpr std::size_t kCopyBytes = 128 * 1024;

std::string DirectoryOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(path.substr(0, slash));
}

std::string NameOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string ThroughProc(int file) { return Cat("/proc/self/fd/", file); }

bool Copy(int from, int to) {
  std::array<char, kCopyBytes> buffer;
  for (off_t offset = 0;;) {
    const ssize_t count = pread(from, buffer.data(), buffer.size(), offset);
    if (count <= 0) return count == 0;
    if (pwrite(to, buffer.data(), static_cast<std::size_t>(count), offset) != count) return false;
    offset += count;
  }
}

bool IsDirectory(const char* path) {
  struct stat found{};
  return lstat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

// Whatever it is.
void Remove(int directory, const std::string& name) {
  std::error_code ignored;
  std::filesystem::remove_all(Cat(ThroughProc(directory), "/", name), ignored);
}

}  // namespace

void Unsynced::Track(bool on) {
  const std::lock_guard lock(mutex_);
  Forget();
  is_on_.store(on);
}

void Unsynced::Forget() {
  files_.clear();
  directories_.clear();
  std::error_code ignored;
  for (const auto& kept : std::filesystem::directory_iterator(folder_, ignored)) {
    std::filesystem::remove(kept.path(), ignored);
  }
}

std::string Unsynced::NewPath() { return Cat(folder_, "/", next_++); }

Unsynced::Directory* Unsynced::Open(const std::string& directory) {
  UniqueFd place(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat found{};
  if (!place.valid() || fstat(place.get(), &found) != 0) return nullptr;
  Directory& known = directories_[{found.st_dev, found.st_ino}];
  if (!known.place.valid()) known.place = std::move(place);
  return &known;
}

void Unsynced::BeforeName(const char* path) {
  if (!is_on_.load() || IsDirectory(path)) return;
  const std::lock_guard lock(mutex_);
  Directory* const directory = Open(DirectoryOf(path));
  const std::string name = NameOf(path);
  if (directory == nullptr || directory->names.contains(name)) return;
  std::string link = NewPath();
  if (linkat(AT_FDCWD, path, AT_FDCWD, link.c_str(), 0) != 0) link.clear();
  directory->names.emplace(name, std::move(link));
}

void Unsynced::BeforeRename(const char* from, const char* to) {
  if (!is_on_.load() || IsDirectory(from)) return;
  BeforeName(from);
  BeforeName(to);
}

void Unsynced::AfterCreate(int file) {
  struct stat found{};
  if (!is_on_.load() || fstat(file, &found) != 0) return;
  const std::lock_guard lock(mutex_);
  File& known = files_[{found.st_dev, found.st_ino}];
  known.place = UniqueFd(open(ThroughProc(file).c_str(), O_PATH | O_CLOEXEC));
  known.copy.clear();
}

void Unsynced::BeforeWrite(int file) {
  struct stat found{};
  if (!is_on_.load() || fstat(file, &found) != 0) return;
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = files_.try_emplace({found.st_dev, found.st_ino});
  if (!is_new) return;
  File& known = place->second;
  known.place = UniqueFd(open(ThroughProc(file).c_str(), O_PATH | O_CLOEXEC));
  if (found.st_size == 0) return;
  known.copy = NewPath();
  const UniqueFd from(open(ThroughProc(file).c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd to(open(known.copy.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!Copy(from.get(), to.get())) std::filesystem::resize_file(known.copy, 0);
}

void Unsynced::Synced(int file) {
  struct stat found{};
  if (!is_on_.load() || fstat(file, &found) != 0) return;
  const std::lock_guard lock(mutex_);
  const auto known = files_.find({found.st_dev, found.st_ino});
  if (known == files_.end()) return;
  if (!known->second.copy.empty()) unlink(known->second.copy.c_str());
  files_.erase(known);
}

void Unsynced::SyncedDirectory(int directory) {
  struct stat found{};
  if (!is_on_.load() || fstat(directory, &found) != 0) return;
  const std::lock_guard lock(mutex_);
  const auto known = directories_.find({found.st_dev, found.st_ino});
  if (known == directories_.end()) return;
  for (const auto& [name, link] : known->second.names) {
    if (!link.empty()) unlink(link.c_str());
  }
  directories_.erase(known);
}

std::optional<int> Unsynced::CutNames(Directory& directory, Random& random,
                                      std::uint64_t keep_in_4) {
  int changed = 0;
  const int place = directory.place.get();
  struct stat found{};
  // That it was removed stays so, and then there is no place for what had a name in it.
  if (fstat(place, &found) != 0 || found.st_nlink == 0) return 0;
  for (const auto& [name, link] : directory.names) {
    if (random.Below(4) < keep_in_4) continue;
    ++changed;
    Remove(place, name);
    if (link.empty()) continue;
    if (linkat(AT_FDCWD, link.c_str(), place, name.c_str(), 0) != 0) return std::nullopt;
  }
  return changed;
}

std::optional<int> Unsynced::CutBytes(File& file, Random& random) {
  const std::string path = ThroughProc(file.place.get());
  struct stat found{};
  if (fstat(file.place.get(), &found) != 0 || found.st_nlink == 0) return 0;
  enum : std::uint64_t { kAsBefore, kAsAfter, kZeros, kShort, kFates };
  const std::uint64_t fate = random.Below(kFates);
  if (fate == kAsAfter || !S_ISREG(found.st_mode)) return 0;
  const auto size = static_cast<std::uint64_t>(found.st_size);
  const UniqueFd out(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  bool is_done =
      ftruncate(out.get(), fate == kShort ? static_cast<off_t>(random.Below(size)) : 0) == 0;
  if (fate == kZeros) is_done = is_done && ftruncate(out.get(), found.st_size) == 0;
  if (fate == kAsBefore && !file.copy.empty()) {
    const UniqueFd from(open(file.copy.c_str(), O_RDONLY | O_CLOEXEC));
    is_done = is_done && Copy(from.get(), out.get());
  }
  const std::array<timespec, 2> times = {found.st_atim, found.st_mtim};
  if (!is_done || futimens(out.get(), times.data()) != 0) return std::nullopt;
  return 1;
}

absl::StatusOr<int> Unsynced::Cut(std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  if (!is_on_.load()) return absl::FailedPreconditionError("track first");
  Random random(seed);
  // In some cuts all names that may go do, in some none: as where a journal has the names alone.
  const std::uint64_t keep_in_4 = std::min<std::uint64_t>(4, random.Below(7));
  int changed = 0;
  const auto count = [&changed](std::optional<int> more) {
    if (more) changed += *more;
    return more.has_value();
  };
  bool is_done = true;
  for (auto& [inode, directory] : directories_) {
    is_done = count(CutNames(directory, random, keep_in_4)) && is_done;
  }
  for (auto& [inode, file] : files_) is_done = count(CutBytes(file, random)) && is_done;
  Forget();
  if (!is_done) return absl::InternalError("cannot make it as the disk has it");
  return changed;
}

}  // namespace kerf::fault_fs
