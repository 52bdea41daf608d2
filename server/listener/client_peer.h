// Who has made a call. gRPC knows of the door alone, which therefore says it in the call's
// metadata.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

namespace kerf {

// What the door says of a call. Never passed on to others.
inline constexpr char kPeerMetadata[] = "kerf-door-peer";

// What a value of it begins with, so that no client makes one: random, of this process.
const std::string& PeerStamp();

// The client's address, as gRPC writes addresses: "ipv4:192.0.2.1:7", "unix:".
std::string PeerOf(const grpc::CallbackServerContext& context);

}  // namespace kerf
