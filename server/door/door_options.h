// What a door is told: how much it takes of strangers, and for how long it waits for them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/tls/tls_context.h"
#include "base/units.h"
#include "server/door/door_metrics.h"
#include "server/door/turned_away.h"

namespace kerf::door {

struct DoorTimes {
  // From a connection's beginning to its first frame.
  std::chrono::milliseconds first_frame{10'000};
  // From the first byte of a header block to its last.
  std::chrono::milliseconds header{10'000};
  // Of a connection without calls.
  std::chrono::milliseconds idle{300'000};
  // Of a call whose request does not go on, and that was not answered anything yet.
  std::chrono::milliseconds request{120'000};
  // Of an answer, or anything else, that the client does not read.
  std::chrono::milliseconds unread = limits::kWriteStall;
  // Of a client that says nothing, until it is asked whether it is there, and to its answer.
  std::chrono::milliseconds ping = limits::kServerPing;
  std::chrono::milliseconds ping_timeout = limits::kServerPingTimeout;
};

// What a call is answered that the door itself ends.
struct Refusal {
  // Of gRPC: a number, a text of plain ASCII without '%', and details in base64, none if empty.
  std::string status = "14";
  std::string message;
  std::string details;
};

struct DoorOptions {
  // For each client, to accept its TLS with; called by the door's threads. Null: clients speak in
  // the clear.
  std::function<TlsSession()> new_session;
  // At once. For one more, one without calls is ended.
  std::size_t max_connections = 0;
  // Of one connection, at once.
  std::uint32_t max_calls = 0;
  // For what clients have sent and gRPC has not taken, and the other way round: of all calls
  // together. Each call takes two windows of it; one without room for them is refused.
  std::uint64_t memory_bytes = 0;
  // That fit into memory_bytes whatever happens.
  std::size_t expected_calls = 0;
  // Of a header block, unpacked. One beyond it ends its connection: what its end would have been is
  // not known to the other one's table.
  std::size_t max_header_bytes = 64 * kKiB;
  // Of the metadata of a call. One beyond it is refused; the connection goes on.
  std::size_t max_metadata_bytes = 7 * kKiB;
  // Of all connections of an address: calls that are cancelled before they are answered. A
  // connection that has to be ended counts as some.
  double cancel_burst = 0;
  double cancels_per_second = 50;
  // Of whoever is seen so (RelayContext::seen_header), at once: those of which a call was made, in
  // which others are refused. Nothing: no bound. Null: nobody has one. Called by the door's
  // threads.
  std::function<std::optional<std::uint64_t>(std::string_view seen)> max_connections_of;
  // Who calls may be a front, which carries others' calls: nobody's windows are kept to his part.
  bool is_behind_fronts = false;
  // By RefusedCallReason.
  std::array<Refusal, kRefusedCallReasonCount> refusals;
  // Told of whoever was not let in; null: nobody is. Called by the door's threads, which it may not
  // keep, and as often as strangers like.
  std::function<void(TurnedAway client)> on_turned_away;
  DoorTimes times;
};

// A call's first window, in both directions; the second one: what a window may grow to as long as
// there is memory.
inline constexpr std::uint64_t kMinWindowBytes = 8 * kKiB;
inline constexpr std::uint64_t kMaxFirstWindowBytes = 64 * kKiB;
inline constexpr std::uint64_t kMaxWindowBytes = kMiB;

}  // namespace kerf::door
