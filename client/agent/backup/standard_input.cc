#include "client/agent/backup/standard_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/fs/os_error.h"
#include "client/fs/owner_names.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

// As private as a file that says nothing of who may read it should be.
constexpr std::uint32_t kMode = 0600;
constexpr std::string_view kName = "standard input";

class StreamScanner : public Scanner {
 public:
  explicit StreamScanner(std::string name) : name_(std::move(name)) {}

  bool Next(ScannedNode& scanned) override {
    if (std::exchange(is_done_, true)) return false;
    scanned = ScannedNode();
    Node& node = scanned.node;
    node.path = name_;
    node.mode = kMode;
    node.uid = geteuid();
    node.gid = getegid();
    OwnerNames owners;
    node.user = owners.User(node.uid);
    node.group = owners.Group(node.gid);
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    node.modified = {now.tv_sec, static_cast<std::uint32_t>(now.tv_nsec)};
    return true;
  }
  void ForgetHardLink(const NodeIdentity& /*identity*/) override {}

 private:
  const std::string name_;
  bool is_done_ = false;
};

}  // namespace

absl::Status CheckStreamName(const std::string& name) {
  KERF_RETURN_IF_ERROR(CheckNodePath(name));
  if (name.find('/') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      ToAbsl(Cat("'", name,
                 "' is more than a name: it is that of a file at the root of the "
                 "snapshot, as in --stdin-filename dump.sql")));
}

std::unique_ptr<Scanner> MakeStreamScanner(const std::string& name) {
  return std::make_unique<StreamScanner>(name);
}

absl::StatusOr<std::optional<std::size_t>> ReadStream(int fd, std::span<std::uint8_t> buffer,
                                                      std::chrono::milliseconds patience) {
  pollfd waiting{fd, POLLIN, 0};
  const int ready = poll(&waiting, 1, static_cast<int>(patience.count()));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
  if (ready < 0) return OsError(errno, "cannot wait for", kName);
  const ssize_t count = read(fd, buffer.data(), buffer.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
  if (count < 0) return OsError(errno, "cannot read", kName);
  return static_cast<std::size_t>(count);
}

}  // namespace kerf::agent
