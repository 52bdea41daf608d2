#include "base/trusted_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/statusor.h"
#include "base/overflow_user.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

// By it a file is reached that is open, whatever became of its name.
std::string PathOf(int fd) { return Cat("/proc/self/fd/", fd); }

// Who listens there: as it was when he began to, which nobody else can take over.
absl::StatusOr<uid_t> ListenerOf(const std::string& target, const std::string& path,
                                 std::chrono::milliseconds patience) {
  int type = SOCK_STREAM | SOCK_CLOEXEC;
  // A time limit of 0 is none.
  if (patience.count() == 0) type |= SOCK_NONBLOCK;
  const UniqueFd probe(socket(AF_UNIX, type, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(target.begin(), target.end(), address.sun_path);
  const auto failed = [&path] {
    return absl::ErrnoToStatus(errno, ToAbsl(Cat("cannot connect to ", path)));
  };
  if (!probe.valid()) return failed();
  const timeval time{.tv_sec = patience.count() / 1'000,
                     .tv_usec = patience.count() % 1'000 * 1'000};
  setsockopt(probe.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return failed();
  }
  return peer.uid;
}

// Why a link of /proc cannot be followed; OK: it can.
absl::Status CheckReach(const std::string& target, const std::string& path) {
  struct stat facts{};
  if (lstat(target.c_str(), &facts) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      errno, ToAbsl(Cat("cannot tell who listens at ", path,
                        ", which needs /proc, and that is not to be used here: mount one, or show "
                        "no token (",
                        target, ")")));
}

bool IsSame(int left, int right) {
  struct stat one{};
  struct stat other{};
  return fstat(left, &one) == 0 && fstat(right, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace

TrustedSocket::TrustedSocket(std::string path, std::optional<uid_t> other,
                             std::chrono::milliseconds patience)
    : path_(std::move(path)), other_(other), own_(geteuid()), patience_(patience) {}

std::string TrustedSocket::target() const {
  const std::lock_guard lock(mutex_);
  return PathOf(held_.get());
}

absl::Status TrustedSocket::Look() {
  {
    const std::lock_guard lock(mutex_);
    // Something that is there, and no socket.
    if (!held_.valid()) held_ = UniqueFd(open("/", O_PATH | O_CLOEXEC));
    if (!held_.valid()) return absl::ResourceExhaustedError("no file descriptors are left");
  }
  const UniqueFd found(open(path_.c_str(), O_PATH | O_CLOEXEC));
  struct stat facts{};
  if (!found.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, ToAbsl(Cat("cannot look at ", path_)));
  }
  if (fstat(found.get(), &facts) != 0 || !S_ISSOCK(facts.st_mode)) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  // As long as it is held no other file has its number.
  if (has_socket_ && IsSame(found.get(), held_.get())) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(CheckReach(PathOf(found.get()), path_));
  const absl::StatusOr<uid_t> user = ListenerOf(PathOf(found.get()), path_, patience_);
  // Nobody listens, or takes anybody now: whoever does so later is looked at then.
  if (absl::IsUnavailable(user.status())) return absl::OkStatus();
  if (!user.ok()) return user.status();
  // Before anything else: this process may be of such a user itself.
  if (MayBeAnybody(*user)) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat(path_, " is a socket of user ", *user, kMayBeAnybody)));
  }
  if (*user != 0 && *user != own_ && *user != other_) {
    return absl::UnauthenticatedError(ToAbsl(Cat(path_, " is a socket of user ", *user)));
  }
  if (dup3(found.get(), held_.get(), O_CLOEXEC) < 0) {
    return absl::ErrnoToStatus(errno, ToAbsl(Cat("cannot hold ", path_)));
  }
  has_socket_ = true;
  return absl::OkStatus();
}

std::string SocketPathOf(std::string_view address) {
  constexpr std::string_view kUnix = "unix:";
  if (address.starts_with(kUnix)) address.remove_prefix(kUnix.size());
  if (address.starts_with("///")) address.remove_prefix(2);
  return std::string(address);
}

}  // namespace kerf
