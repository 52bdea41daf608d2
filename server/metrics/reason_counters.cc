#include "server/metrics/reason_counters.h"

namespace kerf::metrics {

void ReasonCounters::Count(const absl::Status& status) {
  if (status.ok()) {
    ok_.Add();
  } else if (status.code() == absl::StatusCode::kCancelled) {
    cancelled_.Add();
  } else {
    by_reason_[static_cast<std::size_t>(ReasonOf(status))].Add();
  }
}

void ReasonCounters::AddTo(Page& page, const Metric& metric, std::string_view ok_name) const {
  // Also what has not happened yet: whoever watches for a change sees the first one.
  if (!ok_name.empty()) {
    page.Add(metric, ok_.value(), {ok_name});
    page.Add(metric, cancelled_.value(), {"CANCELLED"});
  }
  for (std::size_t index = 0; index < kReasonCount; ++index) {
    page.Add(metric, by_reason_[index].value(), {InfoOf(static_cast<Reason>(index)).name});
  }
}

}  // namespace kerf::metrics
