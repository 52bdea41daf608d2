#include "client/fs/walk_ahead.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/fs/node_handle.h"
#include "client/fs/page_cache.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

// Names that are looked at in one: an endless directory must not keep a thread.
constexpr std::size_t kMaxNames = 20'000;
// Offers that are taken behind a read.
constexpr unsigned kColdOffers = 16;

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

struct Name {
  ino_t inode = 0;
  std::string text;
};

UniqueFd OpenDirectory(const WalkAhead::Directory& directory) {
  const absl::StatusOr<UniqueFd> handle = HandleOfNode(directory.path);
  if (!handle.ok()) return {};
  // Before it is opened: that would mount what is mounted on demand. Where something is mounted
  // nobody is asked, who may not answer.
  struct statx seen{};
  constexpr int kLookFlags = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (statx(handle->get(), "", kLookFlags, STATX_TYPE, &seen) != 0) return {};
  if (!S_ISDIR(seen.stx_mode) ||
      makedev(seen.stx_dev_major, seen.stx_dev_minor) != directory.device) {
    return {};
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK;
  UniqueFd fd(openat(handle->get(), ".", kFlags | O_NOATIME));
  if (!fd.valid() && errno == EPERM) fd = UniqueFd(openat(handle->get(), ".", kFlags));
  return fd;
}

}  // namespace

WalkAhead::WalkAhead(unsigned thread_count) : thread_count_(thread_count) {}

WalkAhead::~WalkAhead() { Stop(); }

void WalkAhead::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::uint64_t WalkAhead::looked_count() const {
  const std::lock_guard lock(mutex_);
  return looked_count_;
}

// Where the kernel does not count reads nothing is ever cold: the walk is as fast as it was.
bool WalkAhead::IsCold() {
  const long reads = ReadsOfThread();
  bool have_read = false;
  {
    const std::lock_guard lock(mutex_);
    have_read = std::exchange(have_read_, false);
  }
  if (reads != std::exchange(reads_before_, reads) || have_read) cold_left_ = kColdOffers;
  if (cold_left_ == 0) return false;
  --cold_left_;
  return true;
}

void WalkAhead::Offer(const std::string& position, std::vector<Directory> directories) {
  const std::lock_guard lock(mutex_);
  position_ = position;
  waiting_.insert(waiting_.begin(), std::make_move_iterator(directories.begin()),
                  std::make_move_iterator(directories.end()));
  if (waiting_.size() > kMaxWaiting) waiting_.resize(kMaxWaiting);
  changed_.notify_all();
  try {
    while (!stopping_ && threads_.size() < thread_count_) threads_.emplace_back([this] { Run(); });
  } catch (const std::system_error&) {
    // As many as the system lets the user have: it is but a hint.
    thread_count_ = static_cast<unsigned>(threads_.size());
  }
}

bool WalkAhead::Next(Directory& directory) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return false;
    directory = std::move(waiting_.front());
    waiting_.pop_front();
    // Else the walk has been there.
    if (ComparePaths(directory.path, position_) >= 0) return true;
  }
}

// In the order of the inodes, in which they lie on the disk.
void WalkAhead::LookInto(const Directory& directory) {
  UniqueFd fd = OpenDirectory(directory);
  if (!fd.valid()) return;
  const std::unique_ptr<DIR, DirectoryCloser> list(fdopendir(fd.get()));
  if (list == nullptr) return;
  const int number = fd.Release();
  std::vector<Name> names;
  while (const dirent* entry = readdir(list.get())) {
    const std::string_view text = entry->d_name;
    if (text != "." && text != "..") names.push_back({entry->d_ino, std::string(text)});
    if (names.size() == kMaxNames) break;
  }
  std::sort(names.begin(), names.end(),
            [](const Name& left, const Name& right) { return left.inode < right.inode; });
  for (const Name& name : names) {
    if (stopping_) return;
    ++name_count_;
    struct stat status{};
    static_cast<void>(
        fstatat(number, name.text.c_str(), &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT));
  }
}

void WalkAhead::Run() {
  Directory directory;
  while (Next(directory)) {
    const long before = ReadsOfThread();
    LookInto(directory);
    const bool has_read = ReadsOfThread() != before;
    const std::lock_guard lock(mutex_);
    ++looked_count_;
    have_read_ = have_read_ || has_read;
  }
}

}  // namespace kerf::agent
