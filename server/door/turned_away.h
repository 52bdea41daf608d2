// Whom a door has not let in, for whoever writes that down.
#pragma once

#include <string>
#include <variant>

#include "server/door/door_metrics.h"

namespace kerf::door {

struct TurnedAway {
  // Of a connection that was not taken, or of a call on one.
  using Why = std::variant<EndReason, RefusedCallReason>;

  // As ClientAddress::text.
  std::string peer;
  Why why;
  // As RelayContext::seen_header has it; empty: nothing was seen of it yet.
  std::string seen = {};
  // Of the call, as its client has sent it, with the slash: these may be anything.
  std::string method = {};
  std::string request_id = {};
};

// Whether a connection that has ended so was not let in for its TLS. All others were in, or have
// said nothing, and what ended them is for the metrics; whom the door did not even take, because of
// kFull or kCancels, it tells of itself.
constexpr bool IsTurnedAwayByTls(EndReason reason) {
  switch (reason) {
    case EndReason::kNotTls:
    case EndReason::kOldTls:
    case EndReason::kNoCertificate:
    case EndReason::kExpiredCertificate:
    case EndReason::kUnknownCertificate:
      return true;
    case EndReason::kClosed:
    case EndReason::kNotHttp2:
    case EndReason::kLargeHeader:
    case EndReason::kSlowHeader:
    case EndReason::kSilent:
    case EndReason::kIdle:
    case EndReason::kNotReading:
    case EndReason::kNoPing:
    case EndReason::kCancels:
    case EndReason::kMadeRoom:
    case EndReason::kFull:
    case EndReason::kRefusesCertificate:
    case EndReason::kTlsFailed:
      return false;
  }
  return false;
}

}  // namespace kerf::door
