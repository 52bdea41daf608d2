// Until when a call of gRPC may take, by the clock that nobody sets: one of the machine's time
// would come early, or never, when that is set while the call is under way.
#pragma once

#include <grpc/support/time.h>

#include <chrono>

namespace kerf {

inline gpr_timespec DeadlineIn(std::chrono::milliseconds time) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(time.count(), GPR_TIMESPAN));
}

}  // namespace kerf
