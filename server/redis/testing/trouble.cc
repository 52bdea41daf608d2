#include "server/redis/testing/trouble.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "server/redis/slot.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kWholeTimeout{60};
constexpr std::size_t kMasterCount = 3;
constexpr int kSlotsPerMove = 4;

void Say(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
}

}  // namespace

Trouble::Trouble(TestRedis* redis, TestRedis::Kind kind, milliseconds node_timeout, AnyKey any_key,
                 std::uint64_t seed)
    : redis_(*redis),
      is_cluster_(kind == TestRedis::Kind::kCluster),
      node_timeout_(node_timeout),
      any_key_(std::move(any_key)),
      random_(seed) {}

Trouble::~Trouble() { End(); }

void Trouble::MakeFor(std::chrono::seconds time) {
  Begin();
  std::this_thread::sleep_for(time);
  End();
}

void Trouble::Begin() {
  is_over_ = false;
  thread_ = std::thread([this] { MakeUntilEnd(); });
}

void Trouble::End() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Trouble::MakeUntilEnd() {
  while (true) {
    const std::vector<Master> masters = WaitUntilWhole();
    if (masters.empty()) return;
    {
      const std::lock_guard lock(mutex_);
      if (is_over_ && count_.load() > 0) return;
    }
    MakeOne(masters);
    ++count_;
    Pause(1);
  }
}

void Trouble::MakeOne(const std::vector<Master>& masters) {
  const Master& master = masters[random_.Below(masters.size())];
  switch (random_.Below(is_cluster_ ? 5 : 2)) {
    case 0:
      Say("kill " + master.node);
      redis_.Do({"kill", master.node});
      Pause(2);
      redis_.Do({"start", master.node});
      break;
    case 1:
      Say("pause " + master.node);
      redis_.Do({"pause", master.node});
      Pause(3);
      redis_.Do({"resume", master.node});
      break;
    case 2:
      if (master.replica.empty()) break;
      Say("failover " + master.node);
      FailOver(master);
      break;
    case 3:
      Replace(master);
      break;
    default:
      Move(master.node);
  }
}

// By its replica, which misses what it is told last.
void Trouble::Replace(const Master& master) {
  if (master.replica.empty()) return;
  Say(Cat("replace ", master.node, " by ", master.replica));
  redis_.Do({"kill", master.replica});
  Pause(1);
  redis_.Do({"kill", master.node});
  redis_.Do({"start", master.replica});
  const auto end = steady_clock::now() + kWholeTimeout;
  std::string output;
  // The other masters may not know yet that it is there.
  while (!redis_.Try({"failover", master.replica, "--force"}, output)) {
    // It took longer than the tool waits.
    if (MasterOf(master.replica) == master.replica) break;
    if (steady_clock::now() > end) {
      ADD_FAILURE() << "node " << master.replica << " does not take over: " << output;
      break;
    }
  }
  redis_.Do({"start", master.node});
}

// A master that has been slow for a moment may be replaced without us, at any time, and a replica
// that has been so is no longer known to live for a while.
void Trouble::FailOver(const Master& master) {
  const auto end = steady_clock::now() + kWholeTimeout;
  std::string output;
  while (!redis_.Try({"failover", master.node}, output)) {
    if (steady_clock::now() > end) {
      ADD_FAILURE() << "nobody takes over from node " << master.node << ": " << output;
      return;
    }
    const std::vector<Master> masters = WaitUntilWhole();
    const auto same = std::find_if(masters.begin(), masters.end(),
                                   [&](const Master& other) { return other.node == master.node; });
    if (same == masters.end() || same->replica.empty()) return;
  }
}

std::string Trouble::MasterOf(const std::string& number) {
  const auto status = nlohmann::json::parse(redis_.Do({"status", "--json"}));
  for (const auto& node : status["nodes"]) {
    if (std::to_string(node["node"].get<int>()) != number) continue;
    if (node["role"].get<std::string>() == "master") return number;
    if (!node["master"].is_null()) return std::to_string(node["master"].get<int>());
  }
  return "";
}

void Trouble::Move(const std::string& to) {
  for (int count = 0; count < kSlotsPerMove; ++count) {
    const std::string slot = std::to_string(RedisSlotOf(any_key_(random_)));
    Say(Cat("move ", slot, " to ", to));
    ++moves_;
    MoveSlot(slot, to);
    ++moves_;
  }
}

// A move that was broken off goes on to whoever is the master now where it went: what it has moved
// is there, and while the slot is open nobody else finds it.
void Trouble::MoveSlot(const std::string& slot, std::string to) {
  const auto end = steady_clock::now() + kWholeTimeout;
  std::string output;
  while (!redis_.Try({"move", slot, to}, output)) {
    if (steady_clock::now() > end) {
      ADD_FAILURE() << "slot " << slot << " does not move to node " << to << ": " << output;
      return;
    }
    if (WaitUntilWhole().empty()) return;
    if (const std::string master = MasterOf(to); !master.empty()) to = master;
    Say(Cat("move ", slot, " to ", to, " once more"));
  }
}

std::vector<Trouble::Master> Trouble::WaitUntilWhole() {
  const auto end = steady_clock::now() + kWholeTimeout;
  std::string last;
  while (steady_clock::now() < end) {
    last = redis_.Do({"status", "--json"});
    const auto status = nlohmann::json::parse(last);
    std::map<int, Master> masters;
    bool is_whole = status["whole"].get<bool>();
    for (const auto& node : status["nodes"]) {
      const auto role = node["role"].get<std::string>();
      const auto number = node["node"].get<int>();
      if (node["pid"].is_null() || role.find("failed") != std::string::npos) is_whole = false;
      if (role == "master" || role == "single") masters[number].node = std::to_string(number);
      if (role != "replica") continue;
      if (node["master"].is_null()) {
        is_whole = false;
      } else {
        masters[node["master"].get<int>()].replica = std::to_string(number);
      }
    }
    if (is_whole && masters.size() == (is_cluster_ ? kMasterCount : 1)) {
      std::vector<Master> all;
      all.reserve(masters.size());
      for (const auto& [number, master] : masters) all.push_back(master);
      return all;
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  ADD_FAILURE() << "the nodes do not become whole: " << last;
  return {};
}

void Trouble::Pause(int most) {
  const auto most_ms = static_cast<std::uint64_t>(most * node_timeout_.count());
  const milliseconds time(random_.Below(most_ms));
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return is_over_; });
}

}  // namespace kerf
