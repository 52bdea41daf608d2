#include "e2e/fault_fs/control.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/strings.h"

namespace kerf::fault_fs {
namespace {

constexpr std::size_t kMaxLine = 4096;

std::string Ok(const std::string& what = "") { return what.empty() ? "ok" : Cat("ok ", what); }

absl::StatusOr<std::string> Obey(FileSystem& files, const std::string& line) {
  const std::size_t space = line.find(' ');
  const std::string verb = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  std::int64_t number = 0;
  const bool has_number = absl::SimpleAtoi(rest, &number);
  if (verb == "arm") {
    auto rule = Rule::Parse(rest);
    if (!rule.ok()) return rule.status();
    files.rules.Arm(*std::move(rule));
    return Ok();
  }
  if (verb == "clear") return files.rules.Clear(), Ok();
  if (verb == "hits") return Ok(absl::StrCat(files.rules.hits()));
  if (verb == "counts") return Ok(files.rules.Counts());
  if (verb == "granularity" && has_number && number > 0) {
    files.granularity_ns.store(number);
    return Ok();
  }
  if (verb == "track" || verb == "untrack") return files.unsynced.Track(verb == "track"), Ok();
  if (verb == "cut" && has_number) {
    const auto changed = files.unsynced.Cut(static_cast<std::uint64_t>(number));
    if (!changed.ok()) return changed.status();
    return Ok(absl::StrCat(*changed));
  }
  return absl::InvalidArgumentError(absl::StrCat("what is '", line, "'?"));
}

std::string Answer(FileSystem& files, const std::string& line) {
  const auto said = Obey(files, line);
  return said.ok() ? *said : Cat("error ", MessageOf(said.status()));
}

void Converse(int peer, FileSystem& files) {
  std::string waiting;
  std::array<char, kMaxLine> buffer;
  while (waiting.size() < kMaxLine) {
    const ssize_t count = read(peer, buffer.data(), buffer.size());
    if (count <= 0) return;
    waiting.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = waiting.find('\n')) != std::string::npos;) {
      const std::string answer = Answer(files, waiting.substr(0, end)) + "\n";
      waiting.erase(0, end + 1);
      if (send(peer, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
    }
  }
}

}  // namespace

absl::StatusOr<UniqueFd> Control::Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(Cat(path, ": too long for a socket"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  unlink(path.c_str());
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), 4) != 0) {
    return absl::InternalError(Cat(path, ": ", std::strerror(errno)));
  }
  return listener;
}

Control::Control(UniqueFd listener, FileSystem& files)
    : listener_(std::move(listener)), files_(files), thread_([this] { Run(); }) {}

Control::~Control() {
  shutdown(listener_.get(), SHUT_RDWR);
  shutdown(peer_.load(), SHUT_RDWR);
  thread_.join();
}

void Control::Run() {
  for (;;) {
    const UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.valid()) return;
    peer_.store(peer.get());
    Converse(peer.get(), files_);
    peer_.store(-1);
  }
}

}  // namespace kerf::fault_fs
