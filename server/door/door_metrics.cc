#include "server/door/door_metrics.h"

namespace kerf::door {

std::string_view NameOf(EndReason reason) {
  static constexpr std::array<std::string_view, kEndReasonCount> kNames = {
      "closed",
      "not_http2",
      "large_header",
      "slow_header",
      "silent",
      "idle",
      "not_reading",
      "no_ping",
      "cancels",
      "made_room",
      "full",
      "not_tls",
      "old_tls",
      "no_certificate",
      "expired_certificate",
      "unknown_certificate",
      "refuses_certificate",
      "tls_failed",
  };
  return kNames[static_cast<std::size_t>(reason)];
}

std::string_view TextOf(EndReason reason) {
  static constexpr std::array<std::string_view, kEndReasonCount> kTexts = {
      "it was closed",
      "it breaks the rules of HTTP/2",
      "a header block of it is larger than 64 KiB",
      "a header block of it has not come to its end in time",
      "it has sent no frame in time",
      "it has had no call for long",
      "it does not read what it is sent",
      "it does not answer pings",
      "its address has cancelled too many calls before they were answered",
      "it had no call, and another one needed its place",
      "there are too many connections, and all have calls",
      "it does not speak TLS, which is asked for here",
      "it speaks no TLS 1.3",
      "it shows no certificate",
      "the time of its certificate is over, or has not begun",
      "its certificate is of no CA that is trusted here, or not for clients",
      "it does not trust this server's certificate",
      "it has broken off TLS's handshake, or does not keep its rules",
  };
  return kTexts[static_cast<std::size_t>(reason)];
}

std::string_view NameOf(RefusedCallReason reason) {
  static constexpr std::array<std::string_view, kRefusedCallReasonCount> kNames = {
      "large_metadata", "no_memory", "no_server", "slow_request", "many_connections"};
  return kNames[static_cast<std::size_t>(reason)];
}

}  // namespace kerf::door
