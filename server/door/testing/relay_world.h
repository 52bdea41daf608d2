// A relay between a client and a server, for tests: driven by hand, with a clock of its own.
#pragma once

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/memory_budget.h"
#include "base/places.h"
#include "base/shared_budget.h"
#include "base/tls/testing/test_certificates.h"
#include "base/unique_fd.h"
#include "server/door/cancel_bound.h"
#include "server/door/door_metrics.h"
#include "server/door/door_options.h"
#include "server/door/relay.h"
#include "server/door/testing/h2_peer.h"

namespace kerf::door {

inline std::pair<UniqueFd, UniqueFd> SocketPair() {
  std::array<int, 2> ends{};
  KERF_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The system takes little at once: what is written stops in the middle of frames.
inline void MakeSmall(const UniqueFd& socket) {
  const int bytes = 1;
  KERF_CHECK(setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0);
}

struct RelayWorldOptions {
  std::uint64_t memory_bytes = 64 * kMiB;
  // The client speaks TLS.
  bool has_tls = false;
  bool has_small_client_socket = false;
  bool has_small_server_socket = false;
  std::size_t max_ahead_bytes = 64 * kKiB;
  // Of a server's streams.
  std::uint32_t server_window_bytes = 65'535;
  // That others have, too; null: its own, of memory_bytes.
  MemoryBudget* memory = nullptr;
  SharedBudget* windows = nullptr;
  // Of the client's address.
  std::uint8_t number = 0;
};

// Not thread-safe.
class RelayWorld {
 public:
  static constexpr std::size_t kWindowBytes = 64 * kKiB;

  explicit RelayWorld(std::uint64_t memory_bytes)
      : RelayWorld(RelayWorldOptions{.memory_bytes = memory_bytes}) {}
  explicit RelayWorld(const RelayWorldOptions& world = {})
      : world_(world),
        memory_(world.memory_bytes),
        windows_(world.memory_bytes / 2),
        used_memory_(world.memory == nullptr ? &memory_ : world.memory),
        used_windows_(world.windows == nullptr ? &windows_ : world.windows),
        cancels_({.burst = 20, .per_second = 1}) {
    options_.max_connections = 10;
    options_.max_calls = 100;
    options_.memory_bytes = world.memory_bytes;
    options_.refusals = {Refusal{"8", "large", "AAAA"}, Refusal{"8", "no memory", ""},
                         Refusal{"14", "no server", ""}, Refusal{"4", "slow", ""}};
    context_ = {.options = &options_,
                .first_window_bytes = kWindowBytes,
                .memory = used_memory_,
                .windows = used_windows_,
                .cancels = &cancels_,
                .places = &places_,
                .metrics = &metrics_,
                .pool = &pool_,
                .max_ahead_bytes = world.max_ahead_bytes,
                .max_shared_bytes = 16 * kMiB,
                .connect = [this] { return Connect(); },
                .peer_header = "kerf-door-peer",
                .peer_stamp = "stamp "};
    if (world.has_tls) {
      context_.new_session = [] { return NewSession(TlsRules::Side::kHttp2Server); };
    }
    auto [ours, theirs] = SocketPair();
    if (world.has_small_client_socket) {
      MakeSmall(ours);
      MakeSmall(theirs);
    }
    client_socket_ = std::move(theirs);
    relay_ = std::make_unique<Relay>(
        &context_, std::move(ours),
        ClientAddress{.key = {world.number}, .text = "ipv4:192.0.2.1:7"}, now_);
  }

  // A client that keeps the rules; without, its socket is the test's.
  void AddClient(std::uint32_t window_bytes = 65'535) {
    std::unique_ptr<Wire> wire =
        world_.has_tls ? MakeTlsWire(std::move(client_socket_), NewSession(TlsRules::Side::kClient))
                       : MakeClearWire(std::move(client_socket_));
    client = std::make_unique<H2Peer>(H2Peer::Role::kClient, std::move(wire), window_bytes);
  }
  int client_socket() const { return client_socket_.get(); }
  bool has_tls() const { return world_.has_tls; }
  // For a client that is the test's own.
  TlsSession NewClientSession() const { return NewSession(TlsRules::Side::kClient); }
  void CloseClientSocket() { client_socket_.Reset(); }

  // Until nothing moves any more.
  void Run() {
    bool has_moved = true;
    while (has_moved) {
      has_moved = Step();
    }
  }

  // One turn of each; whether anything moved.
  bool Step() {
    bool has_moved = false;
    if (client != nullptr && moves_client) has_moved |= client->Move();
    has_moved |= MoveRelay();
    for (const auto& server : servers) has_moved |= moves_servers && server->Move();
    has_moved |= MoveRelay();
    return has_moved;
  }

  void Pass(std::chrono::milliseconds time) {
    now_ += time;
    if (!relay_->is_done()) relay_->CheckTime(now_);
    Run();
  }

  void SetMaxSharedBytes(std::size_t bytes) { context_.max_shared_bytes = bytes; }
  // Of connections to servers that are made from now on.
  void SetServerWindow(std::size_t bytes) { context_.server_window_bytes = bytes; }

  // As the loop does with one that is done.
  void CloseRelay() { relay_->Close(); }

  Relay& relay() { return *relay_; }
  DoorOptions& options() { return options_; }
  DoorMetrics& metrics() { return metrics_; }
  MemoryBudget& memory() { return *used_memory_; }
  SharedBudget& windows() { return *used_windows_; }
  BlockPool& pool() { return pool_; }
  CancelBound& cancels() { return cancels_; }
  Time now() const { return now_; }
  H2Peer& server() { return *servers.back(); }

  std::unique_ptr<H2Peer> client;
  // One for each connection that the relay has made.
  std::vector<std::unique_ptr<H2Peer>> servers;
  bool takes_connections = true;
  // Whether they read and write.
  bool moves_client = true;
  bool moves_servers = true;

 private:
  static TlsSession NewSession(TlsRules::Side side) {
    static const auto& all = TestCertificates::Get();
    static const auto server = all.ContextOf(TlsRules::Side::kHttp2Server, all.server);
    static const auto client = all.ContextOf(TlsRules::Side::kClient, all.client);
    const bool is_client = side == TlsRules::Side::kClient;
    TlsSession session = (is_client ? client : server)->NewSession();
    (is_client ? SSL_set_connect_state : SSL_set_accept_state)(session.get());
    return session;
  }

  UniqueFd Connect() {
    if (!takes_connections) return UniqueFd();
    auto [ours, theirs] = SocketPair();
    if (world_.has_small_server_socket) {
      MakeSmall(ours);
      MakeSmall(theirs);
    }
    servers.push_back(std::make_unique<H2Peer>(H2Peer::Role::kServer, std::move(theirs),
                                               world_.server_window_bytes));
    return std::move(ours);
  }

  static std::size_t Pending(int socket) {
    std::array<char, 1> first;
    return recv(socket, first.data(), first.size(), MSG_PEEK) != -1 ? 1 : 0;
  }

  bool MoveRelay() {
    if (relay_->is_done()) return false;
    const bool has_client = Pending(relay_->client_socket()) > 0 || relay_->has_unread();
    if (has_client || relay_->is_client_waiting_to_write()) {
      relay_->OnReady(Relay::Side::kClient, has_client, now_);
    }
    if (relay_->is_done() || relay_->server_socket() < 0) return has_client;
    const bool has_server = Pending(relay_->server_socket()) > 0;
    if (has_server || relay_->is_server_waiting_to_write()) {
      relay_->OnReady(Relay::Side::kServer, has_server, now_);
    }
    return has_client || has_server;
  }

  const RelayWorldOptions world_;
  DoorOptions options_;
  MemoryBudget memory_;
  SharedBudget windows_;
  MemoryBudget* const used_memory_;
  SharedBudget* const used_windows_;
  CancelBound cancels_;
  Places places_;
  DoorMetrics metrics_;
  BlockPool pool_;
  RelayContext context_;
  Time now_ = Time() + std::chrono::hours(1);
  UniqueFd client_socket_;
  std::unique_ptr<Relay> relay_;
};

}  // namespace kerf::door
