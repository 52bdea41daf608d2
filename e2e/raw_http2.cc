#include "e2e/raw_http2.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::e2e {
namespace {

constexpr int kPatience_ms = 10'000;
constexpr std::size_t kFrameHeaderBytes = 9;

void AppendBigEndian(std::string& out, std::uint32_t value, int byte_count) {
  for (int byte = byte_count - 1; byte >= 0; --byte) out += static_cast<char>(value >> (8 * byte));
}

// HPACK's: a length of seven bits, and more of them where it has more.
void AppendText(std::string& out, std::string_view text) {
  constexpr std::size_t kFull = 127;
  if (text.size() < kFull) {
    out += static_cast<char>(text.size());
  } else {
    out += static_cast<char>(kFull);
    std::size_t rest = text.size() - kFull;
    for (; rest >= 128; rest /= 128) out += static_cast<char>(rest % 128 + 128);
    out += static_cast<char>(rest);
  }
  out += text;
}

}  // namespace

namespace http2 {

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
  std::string frame;
  AppendBigEndian(frame, static_cast<std::uint32_t>(payload.size()), 3);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  AppendBigEndian(frame, stream, 4);
  frame += payload;
  return frame;
}

std::string HeaderBlock(const Http2Headers& headers) {
  std::string block;
  for (const auto& [name, value] : headers) {
    // A literal that is not to be indexed, with a name of its own.
    block += '\0';
    AppendText(block, name);
    AppendText(block, value);
  }
  return block;
}

std::string HeadersFrame(std::uint8_t flags, std::uint32_t stream, const Http2Headers& headers) {
  return Frame(kHeaders, flags | kEndHeaders, stream, HeaderBlock(headers));
}

std::string DataFrame(std::uint8_t flags, std::uint32_t stream, std::string_view message) {
  std::string payload(1, '\0');
  AppendBigEndian(payload, static_cast<std::uint32_t>(message.size()), 4);
  payload += message;
  return Frame(kData, flags, stream, payload);
}

}  // namespace http2

UniqueFd ConnectToSocketAt(const std::string& path) {
  const std::filesystem::path whole(path);
  // The system's address of a socket has room for a short path only.
  const UniqueFd folder(open(whole.parent_path().c_str(), O_PATH | O_CLOEXEC));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const std::string through = Cat("/proc/self/fd/", folder.get(), "/", whole.filename().string());
  KERF_CHECK(through.size() < sizeof to.sun_path);
  through.copy(to.sun_path, through.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  KERF_CHECK(connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  return socket;
}

RawConnection::RawConnection(const std::string& address) {
  constexpr std::string_view kUnix = "unix:";
  if (address.starts_with(kUnix)) {
    socket_ = ConnectToSocketAt(address.substr(kUnix.size()));
    return;
  }
  socket_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  KERF_CHECK(connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
}

bool RawConnection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void RawConnection::AwaitRead() {
  Send(http2::Frame(http2::kPing, 0, 0, "whatever"));
  AwaitFrame(http2::kPing);
}

bool RawConnection::AwaitPreface() {
  while (received_.size() < http2::kPreface.size()) {
    if (!Receive()) return false;
  }
  if (!received_.starts_with(http2::kPreface)) return false;
  received_.erase(0, http2::kPreface.size());
  return true;
}

bool RawConnection::AwaitFrame(std::uint8_t type) {
  while (true) {
    while (received_.size() >= kFrameHeaderBytes) {
      const auto byte = [&](std::size_t index) {
        return static_cast<std::size_t>(static_cast<std::uint8_t>(received_[index]));
      };
      const std::size_t size = kFrameHeaderBytes + (byte(0) << 16 | byte(1) << 8 | byte(2));
      const std::size_t received_type = byte(3);
      if (received_.size() < size) break;
      received_.erase(0, size);
      if (received_type == type) return true;
    }
    if (!Receive()) return false;
  }
}

void RawConnection::AwaitEnd() {
  while (Receive()) received_.clear();
}

bool RawConnection::Receive() {
  pollfd readable{socket_.get(), POLLIN, 0};
  if (poll(&readable, 1, kPatience_ms) != 1) return false;
  char buffer[16384];
  const ssize_t count = recv(socket_.get(), buffer, sizeof buffer, 0);
  if (count <= 0) return false;
  received_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

}  // namespace kerf::e2e
