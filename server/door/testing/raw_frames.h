// Frames of a client that keeps no rules, byte for byte.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kerf::door {

inline constexpr std::string_view kRawPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Their numbers (RFC 9113, 6).
inline constexpr std::uint8_t kRawData = 0;
inline constexpr std::uint8_t kRawHeaders = 1;
inline constexpr std::uint8_t kRawReset = 3;
inline constexpr std::uint8_t kRawSettings = 4;
inline constexpr std::uint8_t kRawPing = 6;
inline constexpr std::uint8_t kRawWindowUpdate = 8;

inline constexpr std::uint8_t kRawEndStream = 1;
inline constexpr std::uint8_t kRawEndHeaders = 4;
inline constexpr std::uint8_t kRawPadded = 8;

inline std::string RawNumber(std::uint32_t value, int bytes) {
  std::string text;
  for (int at = bytes - 1; at >= 0; --at) text += static_cast<char>(value >> (8 * at));
  return text;
}

inline std::string RawFrame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                            std::string_view payload) {
  std::string frame = RawNumber(static_cast<std::uint32_t>(payload.size()), 3);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  frame += RawNumber(stream, 4);
  return frame.append(payload);
}

// By the static table and plain literals.
inline std::string RawRequest(std::uint32_t stream, std::string_view path, bool is_whole) {
  std::string block = "\x83\x86";
  block += std::string("\x04") + static_cast<char>(path.size()) + std::string(path);
  block += std::string("\x01\x01h", 3);
  return RawFrame(kRawHeaders, kRawEndHeaders | (is_whole ? kRawEndStream : 0), stream, block);
}

inline std::string RawResetOf(std::uint32_t stream, std::uint32_t error) {
  return RawFrame(kRawReset, 0, stream, RawNumber(error, 4));
}

// What a client says first.
inline std::string RawBeginning() {
  return std::string(kRawPreface) + RawFrame(kRawSettings, 0, 0, "");
}

// As much as the socket takes.
inline void SendRaw(int socket, std::string_view bytes) {
  if (socket < 0) return;
  static_cast<void>(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

}  // namespace kerf::door
