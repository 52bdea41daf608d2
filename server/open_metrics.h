// Opens the port for those who watch kerfd, as the settings want it.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "server/metrics/metrics_settings.h"
#include "server/metrics/port.h"

namespace kerf {

// `role` is what kerfd is; `tls` as HttpListener::Start takes it. Says in the log, and in
// --metrics-ready-file, where it is. Null without
// --metrics-listen. Errors are those of Port::Open, and FailedPrecondition for a file that cannot
// be written.
absl::StatusOr<std::unique_ptr<metrics::Port>> OpenMetrics(const MetricsSettings& settings,
                                                           std::string_view role,
                                                           const TlsSource* tls);

// While it lives, `port` shows what serves; `port` may be null, and outlives it, and so does what
// the subject refers to.
class ShownSubject {
 public:
  ShownSubject(metrics::Port* port, metrics::Subject subject) : port_(port) {
    if (port_ != nullptr) port_->Show(std::move(subject));
  }
  ShownSubject(const ShownSubject&) = delete;
  ShownSubject& operator=(const ShownSubject&) = delete;
  ~ShownSubject() {
    if (port_ != nullptr) port_->ShowNothing();
  }

 private:
  metrics::Port* const port_;
};

}  // namespace kerf
