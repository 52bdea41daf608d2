// What a door has seen, for whoever watches it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/metrics/counters.h"

namespace kerf::door {

// Why a connection has ended, or was not taken. The order is that of NameOf.
enum class EndReason : std::uint8_t {
  // By the client, or because nobody needed it any more.
  kClosed,
  kNotHttp2,
  kLargeHeader,
  kSlowHeader,
  kSilent,
  kIdle,
  kNotReading,
  kNoPing,
  kCancels,
  kMadeRoom,
  kFull,
  // By TLS, whose handshake came to nothing.
  kNotTls,
  kOldTls,
  kNoCertificate,
  kExpiredCertificate,
  kUnknownCertificate,
  kRefusesCertificate,
  kTlsFailed,
};
inline constexpr std::size_t kEndReasonCount = 18;

// As a label.
std::string_view NameOf(EndReason reason);
// For people: "the connection ... because ".
std::string_view TextOf(EndReason reason);

// Why a call did not get to gRPC, or not to its end. The order is that of NameOf, and of
// DoorOptions::refusals.
enum class RefusedCallReason : std::uint8_t {
  kLargeMetadata,
  kNoMemory,
  kNoServer,
  kSlowRequest,
  // Whose connection it is has as many as he may have.
  kManyConnections,
};
inline constexpr std::size_t kRefusedCallReasonCount = 5;

std::string_view NameOf(RefusedCallReason reason);

// Thread-safe.
struct DoorMetrics {
  std::atomic<std::size_t> connections{0};
  metrics::Counter connections_accepted;
  metrics::Counter calls;
  std::array<metrics::Counter, kEndReasonCount> connections_ended;
  std::array<metrics::Counter, kRefusedCallReasonCount> calls_refused;
  metrics::Counter calls_cancelled;

  metrics::Counter& Ended(EndReason reason) {
    return connections_ended[static_cast<std::size_t>(reason)];
  }
  metrics::Counter& Refused(RefusedCallReason reason) {
    return calls_refused[static_cast<std::size_t>(reason)];
  }
};

}  // namespace kerf::door
