// One client: its connection, a connection of its own to gRPC, and its calls, whose frames go from
// one to the other. What a stranger does comes to its end here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/memory_budget.h"
#include "base/places.h"
#include "base/shared_budget.h"
#include "base/tls/tls_context.h"
#include "base/unique_fd.h"
#include "server/door/cancel_bound.h"
#include "server/door/client_address.h"
#include "server/door/door_metrics.h"
#include "server/door/door_options.h"
#include "server/door/link.h"
#include "server/door/slices.h"

namespace kerf::door {

// A connection's stream and gRPC's stream of it.
struct RelayedCall {
  explicit RelayedCall(BlockPool* pool) : request(pool), answer(pool) {}

  std::int32_t client_stream = -1;
  std::int32_t server_stream = -1;
  bool is_client_open = true;
  bool is_server_open = false;
  // The connection that its server's stream was of is gone.
  bool is_server_lost = false;
  Body request;
  Body answer;

  // The block that is being read: of either side.
  Headers headers;
  std::size_t header_bytes = 0;
  bool has_request_headers = false;
  bool is_too_large = false;

  // The answer's headers were given to the client's connection.
  bool is_answered = false;
  // Nothing more goes to the client: it cannot cancel the call any more.
  bool is_end_sent = false;
  // Of the client's stream; 0: it has no memory.
  std::size_t window_bytes = 0;
  std::size_t received_since_growth_bytes = 0;
  // When its request last went on.
  Time heard_at;
  // Since when the client could have read more of the answer.
  std::optional<Time> unread_since;
};

// What all relays of a thread share; outlives them.
struct RelayContext {
  const DoorOptions* options = nullptr;
  // Of a call, in both directions, when it begins.
  std::size_t first_window_bytes = 0;
  MemoryBudget* memory = nullptr;
  // What windows of those who call may grow into, by who they are: what is left of `memory` is
  // there for calls that begin.
  SharedBudget* windows = nullptr;
  CancelBound* cancels = nullptr;
  // Of those who have a bound of connections, by how they are seen.
  Places* places = nullptr;
  DoorMetrics* metrics = nullptr;
  BlockPool* pool = nullptr;
  // Of a connection to gRPC, for all answers together: beyond all that they have as streams.
  std::size_t server_window_bytes = std::size_t{1} << 30;
  // What is written ahead of each socket; more only to finish a frame.
  std::size_t max_ahead_bytes = std::size_t{64} << 10;
  // Of blocks of `pool`; beyond, what comes is copied and not shared, so that no block is held for
  // a few bytes of it.
  std::size_t max_shared_bytes = 0;
  // For each client that does not come over a unix socket: a server's, which accepts. Null: clients
  // speak in the clear.
  std::function<TlsSession()> new_session = nullptr;
  // A new connection to gRPC, whose other end it has already; invalid: it cannot be had.
  std::function<UniqueFd()> connect;
  // Put into the metadata of each call, in place of what the client says there: the name, and what
  // stands before the client's address.
  std::string peer_header;
  std::string peer_stamp;
  // The same for how the client is seen: "clear", "tls", "tls NAME" of its certificate, "unix", or
  // "unix NUMBER" of its user. Empty: not said.
  std::string seen_header = "";
};

// Not thread-safe: all is called from one thread.
class Relay final : private LinkEvents {
 public:
  Relay(const RelayContext* context, UniqueFd client, ClientAddress address, Time now);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() { Close(); }

  enum class Side : std::uint8_t { kClient, kServer };
  // There may be something to read or, without `is_readable`, room to write.
  void OnReady(Side side, bool is_readable, Time now);
  // Looks at what has waited for too long.
  void CheckTime(Time now);
  // Closes both connections: nothing else may follow but the destructor. Calls that are open count
  // as cancelled by the client.
  void Close();
  // Open calls go on, new ones are not taken.
  void GoAway(Time now);

  // Nothing is left to do, and why it has ended.
  bool is_done() const { return is_done_; }
  EndReason end_reason() const { return end_reason_; }
  // To be counted as if it ended for this.
  void SetEndReason(EndReason reason) { end_reason_ = reason; }

  int client_socket() const { return client_->socket(); }
  // -1: there is none now. Another number than before is another socket, and so is the same number
  // with another server_count.
  int server_socket() const { return server_ == nullptr ? -1 : server_->socket(); }
  std::uint64_t server_count() const { return server_count_; }
  // The client has sent something that OnReady has to take, whatever its socket says.
  bool has_unread() const { return !is_done_ && client_->has_unread(); }
  bool is_client_waiting_to_write() const { return client_->is_waiting_to_write(); }
  bool is_server_waiting_to_write() const {
    return server_ != nullptr && server_->is_waiting_to_write();
  }

  const ClientAddress& address() const { return address_; }
  bool has_calls() const { return !calls_.empty(); }
  // Whether it has ever sent a frame, and since when it has no calls: the earlier, the less it is
  // missed.
  bool has_spoken() const { return client_->has_settings(); }
  Time idle_since() const { return idle_since_; }

 private:
  RelayedCall& OnHeadersBegin(Link& link, std::int32_t stream, RelayedCall* call) override;
  bool OnHeader(Link& link, RelayedCall& call, std::string_view name,
                std::string_view value) override;
  void OnHeadersEnd(Link& link, RelayedCall& call, bool is_last) override;
  void OnData(Link& link, RelayedCall* call, std::int32_t stream,
              std::span<const std::uint8_t> bytes) override;
  void OnDataEnd(Link& link, RelayedCall& call) override;
  void OnClosed(Link& link, RelayedCall& call, std::uint32_t error) override;
  void OnBodySent(Link& link, RelayedCall& call, std::size_t size_bytes) override;
  void OnLastSent(Link& link, RelayedCall& call) override;
  void OnHeadersNotSent(Link& link, RelayedCall& call) override;
  void OnGoAway(Link& link) override;

  void ReadClient();
  void ReadServer();
  void Flush();
  void End(EndReason reason);
  bool OpenServer();
  void LoseServer();

  void BeginCall(RelayedCall& call, bool is_last);
  void EndRequest(RelayedCall& call);
  void Answer(RelayedCall& call, bool is_last);
  void EndAnswer(RelayedCall& call);
  void OnClientClosed(RelayedCall& call, std::uint32_t error);
  void OnServerClosed(RelayedCall& call, std::uint32_t error);
  // With a status of the door's own, as its whole answer or as its end.
  void Fail(RelayedCall& call, RefusedCallReason reason);
  // The same of one that nobody else has seen.
  void TurnAway(RelayedCall& call, RefusedCallReason reason);
  void RefuseMethod(RelayedCall& call);
  void ForgetIfOver(RelayedCall& call);
  void CountCancelled(std::size_t count);
  // Of an answer, which nobody will see any more or all of which was sent.
  void ConsumeOfServer(const RelayedCall& call, std::size_t size_bytes);
  void CheckCallTime(RelayedCall& call);

  std::string Seen() const;
  // Among the connections of whoever is at its other end, from the first call on.
  bool TakePlace();
  // A number for who is at its other end: the name in its certificate, else its address.
  std::uint64_t Number() const;
  bool TakeWindows(RelayedCall& call);
  void GrowWindow(RelayedCall& call, std::size_t received_bytes);
  std::size_t MayGrowBy() const;
  void GiveWindowsBack(RelayedCall& call);
  void SetWindow();
  bool MayShare(std::size_t size_bytes) const;

  const RelayContext& context_;
  const ClientAddress address_;
  const Time begun_at_;
  Time now_;
  std::unique_ptr<Link> client_;
  std::unique_ptr<Link> server_;
  // Nothing: it was not asked for.
  std::optional<Places::Hold> place_;
  std::uint64_t server_count_ = 0;
  // By the client's stream.
  std::map<std::int32_t, std::unique_ptr<RelayedCall>> calls_;
  // The windows of all calls.
  Reservation memory_;
  // Of everybody who is at the other end of such connections: the same bytes. From the first call
  // on.
  std::shared_ptr<SharedBudget::Share> windows_;
  std::size_t client_windows_bytes_ = 0;
  Time idle_since_;
  // The client's header block that has begun and not ended, and whose it is.
  std::optional<Time> header_since_;
  std::int32_t header_stream_ = 0;
  std::optional<Time> ping_sent_at_;
  bool is_done_ = false;
  EndReason end_reason_ = EndReason::kClosed;
};

}  // namespace kerf::door
