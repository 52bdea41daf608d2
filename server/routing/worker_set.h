// The workers of a cluster as one front sees them: who they are, who is alive, and which of them
// has a shard key. Fronts do not talk to each other: what they agree on are the members' names.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/net/name_resolver.h"
#include "server/routing/check_schedule.h"
#include "server/routing/outlier.h"
#include "server/routing/worker.h"
#include "server/routing/worker_address.h"

namespace kerf::routing {

// A bound on what a name server can make a front connect to; more are left out, and logged.
inline constexpr std::size_t kMaxWorkers = 1024;

struct WorkerSetOptions {
  // At least one.
  std::vector<WorkerAddress> workers;
  // Of this front, to each worker.
  CallCounts max_calls_per_worker{768, 192};
  // With which workers are spoken to over TCP; outlives the set. Null: in the clear.
  const WorkerTls* tls = nullptr;
  CheckTimes check_times;
  // Of one check.
  std::chrono::milliseconds check_timeout{1000};
  EjectionTimes ejection_times;
  // After which `on_unused` tells of a worker without the index of the others.
  std::chrono::milliseconds unused_grace{3000};
  // How often the names of groups are looked up. A lookup that fails changes nothing.
  std::chrono::milliseconds refresh{5000};
  LookUpHost look_up = LookUpHostInSystem;
  // Of the jitter.
  std::uint64_t seed = 1;
  // Told whenever there is a live worker where there was none, or the other way; by one thread.
  std::function<void(bool has_live)> on_liveness = nullptr;
  // Told of a worker that has gone without its index, or had another one, for some time while
  // others are well: what it has under way waits in vain. By the same thread.
  std::function<void(const std::string& name, const std::string& why)> on_unused = nullptr;
};

// A worker that has been chosen for a call.
struct Route {
  std::string name;
  CallPermit permit;
};

// Names of workers. A client names so many at most; more are not looked at.
using Avoid = std::vector<std::string_view>;
inline constexpr std::size_t kMaxAvoided = 8;

struct WorkerPlace {
  std::string name;
  std::string address;
  // Of which its certificate has to be; empty: it is spoken to in the clear.
  std::string tls_name = "";
};

struct WorkerState {
  // The name is empty if the worker is lost and its name not known; for a group of which nothing is
  // known the address is the group's.
  WorkerPlace place;
  // Why it has no calls; empty: it is alive.
  std::string lost;
};

// What a set has done since it was made.
struct WorkerSetWork {
  // Answers about the health of workers, and times out.
  std::uint64_t check_count = 0;
  // How often all that calls are routed by was found out and sorted anew: not for checks that find
  // everything as it was.
  std::uint64_t publish_count = 0;
};

// A worker's name is the address that the operator wrote, or, where he named a group, the name that
// it gives itself. Thread-safe.
class WorkerSet {
 public:
  explicit WorkerSet(WorkerSetOptions options);
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;
  // Checks that are under way end behind its back.
  ~WorkerSet();

  // Whether each worker that is known has been asked once within `patience`; groups of which
  // nothing is known count as workers that have not.
  bool WaitForFirstChecks(std::chrono::milliseconds patience) const;

  // The live worker that has the key, with a place for one call; an empty key has the worker with
  // the fewest calls of this kind. Those in `avoid` are passed over while there are others: a
  // client has met them, and got nowhere. NO_WORKER if none is alive, TOO_MANY_STREAMS or
  // TOO_MANY_CALLS if the one that has the key has no place, BAD_FIELD for a key that is none.
  absl::StatusOr<Route> Pick(std::string_view shard_key, CallKind kind,
                             const Avoid& avoid = {}) const;
  // The live worker of that name, with a place. NO_WORKER if there is none, TOO_MANY_STREAMS or
  // TOO_MANY_CALLS.
  absl::StatusOr<Route> PickNamed(std::string_view name, CallKind kind) const;
  // As Pick, without a place.
  absl::StatusOr<WorkerPlace> Locate(std::string_view shard_key, const Avoid& avoid = {}) const;

  // A call to the worker has failed on its way, or it says that it drains: asks for its health at
  // once.
  void Doubt(const Worker& worker);
  // A call to the worker has ended: whether it failed by the worker's fault, or went well. Of whose
  // calls fail one after the other the others get the keys for a while (outlier.h), but for half of
  // all workers at most.
  void Record(Worker& worker, bool is_well);

  // All that are known, for those who watch them: the live ones first, by name.
  std::vector<WorkerState> States() const;
  // Of workers with one name one counts.
  std::size_t live_count() const;
  // Also those that are not alive.
  std::size_t known_count() const;
  WorkerSetWork work() const;

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace kerf::routing
