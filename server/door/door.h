// Where clients come in over TCP: a door stands before gRPC, which does not survive strangers
// (docs/adr/0019). It has bounds for all that one who connects may do before anything of kerf's has
// seen him, and passes each client's calls on over a connection of its own to gRPC.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "base/places.h"
#include "base/shared_budget.h"
#include "base/unique_fd.h"
#include "server/door/cancel_bound.h"
#include "server/door/door_loop.h"
#include "server/door/door_metrics.h"
#include "server/door/door_options.h"
#include "server/metrics/page.h"

namespace kerf::door {

// Thread-safe, but for Start and Stop, which are called once, in this order.
class Door {
 public:
  // Names of metadata, and what their values begin with.
  struct Headers {
    std::string peer;
    std::string seen;
    std::string stamp;
  };

  // `listeners`, which do not block, listen already. `serve` is given one end of each connection to
  // gRPC, and is called by the door's threads, until Stop returns; false: it is not taken.
  // `headers.peer` is put into the metadata of each call, with the stamp and the client's address
  // as its value; what a client has there itself is not passed on. The same of `headers.seen`, if
  // it is not empty, with how the client is seen (RelayContext).
  Door(const DoorOptions& options, std::vector<UniqueFd> listeners,
       std::function<bool(UniqueFd)> serve, const Headers& headers);
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door();

  // Takes connections when it returns.
  void Start();
  // Whoever connects is refused by the system from here on; calls go on.
  void StopAccepting();
  // Clients are told to go, and have `grace` for what they have left.
  void Stop(std::chrono::milliseconds grace);

  const DoorMetrics& metrics() const { return metrics_; }
  void AddMetrics(metrics::Page& page) const;
  // Of each thread, for tests.
  std::vector<std::size_t> client_counts() const;

 private:
  const DoorOptions options_;
  const std::vector<UniqueFd> listeners_;
  const std::function<bool(UniqueFd)> serve_;
  DoorMetrics metrics_;
  MemoryBudget memory_;
  SharedBudget windows_;
  CancelBound cancels_;
  Places places_;
  RelayContext context_;
  std::vector<std::unique_ptr<DoorLoop>> loops_;
};

}  // namespace kerf::door
