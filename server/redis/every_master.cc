#include "server/redis/every_master.h"

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/strings.h"
#include "server/redis/answers.h"
#include "server/redis/send_all.h"
#include "server/redis/slot.h"

namespace kerf {
namespace {

// Awaited, it gives what RedisClient::ReadSlots answers.
class AskSlots {
 public:
  explicit AskSlots(RedisClient& client) : client_(client) {}

  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<> awaits) {
    client_.ReadSlots([this, awaits](const auto& slots) {
      slots_ = slots;
      if (open_count_.fetch_sub(1) == 1) awaits.resume();
    });
    // Whoever is last goes on; this object may be gone behind this line.
    return open_count_.fetch_sub(1) != 1;
  }
  absl::StatusOr<std::vector<MasterSlot>> await_resume() { return std::move(slots_); }

 private:
  RedisClient& client_;
  absl::StatusOr<std::vector<MasterSlot>> slots_ = absl::UnknownError("");
  std::atomic<int> open_count_{2};
};

// How often other slots are drawn, or masters that have taken over are asked for.
constexpr int kMaxRounds = 60;

bool HasGoneElsewhere(const absl::StatusOr<RedisReply>& reply) {
  return reply.ok() && reply->kind == RedisReply::Kind::kError &&
         (reply->text.starts_with("ASK ") || reply->text.starts_with("MOVED "));
}

}  // namespace

// Each command is no more than a reason for the write and the WAIT behind it. It has to be carried
// out by this master: by that to which its slot moves it would be waited for in vain. Slots move
// one by one, so another one is drawn; of a master that was replaced, or has lost its last slot
// meanwhile, the next map knows.
Task<absl::Status> WaitForEveryMaster(RedisClient& client, int replica_count) {
  if (replica_count == 0) co_return absl::OkStatus();
  for (int round = 0; round < kMaxRounds; ++round) {
    AskSlots ask(client);
    const auto slots = co_await ask;
    if (!slots.ok()) co_return slots.status();
    if (slots->empty()) co_return absl::UnavailableError("Redis: no master has any slot");
    std::vector<RedisCommand> commands;
    for (const MasterSlot& of : *slots) {
      RedisCommand& command = commands.emplace_back();
      command.key = Cat("kerf.wait:{", RedisNumberIn(of.slot), "}");
      command.node = of.master;
      command.is_for_master = true;
      command.arguments = {"EXISTS", command.key};
      command.replica_count = replica_count;
    }
    SendAll send(client, std::move(commands));
    RedisReplies replies = co_await send;
    bool is_done = true;
    for (const auto& reply : replies) {
      if (HasGoneElsewhere(reply)) {
        is_done = false;
      } else if (!reply.ok() || reply->kind != RedisReply::Kind::kInteger) {
        co_return NotUnderstood("waiting for replicas", reply);
      }
    }
    if (is_done) co_return absl::OkStatus();
  }
  co_return absl::UnavailableError(
      "Redis: a master cannot be waited for, as its slots are being moved; if nobody moves them, "
      "`redis-cli --cluster fix` ends what was broken off");
}

}  // namespace kerf
