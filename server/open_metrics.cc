#include "server/open_metrics.h"

#include "base/status.h"
#include "base/strings.h"
#include "server/lifecycle.h"
#include "server/logging/logging.h"

namespace kerf {

absl::StatusOr<std::unique_ptr<metrics::Port>> OpenMetrics(const MetricsSettings& settings,
                                                           std::string_view role,
                                                           const TlsSource* tls) {
  if (settings.listen.empty()) return std::unique_ptr<metrics::Port>();
  auto port = metrics::Port::Open(settings.listen, role, tls,
                                  settings.client_ca.empty() ? metrics::MetricsReaders::kAnybody
                                                             : metrics::MetricsReaders::kProven);
  if (!port.ok()) return Annotate(port.status(), "--metrics-listen");
  Log(LogLevel::kInfo,
      Cat("metrics at http", tls == nullptr ? "" : "s", "://", (*port)->address(), "/metrics"));
  KERF_RETURN_IF_ERROR(
      WriteReadyFile("--metrics-ready-file", settings.ready_file, {(*port)->address()}));
  return port;
}

}  // namespace kerf
