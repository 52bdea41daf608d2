#include "client/own_kerfd/private_folder.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/overflow_user.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kOthers = 0077;
constexpr char kElsewhere[] =
    "; or set XDG_STATE_HOME to a folder of yours, or say with --server where a kerfd is";

absl::Status Refused(const std::string& why) {
  return absl::FailedPreconditionError(ToAbsl(Cat(why, kElsewhere)));
}

absl::Status Failed(std::string_view doing, const std::string& path) {
  const int error = errno;
  const std::string text = Cat("cannot ", doing, " ", path,
                               ", where kerf keeps a kerfd of its own: ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(ToAbsl(text));
  return Refused(text);
}

bool IsOf(const std::string& folder, uid_t user) {
  struct stat facts{};
  return stat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == user;
}

// Those above it, too.
absl::Status MakeFolders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), kOwnerOnly) != 0 && errno != EEXIST) return Failed("make", folder);
  }
  if (mkdir(path.c_str(), kOwnerOnly) != 0 && errno != EEXIST) return Failed("make", path);
  return absl::OkStatus();
}

// Who may write there may rename what is in there, but for what is another's in a folder like /tmp.
absl::Status CheckWriters(const std::string& path, const struct stat& facts) {
  if ((facts.st_mode & S_IWOTH) == 0 || (facts.st_mode & S_ISVTX) != 0) return absl::OkStatus();
  return Refused(Cat("everybody may write to ", path,
                     ", where kerf keeps a kerfd of its own: chmod o-w ", path));
}

absl::Status CheckOwner(const std::string& path, const struct stat& facts, uid_t self) {
  if (facts.st_uid == self || facts.st_uid == 0) return absl::OkStatus();
  return Refused(Cat(path, ", where kerf keeps a kerfd of its own, is a folder of user ",
                     facts.st_uid, ", and you are user ", self));
}

// `path`, which has no symbolic links, and all folders above it.
absl::Status CheckAbove(const std::string& path, uid_t self) {
  for (std::size_t end = path.size(); end != std::string::npos;) {
    const std::string folder = end == 0 ? "/" : path.substr(0, end);
    struct stat facts{};
    if (stat(folder.c_str(), &facts) != 0) return Failed("look at", folder);
    KERF_RETURN_IF_ERROR(CheckWriters(folder, facts));
    // In a user namespace root's, and those of all other users, are told of by one number. Only
    // whoever has made the namespace can have put them there.
    const bool is_last = end == path.size();
    if (is_last || !MayBeAnybody(facts.st_uid)) {
      KERF_RETURN_IF_ERROR(CheckOwner(folder, facts, self));
    }
    end = end == 0 ? std::string::npos : path.rfind('/', end - 1);
  }
  return absl::OkStatus();
}

// Without symbolic links.
absl::StatusOr<std::string> RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) return Failed("open", path);
  return std::string(resolved);
}

absl::Status CheckPrivate(const std::string& path, int fd, uid_t self) {
  struct stat facts{};
  if (fstat(fd, &facts) != 0) return Failed("look at", path);
  if (facts.st_uid != self) {
    return Refused(Cat(path, ", where kerf keeps a kerfd of its own, is a folder of user ",
                       facts.st_uid, ", and you are user ", self, ": it is not touched"));
  }
  if ((facts.st_mode & kOthers) != 0) {
    return Refused(Cat("others may enter ", path, " (mode ",
                       absl::StrFormat("%03o", facts.st_mode & 0777U),
                       "), where kerf keeps a kerfd of its own: chmod 700 ", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> OwnKerfdFolder() {
  constexpr char kInState[] = "/kerf/kerfd";
  constexpr char kInHome[] = "/.local/state/kerf/kerfd";
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return Cat(state, kInState);
  // sudo may leave the home of whoever called it.
  const uid_t self = geteuid();
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home == '/' && IsOf(home, self)) return Cat(home, kInHome);
  const passwd* const entry = getpwuid(self);
  if (entry != nullptr && entry->pw_dir != nullptr && *entry->pw_dir == '/') {
    return Cat(entry->pw_dir, kInHome);
  }
  return Refused(Cat("user ", self, " has no home, where kerf would keep a kerfd of its own"));
}

absl::StatusOr<PrivateFolder> OpenPrivateFolder(const std::string& path) {
  const uid_t self = geteuid();
  if (MayBeAnybody(self)) {
    return Refused(Cat("you are user ", self, kMayBeAnybody,
                       ", so no folder is known to be yours, for a kerfd of kerf's own"));
  }
  const std::size_t slash = path.rfind('/');
  const std::string above = path.substr(0, slash);
  const std::string name = path.substr(slash + 1);
  KERF_RETURN_IF_ERROR(MakeFolders(above));
  KERF_ASSIGN_OR_RETURN(const std::string real, RealPath(above));
  KERF_RETURN_IF_ERROR(CheckAbove(real, self));
  const UniqueFd above_fd(open(real.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!above_fd.valid()) return Failed("open", above);
  PrivateFolder folder;
  folder.is_new = mkdirat(above_fd.get(), name.c_str(), kOwnerOnly) == 0;
  if (!folder.is_new && errno != EEXIST) return Failed("make", path);
  folder.fd = UniqueFd(
      openat(above_fd.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.fd.valid()) return Failed("open", path);
  // The umask, or an access list that is handed down, may have taken or given something.
  if (folder.is_new && fchmod(folder.fd.get(), kOwnerOnly) != 0) return Failed("close off", path);
  KERF_RETURN_IF_ERROR(CheckPrivate(path, folder.fd.get(), self));
  return folder;
}

}  // namespace kerf::agent
