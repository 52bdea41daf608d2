#include "server/redis/wire.h"

#include <cstddef>

#include "base/strings.h"
#include "server/redis/slot.h"

namespace kerf::redis {
namespace {

// Of a number as the protocol frames it.
constexpr std::size_t kMaxCountBytes = 23;
// A Redis that is full refuses what may need memory only to scripts that have changed nothing yet:
// then it removes first. Not always, for a key that is not there is not set while its slot moves.
constexpr std::string_view kBarrier = R"lua(
local done = redis.pcall('SET', KEYS[1], '1', 'PX', ARGV[1])
if not done.err or not string.find(done.err, 'OOM', 1, true) then return done end
redis.call('DEL', KEYS[1])
return redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
)lua";
// How long its key lives.
constexpr int kBarrierLife_ms = 1'000;

}  // namespace

std::string FormatWire(const std::vector<std::string>& arguments) {
  std::size_t size = kMaxCountBytes;
  for (const std::string& argument : arguments) size += argument.size() + kMaxCountBytes + 2;
  std::string wire;
  wire.reserve(size);
  wire += Cat("*", arguments.size(), "\r\n");
  for (const std::string& argument : arguments) {
    wire += Cat("$", argument.size(), "\r\n");
    wire += argument;
    wire += "\r\n";
  }
  return wire;
}

std::string BarrierKeyOf(std::string_view key) {
  const std::string_view part = RedisHashedPartOf(key);
  return part.empty() || part.find('}') != std::string_view::npos ? std::string(key)
                                                                  : Cat("kerf.wait:{", part, "}");
}

std::string BarrierWire(const std::string& barrier_key) {
  return FormatWire({"EVAL", std::string(kBarrier), "1", barrier_key, Cat(kBarrierLife_ms)});
}

std::string AuthWire(const RedisOptions& options) {
  std::vector<std::string> auth = {"AUTH"};
  if (!options.username.empty()) auth.push_back(options.username);
  auth.push_back(options.password);
  return FormatWire(auth);
}

absl::Status CheckOptions(const RedisOptions& options) {
  if (options.seeds.empty()) return absl::InvalidArgumentError("no address of a Redis is given");
  if (options.read_connection_count < 1) {
    return absl::InvalidArgumentError("a Redis node needs a connection at least");
  }
  // WAIT takes 0 for ever, and one that outlasts the attempt looks like a node that is dead.
  if (options.replica_timeout.count() < 1 || options.replica_timeout >= options.attempt_timeout) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("the time to wait for replicas of Redis, ", options.replica_timeout.count(),
                   " ms, must be more than 0 and less than that for an attempt, ",
                   options.attempt_timeout.count(), " ms")));
  }
  return absl::OkStatus();
}

}  // namespace kerf::redis
