#include "server/hints/redis_segment_store.h"

#include <algorithm>
#include <coroutine>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/task.h"
#include "server/redis/send_all.h"

namespace kerf {
namespace {

constexpr std::string_view kSegmentPrefix = "hs:";
constexpr std::string_view kAnchorPrefix = "ha:";

std::string SegmentKey(const HintScope& scope, const SegmentId& id) {
  return Cat(kSegmentPrefix, HintKeyOf(scope, id));
}
std::string AnchorKey(const HintScope& scope, const Digest& anchor) {
  return Cat(kAnchorPrefix, HintKeyOf(scope, anchor));
}

// The text that Redis has answered. An error is that of a key that somebody else has made, or of a
// Redis that does not work.
absl::StatusOr<std::string> TextOf(const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return reply.status();
  if (reply->kind == RedisReply::Kind::kText) return reply->text;
  return absl::UnavailableError(ToAbsl(Cat("Redis: hints: ", reply->text)));
}

// The first bytes of what lies there: "" for nothing, which is no segment and no id either. Not
// GET, because a value that somebody else has made may be of any length.
RedisCommand ReadOf(std::string key, std::size_t max_bytes) {
  RedisCommand command;
  command.arguments = {"GETRANGE", key, "0", Cat(max_bytes - 1)};
  command.key = std::move(key);
  return command;
}

// How often it is looked up whether segments may be written.
constexpr std::chrono::minutes kCheckPeriod{1};

// A field's value in the answer to INFO; "" if it is not there.
std::string_view FieldOf(std::string_view info, std::string_view name) {
  const std::string begin = Cat("\n", name, ":");
  const std::size_t at = info.find(begin);
  if (at == std::string_view::npos) return "";
  info.remove_prefix(at + begin.size());
  return info.substr(0, info.find_first_of("\r\n"));
}

absl::Status CheckRoom(const absl::StatusOr<RedisReply>& info) {
  KERF_ASSIGN_OR_RETURN(const std::string text, TextOf(info));
  const std::string_view maximum = FieldOf(text, "maxmemory");
  if (maximum == "0" || FieldOf(text, "maxmemory_policy") != "noeviction") return absl::OkStatus();
  return absl::FailedPreconditionError(
      ToAbsl(Cat("Redis: no hints are written, because with maxmemory ", maximum,
                 " and maxmemory-policy noeviction they would take the room of entries: set "
                 "maxmemory-policy to one of volatile-*")));
}

// Awaited, it asks for the masters.
class ReadMasters {
 public:
  using Masters = absl::StatusOr<std::vector<RedisAddress>>;

  explicit ReadMasters(RedisClient& client) : client_(client) {}

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaits) {
    client_.ReadMasters([this, awaits](const Masters& masters) {
      masters_ = masters;
      awaits.resume();
    });
  }
  Masters await_resume() { return std::move(masters_); }

 private:
  RedisClient& client_;
  Masters masters_;
};

class RedisSegmentStore final : public SegmentStore {
 public:
  RedisSegmentStore(std::chrono::seconds time_to_live, std::unique_ptr<RedisClient> client)
      : time_to_live_(Cat(time_to_live.count())), client_(std::move(client)) {}

  void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) override {
    SegmentId id;
    client_->Send(
        ReadOf(AnchorKey(scope, anchor), id.bytes.size() + 1),
        [done = std::move(done)](const absl::StatusOr<RedisReply>& reply) { done(IdOf(reply)); });
  }

  void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) override {
    client_->Send(ReadOf(SegmentKey(scope, id), kMaxSegmentBytes + 1),
                  [done = std::move(done)](const absl::StatusOr<RedisReply>& reply) {
                    absl::StatusOr<std::string> text = TextOf(reply);
                    if (!text.ok()) return done(text.status());
                    if (text->empty()) return done(std::nullopt);
                    done(std::optional<std::string>(*std::move(text)));
                  });
  }

  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    std::vector<RedisCommand> commands;
    commands.reserve(segments.size());
    // The segments first: an anchor that leads nowhere costs a question.
    for (StoredSegment& segment : segments) {
      commands.push_back(SetOf(SegmentKey(scope, segment.id), std::move(segment.bytes)));
    }
    for (const StoredSegment& segment : segments) {
      const std::string id(segment.id.bytes.begin(), segment.id.bytes.end());
      for (const Digest& anchor : segment.anchors) {
        commands.push_back(SetOf(AnchorKey(scope, anchor), id));
      }
    }
    RunPut(std::move(commands), std::move(done));
  }

  std::string_view backend_name() const override { return "redis"; }

 private:
  static absl::StatusOr<std::optional<SegmentId>> IdOf(const absl::StatusOr<RedisReply>& reply) {
    KERF_ASSIGN_OR_RETURN(const std::string text, TextOf(reply));
    if (text.empty()) return std::nullopt;
    SegmentId id;
    if (text.size() != id.bytes.size()) {
      return absl::DataLossError("Redis: hints: an anchor that is no segment's id");
    }
    std::copy(text.begin(), text.end(), id.bytes.begin());
    return id;
  }

  // Acknowledged by the master alone: a failover may lose it.
  RedisCommand SetOf(std::string key, std::string value) const {
    RedisCommand command;
    command.arguments = {"SET", key, std::move(value), "EX", time_to_live_};
    command.key = std::move(key);
    return command;
  }

  Detached RunPut(std::vector<RedisCommand> commands, PutDone done) {
    const absl::Status may_write = co_await MayWrite();
    if (!may_write.ok()) co_return done(may_write);
    SendAll send(*client_, std::move(commands));
    const RedisReplies replies = co_await send;
    absl::Status status;
    for (const auto& reply : replies) status.Update(TextOf(reply).status());
    done(status);
  }

  Task<absl::Status> MayWrite() {
    {
      const std::lock_guard lock(mutex_);
      if (checked_.has_value() && std::chrono::steady_clock::now() < *checked_ + kCheckPeriod) {
        co_return may_write_;
      }
    }
    ReadMasters read(*client_);
    const auto masters = co_await read;
    if (!masters.ok()) co_return masters.status();
    std::vector<RedisCommand> commands;
    commands.reserve(masters->size());
    for (const RedisAddress& master : *masters) {
      commands.push_back({"", master, {"INFO", "memory"}});
    }
    SendAll send(*client_, std::move(commands));
    const RedisReplies replies = co_await send;
    absl::Status status;
    for (const auto& reply : replies) status.Update(CheckRoom(reply));
    const std::lock_guard lock(mutex_);
    checked_ = std::chrono::steady_clock::now();
    may_write_ = status;
    co_return status;
  }

  const std::string time_to_live_;
  std::mutex mutex_;
  // What the last look at the masters' memory said, and when that was.
  std::optional<std::chrono::steady_clock::time_point> checked_;
  absl::Status may_write_;
  // Goes first: its thread runs the calls.
  const std::unique_ptr<RedisClient> client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentStore>> CreateRedisSegmentStore(RedisSegmentOptions options) {
  options.redis.connect_timeout = options.timeout;
  options.redis.attempt_timeout = options.timeout;
  // Nothing waits for replicas.
  options.redis.replica_timeout = options.timeout / 2;
  options.redis.command_timeout = options.timeout;
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<RedisClient> client,
                        RedisClient::Create(std::move(options.redis)));
  return std::make_unique<RedisSegmentStore>(options.time_to_live, std::move(client));
}

}  // namespace kerf
