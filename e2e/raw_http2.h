// HTTP/2 by hand: what no library sends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace kerf::e2e {

using Http2Headers = std::vector<std::pair<std::string, std::string>>;

namespace http2 {

inline constexpr std::uint8_t kData = 0;
inline constexpr std::uint8_t kHeaders = 1;
inline constexpr std::uint8_t kReset = 3;
inline constexpr std::uint8_t kSettings = 4;
inline constexpr std::uint8_t kPing = 6;
inline constexpr std::uint8_t kGoAway = 7;
inline constexpr std::uint8_t kWindowUpdate = 8;
inline constexpr std::uint8_t kContinuation = 9;
inline constexpr std::uint8_t kEndStream = 1;
inline constexpr std::uint8_t kEndHeaders = 4;
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload);
// A whole header block, each header as it is, none of them remembered by the other side.
std::string HeadersFrame(std::uint8_t flags, std::uint32_t stream, const Http2Headers& headers);
// What stands in such a frame.
std::string HeaderBlock(const Http2Headers& headers);
// One message of gRPC's, not compressed.
std::string DataFrame(std::uint8_t flags, std::uint32_t stream, std::string_view message);

}  // namespace http2

// To the unix socket at that path, however long it is.
UniqueFd ConnectToSocketAt(const std::string& path);

class RawConnection {
 public:
  // "HOST:PORT" on this machine, or "unix:PATH"; sends nothing yet.
  explicit RawConnection(const std::string& address);
  explicit RawConnection(UniqueFd socket) : socket_(std::move(socket)) {}

  // What the other side does not take is lost: it may have closed the connection, which is when
  // this is false.
  bool Send(std::string_view bytes);
  // Until it has read all that was sent, or has closed the connection.
  void AwaitRead();
  // What a client sends first. False if it is something else.
  bool AwaitPreface();
  // Until it sends a frame of that type. False if it closes the connection, or sends nothing for
  // long.
  bool AwaitFrame(std::uint8_t type);
  // Until it closes the connection, or sends nothing for long.
  void AwaitEnd();

 private:
  bool Receive();

  UniqueFd socket_;
  std::string received_;
};

}  // namespace kerf::e2e
