// How calls have ended, or why they were not taken, by the reasons that server/errors has.
#pragma once

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "server/errors/errors.h"
#include "server/metrics/counters.h"
#include "server/metrics/page.h"

namespace kerf::metrics {

// Thread-safe.
class ReasonCounters {
 public:
  // A status that MakeError did not make is INTERNAL, unless it is OK or Cancelled.
  void Count(const absl::Status& status);

  std::uint64_t value(Reason reason) const {
    return by_reason_[static_cast<std::size_t>(reason)].value();
  }
  std::uint64_t ok() const { return ok_.value(); }

  // The label of each is its name in errors.h. OK and CANCELLED are left out if `ok_name` is empty:
  // of calls that were refused.
  void AddTo(Page& page, const Metric& metric, std::string_view ok_name = {}) const;

 private:
  Counter ok_;
  Counter cancelled_;
  std::array<Counter, kReasonCount> by_reason_;
};

}  // namespace kerf::metrics
