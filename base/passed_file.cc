#include "base/passed_file.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

// The most that Linux lets come with one message (SCM_MAX_FD): with less room it would close what
// is left over, which is as good, and say so, which this goes by, too.
constexpr std::size_t kMaxFiles = 253;

template <std::size_t kCount>
struct alignas(cmsghdr) Control {
  std::byte bytes[CMSG_SPACE(kCount * sizeof(int))];
};

void TakeFiles(msghdr& message, std::vector<UniqueFd>* files) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + index * sizeof fd, sizeof fd);
      files->emplace_back(fd);
    }
  }
}

}  // namespace

absl::Status SendFile(int socket, std::span<const std::uint8_t> bytes, int fd) {
  KERF_CHECK(!bytes.empty());
  iovec part{.iov_base = const_cast<std::uint8_t*>(bytes.data()), .iov_len = bytes.size()};
  Control<1> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  ssize_t count = 0;
  do {
    count = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::UnavailableError(ToAbsl(
      Cat("cannot hand over a descriptor: ", count < 0 ? std::strerror(errno) : "it was cut off")));
}

absl::StatusOr<UniqueFd> ReceiveFile(int socket, std::span<std::uint8_t> bytes) {
  KERF_CHECK(!bytes.empty());
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  Control<kMaxFiles> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t count = 0;
  do {
    count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) {
    return absl::UnavailableError(ToAbsl(
        Cat("nothing was handed over: ", count < 0 ? std::strerror(errno) : "it has ended")));
  }
  // They are this process's now, all of them, whatever is wrong with the message.
  std::vector<UniqueFd> files;
  TakeFiles(message, &files);
  if (count != static_cast<ssize_t>(bytes.size()) || files.size() != 1 || !files[0].valid() ||
      (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("what was handed over is ", count, " bytes with ", files.size(),
                   " descriptors; ", bytes.size(), " with one are expected")));
  }
  return std::move(files[0]);
}

absl::StatusOr<uid_t> UserOfPeer(int socket) {
  ucred peer{};
  socklen_t size_bytes = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size_bytes) != 0) {
    return absl::ErrnoToStatus(errno, "cannot ask who is at the other end of a socket");
  }
  return peer.uid;
}

}  // namespace kerf
