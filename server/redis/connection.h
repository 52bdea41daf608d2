// What a RedisClient knows of its commands and connections. Its thread's own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/redis/address.h"
#include "server/redis/redis_client.h"
#include "server/redis/slot.h"
#include "server/redis/socket.h"
#include "server/redis/wire.h"

namespace kerf::redis {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

struct Request {
  std::string wire;
  std::uint16_t slot = 0;
  std::optional<RedisAddress> node;
  int replica_count = 0;
  bool waits_for_slot = true;
  bool is_for_master = false;
  // In the command's slot.
  std::string barrier_key;
  RedisClient::Done done;
  std::chrono::milliseconds timeout{0};
  TimePoint deadline;
  TimePoint not_before;
  int attempt_count = 0;
  int redirect_count = 0;
  // Of one that waits for a map: the question to the cluster that may answer it.
  std::uint64_t min_question = 0;
  // This once there, behind ASKING.
  std::optional<RedisAddress> ask;
  std::string last_error;
};
using RequestPtr = std::unique_ptr<Request>;

struct Connection;

// A command on a connection; they are answered in order.
struct Flight {
  // Of kCommand.
  RequestPtr request;
  TimePoint sent_at;
  enum class Kind : std::uint8_t { kCommand, kAuth, kMember, kAsking, kBarrier, kWait, kTopology };
  Kind kind = Kind::kCommand;
};

struct Held {
  RequestPtr request;
  RedisReply reply;
};

// Whose connections these are.
class ConnectionUser {
 public:
  virtual void OnUp(Connection& connection) = 0;
  virtual void OnReply(Connection& connection, const redisReply& reply) = 0;
  virtual void OnClosed(Connection& connection, const std::string& why) = 0;

 protected:
  ~ConnectionUser() = default;
};

struct Connection final : Socket::Owner {
  Connection(ConnectionUser* of, RedisAddress at) : user(of), address(std::move(at)) {}
  void OnUp() override { user->OnUp(*this); }
  void OnReply(const redisReply& reply) override { user->OnReply(*this, reply); }
  void OnClosed(const std::string& why) override { user->OnClosed(*this, why); }

  ConnectionUser* const user;
  const RedisAddress address;
  // Null: there is none.
  std::unique_ptr<Socket> socket;
  std::deque<std::unique_ptr<Flight>> flights;
  // Written, and waiting for the answer to the WAIT behind them.
  std::deque<Held> held;
  bool wants_wait = false;
  // For the answer to a WAIT, and why what was sent in front of it was not done.
  bool is_waiting = false;
  std::string barrier_error;
  bool is_connected = false;
  TimePoint last_answer_at;
  TimePoint connect_began;
  TimePoint not_before;
  int failure_count = 0;
  std::string auth_error;
  // Why what is at the other end is not the index; what it answers is dropped.
  std::string stranger;
  std::string last_error;
};

// Before what has failed so often is tried again: longer each time, and never the same for all.
inline std::chrono::milliseconds PauseAfter(std::chrono::milliseconds shortest, int attempt_count,
                                            std::minstd_rand& random) {
  constexpr std::chrono::milliseconds kMaxPause{500};
  constexpr int kMaxPauseDoublings = 6;
  const auto most =
      std::min(kMaxPause, shortest * (1 << std::min(attempt_count, kMaxPauseDoublings)));
  return std::chrono::milliseconds(most.count() / 2 +
                                   static_cast<long>(random() % (most.count() / 2 + 1)));
}

// All of the command but its `done`; the usual timeout, unless it has its own.
inline RequestPtr RequestOf(RedisCommand command, std::chrono::milliseconds usual_timeout) {
  auto request = std::make_unique<Request>();
  request->wire = FormatWire(command.arguments);
  request->slot = RedisSlotOf(command.key);
  if (command.replica_count > 0) request->barrier_key = BarrierKeyOf(command.key);
  request->node = std::move(command.node);
  request->replica_count = command.replica_count;
  request->waits_for_slot = command.waits_for_slot;
  request->is_for_master = command.is_for_master;
  request->timeout = command.timeout.count() > 0 ? command.timeout : usual_timeout;
  request->deadline = command.asked_at.value_or(Clock::now()) + request->timeout;
  return request;
}

// What Redis says of a slot that has gone elsewhere.
inline RedisReply MovedReply(std::uint16_t slot) {
  RedisReply moved;
  moved.kind = RedisReply::Kind::kError;
  moved.text = Cat("MOVED ", slot);
  return moved;
}

// Whether an error is what the command asks for, and nothing that another node, or a later attempt,
// would answer otherwise.
inline bool IsAnswer(const Request& request, const RedisReply& error) {
  if (!request.waits_for_slot && error.text.starts_with("TRYAGAIN")) return true;
  return request.is_for_master &&
         (error.text.starts_with("ASK ") || error.text.starts_with("MOVED "));
}

// Whether one over TLS is to be made anew: it may be of certificates that nobody has any more.
inline bool IsWornOut(const Connection& connection, const RedisOptions& options, TimePoint now) {
  return options.tls != nullptr && connection.is_connected &&
         connection.connect_began + options.tls_connection_life <= now;
}

inline bool IsIdle(const Connection& connection) {
  return connection.flights.empty() && connection.held.empty();
}

struct Node {
  std::vector<std::unique_ptr<Connection>> readers;
  std::unique_ptr<Connection> writer;
  // Others have their places: they get nothing more, and go once they are idle.
  std::vector<std::unique_ptr<Connection>> leaving;
};

// However busy one is: what comes next goes to a new one, and it goes once all that is on it is
// answered. Else a Redis that is always asked something would keep its first certificate for ever.
// Not from within the callback of a connection.
inline void ReplaceWornOut(Node& node, const RedisOptions& options, TimePoint now) {
  const auto replace = [&](std::unique_ptr<Connection>& place) {
    if (place == nullptr || !IsWornOut(*place, options, now)) return;
    auto next = std::make_unique<Connection>(place->user, place->address);
    node.leaving.push_back(std::exchange(place, std::move(next)));
  };
  for (auto& reader : node.readers) replace(reader);
  replace(node.writer);
  std::erase_if(node.leaving, [](const auto& connection) { return IsIdle(*connection); });
}

}  // namespace kerf::redis
