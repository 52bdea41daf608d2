// What a front has passed on, for whoever watches it.
#pragma once

#include "server/metrics/counters.h"
#include "server/metrics/reason_counters.h"
#include "server/metrics/stall_counters.h"

namespace kerf {

// Thread-safe.
struct FrontMetrics {
  metrics::Counter started;
  metrics::ReasonCounters refused;
  // OK: with what the worker said, whatever that was.
  metrics::ReasonCounters ended;
  // Of messages.
  metrics::Counter to_worker_bytes;
  metrics::Counter to_client_bytes;
  metrics::Counter locates;
  metrics::StallCounters stalls;
};

}  // namespace kerf
