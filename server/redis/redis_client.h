// Sends commands to a Redis Cluster, or to one Redis, and answers them from a thread of its own.
// A process that has one ignores SIGPIPE, and trusts its Redis: hiredis takes no other answers than
// those of the protocol.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/tls/tls_source.h"
#include "server/redis/address.h"

namespace kerf {

// What an index in Redis is called (server/redis/identity); one of the keys of ADR 0008.
inline constexpr char kIdentityKey[] = "m:{kerf.identity}";

// An answer of Redis. A plain value.
struct RedisReply {
  enum class Kind : std::uint8_t { kNil, kInteger, kText, kError, kArray };
  Kind kind = Kind::kNil;
  std::int64_t integer = 0;
  // Of kText (strings and status lines) and kError.
  std::string text;
  std::vector<RedisReply> elements;
};

struct RedisCommand {
  // Decides about the node, unless `node` does.
  std::string key;
  std::optional<RedisAddress> node;
  std::vector<std::string> arguments;
  // The command changes something, which this many replicas must have before it is answered OK.
  int replica_count = 0;
  // In the place of RedisOptions::command_timeout, unless it is 0.
  std::chrono::milliseconds timeout{0};
  // From when the timeout counts; nothing: from Send.
  std::optional<std::chrono::steady_clock::time_point> asked_at = std::nullopt;
  // While its slot moves and some of its keys have gone (TRYAGAIN): else that is the answer.
  bool waits_for_slot = true;
  // With `node`: for as long as that is the master of the key's slot, and the slot does not move.
  // Else the answer is MOVED or ASK, and it was carried out nowhere.
  bool is_for_master = false;
};

// A master, and one of the slots that it has.
struct MasterSlot {
  RedisAddress master;
  std::uint16_t slot = 0;
};

struct RedisOptions {
  // Any nodes of the cluster; the others are learned from them.
  std::vector<RedisAddress> seeds;
  // ACL user; empty: Redis's default user. No password: no AUTH.
  std::string username;
  std::string password;
  // Of each node: commands go over the one of their slot, those that change something over another.
  int read_connection_count = 1;
  std::chrono::milliseconds connect_timeout = limits::kRedisConnectTimeout;
  // A node that has not answered a command by then is taken for dead: its connection is closed and
  // what was on it is sent again.
  std::chrono::milliseconds attempt_timeout = limits::kRedisAttemptTimeout;
  // From Send to the answer, over all attempts.
  std::chrono::milliseconds command_timeout = limits::kIndexTimeout;
  // For replica_count. More than 0 and less than attempt_timeout.
  std::chrono::milliseconds replica_timeout = limits::kRedisReplicaTimeout;
  // Of the client's side; null: Redis is spoken to in the clear. Each connection is made with what
  // it has then.
  std::shared_ptr<const TlsSource> tls = nullptr;
  // Of which the certificates of all nodes have to be; empty: of the host by which each was called,
  // by a seed or by the cluster.
  std::string tls_name = "";
  // Over TLS, of a connection, however busy it is: then it is made anew, with the certificates and
  // CAs that both ends have by then.
  std::chrono::milliseconds tls_connection_life = std::chrono::hours(1);
  // A host's addresses; may block, and is called from other threads. Empty: the system's answer.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)> look_up_host =
      nullptr;
};

struct RedisCounters {
  std::uint64_t commands = 0;
  std::uint64_t retries = 0;
  std::uint64_t redirects = 0;
  std::uint64_t connects = 0;
  std::uint64_t topology_reads = 0;
};

// Thread-safe. Follows MOVED and ASK, waits out TRYAGAIN, CLUSTERDOWN, LOADING and failovers, and
// connects again with a growing pause; so a command may be carried out more than once, also long
// after its first attempt: it must be idempotent.
class RedisClient {
 public:
  // `reply` is Redis's answer, errors of the command included. Instead of it: Unavailable, with
  // what was wrong last, if there was none within command_timeout (it may have been carried out all
  // the same); PermissionDenied if Redis does not take the password or the user's rights do not
  // suffice; Cancelled if the client goes.
  using Done = std::function<void(absl::StatusOr<RedisReply> reply)>;
  using MastersDone = std::function<void(const absl::StatusOr<std::vector<RedisAddress>>& masters)>;

  // Only starts; whether there is a Redis shows in the answers. InvalidArgument without seeds, or
  // for options that contradict each other.
  static absl::StatusOr<std::unique_ptr<RedisClient>> Create(RedisOptions options);

  // Closes it; nobody uses it any more.
  virtual ~RedisClient() = default;

  // The command has arguments. `done` is called once, from the client's thread, and does not block.
  virtual void Send(RedisCommand command, Done done) = 0;
  // Asks the cluster which masters it has now; one Redis is its own. Errors and `timeout` as for
  // Send.
  virtual void ReadMasters(MastersDone done, std::chrono::milliseconds timeout) = 0;
  void ReadMasters(MastersDone done) { ReadMasters(std::move(done), std::chrono::milliseconds(0)); }
  // The same, but those that have slots, each with one of them, drawn anew for each call.
  using SlotsDone = std::function<void(const absl::StatusOr<std::vector<MasterSlot>>& slots)>;
  virtual void ReadSlots(SlotsDone done) = 0;

  // Answers everything with Cancelled, and whatever is sent from now on, before the return. Not
  // from within a `done`.
  virtual void Close() = 0;

  // Of a single Redis: only one whose kIdentityKey has one of these in its value, or nothing, is
  // answered from here on, on connections that are new. Of a cluster nodes are told by their ids.
  virtual void ExpectIdentity(std::vector<std::string> known) = 0;

  virtual RedisCounters counters() const = 0;
  // When the first of the certificates ends that the masters have shown, in seconds since 1970;
  // nothing: none has shown one.
  virtual std::optional<std::int64_t> certificate_expires_at_s() const = 0;
};

}  // namespace kerf
