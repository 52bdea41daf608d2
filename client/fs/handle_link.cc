#include "client/fs/handle_link.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/strings.h"
#include "client/fs/os_error.h"

namespace kerf::agent {
namespace {

// Linux 6.6, younger than the headers of some who compile this. New calls have one number on all
// architectures but Alpha.
#ifdef SYS_fchmodat2
constexpr long kFchmodat2 = SYS_fchmodat2;
#else
constexpr long kFchmodat2 = 452;
#endif

// Makes the call by the link; where that is out of reach, `without_link` in its place. Where the
// kernel has none it is as if only the link had been tried.
template <typename ByLink, typename WithoutLink>
int CallByLink(int handle, ByLink by_link, WithoutLink without_link) {
  const std::string link = LinkOfHandle(handle);
  if (by_link(link.c_str()) == 0) return 0;
  const int error = errno;
  if (IsOutOfReach(link)) {
    if (without_link() == 0) return 0;
    // That there is no such call says nothing of the file.
    if (errno != ENOSYS && errno != EINVAL) return -1;
  }
  errno = error;
  return -1;
}

}  // namespace

std::string LinkOfHandle(int handle) { return Cat("/proc/self/fd/", handle); }

bool IsOutOfReach(const std::string& link) {
  struct stat status{};
  return lstat(link.c_str(), &status) != 0;
}

absl::Status HandleError(int handle, int error, std::string_view action, std::string_view path) {
  if (!IsOutOfReach(LinkOfHandle(handle))) return OsError(error, action, path);
  return absl::FailedPreconditionError(
      ToAbsl(Cat(action, " ", path,
                 ": that needs /proc, and there is none here, or none that may be entered: mount "
                 "it (mount -t proc proc /proc)")));
}

int ChangeModeOfHandle(int handle, mode_t mode) {
  return CallByLink(
      handle, [&](const char* link) { return chmod(link, mode); },
      [&] { return static_cast<int>(syscall(kFchmodat2, handle, "", mode, AT_EMPTY_PATH)); });
}

int ChangeTimesOfHandle(int handle, const std::array<timespec, 2>& times) {
  return CallByLink(
      handle, [&](const char* link) { return utimensat(AT_FDCWD, link, times.data(), 0); },
      // Linux 5.8.
      [&] { return utimensat(handle, "", times.data(), AT_EMPTY_PATH); });
}

}  // namespace kerf::agent
