// What kerfd says of itself over HTTP: /metrics, /healthz, /readyz, and a page for people, from its
// start to its end, also while there is nothing else of it yet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/metrics/http_listener.h"
#include "server/metrics/page.h"

namespace kerf::metrics {

// What serves, as this sees it. Called from the port's thread.
struct Subject {
  // Not OK: why it takes no new calls, for people.
  std::function<absl::Status()> readiness;
  // Its metrics.
  std::function<void(Page& page)> add_metrics;
  // Not OK: why only a new start helps, for people. None: it lives as long as it answers.
  std::function<absl::Status()> liveness = nullptr;
};

// Who may read /metrics. The two others are for probes as well, of whom nobody has a certificate.
enum class MetricsReaders : std::uint8_t {
  kAnybody,
  // Peers that have shown a certificate of the port's TLS.
  kProven,
};

// Thread-safe.
class Port {
 public:
  // As HttpListener::Start. `role` is the label of kBuildInfo.
  static absl::StatusOr<std::unique_ptr<Port>> Open(
      const std::string& address, std::string_view role, const TlsSource* tls = nullptr,
      MetricsReaders readers = MetricsReaders::kAnybody);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const std::string& address() const { return listener_->address(); }

  // From here on; what was shown before is not called any more after the return.
  void Show(Subject subject);
  // The same with nothing to show, because it starts or has ended.
  void ShowNothing() { Show(Subject{}); }
  // It has been told to stop: no longer ready, whatever the subject says.
  void BeginDrain();

 private:
  Port(std::string_view role, MetricsReaders readers) : role_(role), readers_(readers) {}

  HttpAnswer Answer(const HttpQuestion& question);
  absl::Status ReadinessLocked() const;
  std::string PageLocked() const;

  const std::string role_;
  const MetricsReaders readers_;
  std::mutex mutex_;
  Subject subject_;
  bool is_draining_ = false;
  // Behind what its thread uses.
  std::unique_ptr<HttpListener> listener_;
};

}  // namespace kerf::metrics
