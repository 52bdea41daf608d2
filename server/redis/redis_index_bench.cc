// What the index costs in Redis: memory for each entry, and Redis's own CPU time for lookups and
// commits, and that of this process, which is kerfd's index and little else. One server, on
// loopback; KERF_BENCH_ENTRIES sets how many entries it gets (one million), KERF_BENCH_TLS=1 has it
// speak TLS.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/task.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatch = 1024;
constexpr std::size_t kInFlight = 8;
constexpr std::uint64_t kLookups = 2'000'000;
// As long as an agent's.
const std::string kLocator(20, 'p');
const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

Digest DigestOf(std::uint64_t number) {
  Digest digest;
  Random(number).Fill(digest.bytes);
  return digest;
}

double FieldOfInfo(RedisClient& client, const std::string& section, const std::string& name) {
  const auto reply = WaitFor<absl::StatusOr<RedisReply>>(
      [&](auto done) { client.Send({"", std::nullopt, {"INFO", section}}, std::move(done)); });
  KERF_CHECK(reply.ok());
  const std::size_t at = reply->text.find("\n" + name + ":");
  KERF_CHECK(at != std::string::npos);
  const std::size_t begin = at + name.size() + 2;
  double value = 0;
  KERF_CHECK(
      absl::SimpleAtod(reply->text.substr(begin, reply->text.find('\r', begin) - begin), &value));
  return value;
}

struct CpuSeconds {
  double user = 0;
  double system = 0;
};

CpuSeconds CpuOf(RedisClient& client) {
  return {FieldOfInfo(client, "cpu", "used_cpu_user"), FieldOfInfo(client, "cpu", "used_cpu_sys")};
}

double OwnCpuSeconds() {
  rusage usage{};
  KERF_CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Lets so many calls be under way.
class Window {
 public:
  void Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ < kInFlight; });
    ++count_;
  }
  void Give() {
    const std::lock_guard lock(mutex_);
    --count_;
    changed_.notify_all();
  }
  void WaitAll() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
};

struct Call {
  std::vector<Digest> digests = std::vector<Digest>(kBatch);
  std::vector<LookupResult> results = std::vector<LookupResult>(kBatch);
  std::vector<IndexEntry> entries;
};

// Calls `done` with the answer.
Detached Tell(Task<absl::Status> call, std::function<void(const absl::Status&)> done) {
  done(co_await call);
}

// Runs `begin` with a call and its `done`, kInFlight at a time, and says what it cost.
template <typename Begin>
void Measure(const char* what, RedisClient& client, std::uint64_t total, Begin begin) {
  const CpuSeconds before = CpuOf(client);
  const double own_before = OwnCpuSeconds();
  const Clock::time_point began = Clock::now();
  Window window;
  for (std::uint64_t first = 0; first < total; first += kBatch) {
    window.Take();
    auto call = std::make_shared<Call>();
    begin(first, *call, [call, &window](const absl::Status& status) {
      KERF_CHECK(status.ok());
      for (const LookupResult& result : call->results) {
        KERF_CHECK(!call->entries.empty() || result.verdict == Verdict::kDuplicate);
      }
      window.Give();
    });
  }
  window.WaitAll();
  const std::chrono::duration<double> wall = Clock::now() - began;
  const CpuSeconds after = CpuOf(client);
  const double user = after.user - before.user;
  const double system = after.system - before.system;
  const auto count = static_cast<double>(total);
  std::printf(
      "%s: %.0f a second, %.0f for each CPU second of Redis (%.0f %% in its kernel), %.0f of "
      "kerf\n",
      what, count / wall.count(), count / (user + system), 100 * system / (user + system),
      count / (OwnCpuSeconds() - own_before));
}

int Main() {
  std::signal(SIGPIPE, SIG_IGN);
  const char* text = std::getenv("KERF_BENCH_ENTRIES");
  const std::uint64_t asked = text != nullptr ? std::strtoull(text, nullptr, 10) : 1'000'000;
  const std::uint64_t total = std::max<std::uint64_t>(1, asked / kBatch) * kBatch;
  const char* const tls = std::getenv("KERF_BENCH_TLS");
  const bool with_tls = tls != nullptr && std::string(tls) == "1";
  const TestRedis redis(TestRedis::Kind::kSingle, "", 2000, TestRedis::Log::kEverySecond,
                        with_tls ? TestRedis::Tls::kYes : TestRedis::Tls::kNo);
  const auto client = *RedisClient::Create(redis.options());
  std::vector<std::string> warnings;
  const auto index = *RedisIndex::Open({redis.options(), 0}, &warnings);
  const double memory_before = FieldOfInfo(*client, "memory", "used_memory");
  Measure("commits", *client, total, [&](std::uint64_t first, Call& call, auto done) {
    for (std::size_t number = 0; number < kBatch; ++number) {
      call.entries.push_back({DigestOf(first + number), 8192, kLocator});
    }
    Tell(index->Commit(kRepository, 1, call.entries, false), std::move(done));
  });
  const double memory = FieldOfInfo(*client, "memory", "used_memory") - memory_before;
  std::printf("%llu entries: %.1f bytes each\n", static_cast<unsigned long long>(total),
              memory / static_cast<double>(total));
  Random random(1);
  Measure("lookups", *client, kLookups, [&](std::uint64_t, Call& call, auto done) {
    for (Digest& digest : call.digests) digest = DigestOf(random.Below(total));
    Tell(index->Lookup(kRepository, 1, call.digests, call.results), std::move(done));
  });
  // What Redis can do at all on this machine: the least command, one for each digest.
  Measure("GETs of missing keys", *client, kLookups,
          [&](std::uint64_t, Call& call, const auto& done) {
            call.entries.resize(1);
            auto left = std::make_shared<std::atomic<std::size_t>>(kBatch);
            for (std::size_t number = 0; number < kBatch; ++number) {
              RedisCommand command;
              command.key = Cat("k", random.Below(total));
              command.arguments = {"GET", command.key};
              client->Send(std::move(command), [left, done](const auto& reply) {
                KERF_CHECK(reply.ok());
                if (left->fetch_sub(1) == 1) done(absl::OkStatus());
              });
            }
          });
  return 0;
}

}  // namespace
}  // namespace kerf

int main() { return kerf::Main(); }
