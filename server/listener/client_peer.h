// Who has made a call. gRPC knows of the door alone, which therefore says it in the call's
// metadata.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kerf {

// What the door says of a call. Never passed on to others.
inline constexpr char kPeerMetadata[] = "kerf-door-peer";

// The same of how its client is seen, where callers are asked who they are.
inline constexpr char kSeenMetadata[] = "kerf-door-seen";

// What a value of them begins with, so that no client makes one: random, of this process.
const std::string& PeerStamp();

// The client's address, as gRPC writes addresses: "ipv4:192.0.2.1:7", "unix:".
std::string PeerOf(const grpc::CallbackServerContext& context);

// What the door has seen of a client.
struct SeenClient {
  // Nobody between can have read what was sent: it came over TLS or a unix socket.
  bool is_private = false;
  // Of a certificate that it has shown, and that was looked at; empty: none.
  std::string certificate = {};
  // Of a unix socket.
  std::optional<std::uint32_t> user = std::nullopt;
};

// As a door says it.
SeenClient ParseSeen(std::string_view said);
// Nothing of it is known where no door said so.
SeenClient SeenOf(const grpc::CallbackServerContext& context);

}  // namespace kerf
