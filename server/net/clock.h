// What time it is, as far as deadlines and timeouts go.
#pragma once

#include <chrono>
#include <functional>

namespace kerf {

// Injected, so that tests decide how late it is.
using TimePoint = std::chrono::steady_clock::time_point;
using Clock = std::function<TimePoint()>;

}  // namespace kerf
