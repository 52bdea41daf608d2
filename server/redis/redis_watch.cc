#include "server/redis/redis_watch.h"

#include <future>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "server/logging/logging.h"
#include "server/redis/answers.h"
#include "server/redis/scripts.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

using std::chrono::steady_clock;

// Of one question.
constexpr std::chrono::milliseconds kPatience{2'000};
// Several packets, there and back.
constexpr std::size_t kLongBytes = 16 * 1024;

using Reply = absl::StatusOr<RedisReply>;

Reply Ask(RedisClient& client, RedisCommand command) {
  return WaitFor<Reply>([&](auto done) { client.Send(std::move(command), std::move(done)); });
}

// Each master says what it is told, all at once.
absl::Status CheckLongWays(RedisClient& client, const std::vector<RedisAddress>& masters) {
  const std::string text(kLongBytes, 'k');
  std::vector<std::promise<Reply>> answers(masters.size());
  for (std::size_t index = 0; index < masters.size(); ++index) {
    client.Send({"", masters[index], {"EVAL", "return ARGV[1]", "0", text}, 0, kPatience},
                [&answers, index](const Reply& reply) { answers[index].set_value(reply); });
  }
  absl::Status worst;
  for (std::size_t index = 0; index < masters.size(); ++index) {
    const Reply reply = answers[index].get_future().get();
    if (reply.ok() && reply->text == text) continue;
    if (worst.ok()) {
      worst = reply.ok() ? NotUnderstood("a question of its health", reply) : reply.status();
    }
  }
  return worst;
}

}  // namespace

RedisWatch::RedisWatch(RedisClient* client, RedisWatchOptions options)
    : client_(*client), options_(std::move(options)), reachability_(options_.times) {}

RedisWatch::~RedisWatch() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void RedisWatch::Begin() {
  LookOnce();
  thread_ = std::thread([this] { Run(); });
}

void RedisWatch::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
}

absl::Status RedisWatch::fitness() const {
  const std::lock_guard lock(mutex_);
  return fitness_;
}

absl::Status RedisWatch::health() const {
  const std::lock_guard lock(mutex_);
  return fitness_.ok() ? reached_ : fitness_;
}

std::string RedisWatch::identity() const {
  const std::lock_guard lock(mutex_);
  return identity_;
}

void RedisWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, options_.interval, [this] { return is_stopping_; })) {
    lock.unlock();
    LookOnce();
    lock.lock();
  }
}

void RedisWatch::LookOnce() {
  const auto began = steady_clock::now();
  std::vector<RedisAddress> masters;
  const absl::Status reached = Reach(masters);
  if (absl::IsCancelled(reached)) return;
  // Nothing is said of what cannot be seen: it stays what it was.
  absl::Status fit = fitness();
  if (reached.ok()) {
    const std::uint64_t connect_count = client_.counters().connects;
    const bool is_new = masters != masters_ || connect_count != connect_count_;
    if (is_new || began >= next_rare_look_) {
      RedisMemory memory;
      rare_ = CheckEviction(client_, masters, memory);
      // Of one that does not answer nobody knows.
      if (!absl::IsUnavailable(rare_)) TakeMemory(memory);
      next_rare_look_ = began + options_.rare_interval;
      masters_ = std::move(masters);
      connect_count_ = connect_count;
    }
    fit = CheckIdentity();
    if (fit.ok() && absl::IsFailedPrecondition(rare_)) fit = rare_;
  }
  reachability_.Record(reached.ok(), began, steady_clock::now());
  Report(reached, fit, reachability_.is_lost());
}

absl::Status RedisWatch::Reach(std::vector<RedisAddress>& masters) {
  using Masters = absl::StatusOr<std::vector<RedisAddress>>;
  // All at once: whoever does not answer takes seconds.
  std::promise<Masters> answer;
  client_.ReadMasters([&](const Masters& read) { answer.set_value(read); }, kPatience);
  absl::Status status = CheckLongWays(client_, masters_);
  const Masters read = answer.get_future().get();
  // Seeds and replicas that are away make no difference while the masters answer.
  masters = read.ok() ? *read : masters_;
  if (masters.empty()) return read.status();
  if (masters != masters_) status = CheckLongWays(client_, masters);
  KERF_RETURN_IF_ERROR(status);
  return CheckQuorum(client_, masters);
}

// Whoever is first names it; the others find that name.
absl::Status RedisWatch::Name() {
  const redis::IndexIdentity wanted = redis::SuccessorOf(known_, redis::DrawIndexId());
  const Reply reply = Ask(client_, {kIdentityKey,
                                    std::nullopt,
                                    {"EVAL", std::string(redis_scripts::kName), "1", kIdentityKey,
                                     redis::FormatIdentity(wanted)},
                                    options_.replica_count,
                                    kPatience});
  // The next look finds it, or tries again.
  if (!reply.ok() || reply->kind != RedisReply::Kind::kText) return absl::OkStatus();
  KERF_ASSIGN_OR_RETURN(const redis::IndexIdentity seen, redis::ParseIdentity(reply->text));
  if (!known_.id.empty()) {
    Log(LogLevel::kWarning,
        Cat("the index in Redis does not know its name any more: it was emptied, or has come back "
            "without what it knew. It goes on as ",
            seen.id, " in the place of ", known_.id,
            "; what it has lost is uploaded again, or told by `kerf index rebuild`"));
  }
  Adopt(seen);
  return absl::OkStatus();
}

absl::Status RedisWatch::CheckIdentity() {
  const Reply reply =
      Ask(client_, {kIdentityKey, std::nullopt, {"GET", kIdentityKey}, 0, kPatience});
  if (!reply.ok()) return fitness();
  if (reply->kind == RedisReply::Kind::kNil) return Name();
  const auto seen = redis::ParseIdentity(reply->text);
  if (!seen.ok()) return absl::UnavailableError(ToAbsl(MessageOf(seen.status())));
  if (known_.id == seen->id) return absl::OkStatus();
  if (known_.id.empty()) {
    Adopt(*seen);
    return absl::OkStatus();
  }
  if (!redis::IsSameLine(known_, *seen)) {
    return absl::UnavailableError(
        ToAbsl(Cat("Redis has another index: ", seen->id, ", not ", known_.id,
                   "; look at --redis and at who has that address; if this one is meant, restart "
                   "kerfd")));
  }
  Log(LogLevel::kWarning,
      Cat("the index in Redis is ", seen->id, " now, in the place of ", known_.id));
  Adopt(*seen);
  return absl::OkStatus();
}

void RedisWatch::Adopt(const redis::IndexIdentity& seen) {
  const bool is_replaced = !known_.id.empty() && known_.id != seen.id;
  std::vector<std::string> ids = {seen.id};
  if (is_replaced) ids.push_back(known_.id);
  // What this process has lived with may come back.
  redis::IndexIdentity mine = seen;
  if (is_replaced) {
    mine.before = redis::SuccessorOf(known_, seen.id).before;
    std::erase(mine.before, seen.id);
  }
  ids.insert(ids.end(), mine.before.begin(), mine.before.end());
  known_ = std::move(mine);
  client_.ExpectIdentity(std::move(ids));
  {
    const std::lock_guard lock(mutex_);
    identity_ = seen.id;
  }
  if (is_replaced && options_.on_replaced) options_.on_replaced();
}

RedisMemory RedisWatch::memory() const {
  const std::lock_guard lock(mutex_);
  return memory_;
}

void RedisWatch::TakeMemory(const RedisMemory& memory) {
  bool was_full = false;
  {
    const std::lock_guard lock(mutex_);
    was_full = !memory_.full.empty();
    memory_ = memory;
  }
  if (!memory.full.empty() && !was_full) {
    Log(LogLevel::kError, DescribeFull(memory));
  } else if (memory.full.empty() && was_full) {
    Log(LogLevel::kInfo, "Redis has room for new entries again");
  }
}

void RedisWatch::Report(const absl::Status& reached, const absl::Status& fit, bool is_lost) {
  absl::Status was_reached;
  absl::Status was_fit;
  {
    const std::lock_guard lock(mutex_);
    was_reached = reached_;
    was_fit = fitness_;
    if (!is_lost) reached_ = absl::OkStatus();
    // One that is back for less than it must be is still lost, as it was.
    if (is_lost && !reached.ok()) {
      reached_ = absl::UnavailableError(
          ToAbsl(Cat("the index in Redis cannot be reached: ", MessageOf(reached))));
    }
    fitness_ = fit;
    if (is_stopping_) return;
  }
  if (!fit.ok() && fit != was_fit) {
    Log(LogLevel::kError, Cat("the index is not used: ", MessageOf(fit)));
  } else if (fit.ok() && !was_fit.ok()) {
    Log(LogLevel::kInfo, "the index is used again");
  }
  if (is_lost && was_reached.ok()) {
    Log(LogLevel::kError, Cat("the index in Redis cannot be reached: ", MessageOf(reached),
                              "; new uploads should go elsewhere"));
  } else if (!is_lost && !was_reached.ok()) {
    Log(LogLevel::kInfo, "the index in Redis can be reached again");
  }
}

}  // namespace kerf
