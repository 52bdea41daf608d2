#include "server/metrics/port.h"

#include <optional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/version.h"
#include "server/logging/logging.h"
#include "server/metrics/process.h"
#include "server/metrics/status/status_page.h"

namespace kerf::metrics {
namespace {

constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kUnavailable = 503;

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> Port::Open(const std::string& address, std::string_view role,
                                                 const TlsSource* tls, MetricsReaders readers) {
  std::unique_ptr<Port> port(new Port(role, readers));
  const auto answer = [port = port.get()](const HttpQuestion& question) {
    return port->Answer(question);
  };
  KERF_ASSIGN_OR_RETURN(port->listener_, HttpListener::Start(address, HttpLimits{}, answer, tls));
  return port;
}

void Port::Show(Subject subject) {
  const std::lock_guard lock(mutex_);
  subject_ = std::move(subject);
}

void Port::BeginDrain() {
  const std::lock_guard lock(mutex_);
  is_draining_ = true;
}

absl::Status Port::ReadinessLocked() const {
  if (is_draining_) return absl::UnavailableError("draining");
  if (!subject_.readiness) return absl::UnavailableError("starting");
  return subject_.readiness();
}

std::string Port::PageLocked() const {
  Page page;
  page.Add(kBuildInfo, 1, {kVersion, role_});
  page.Add(kReady, ReadinessLocked().ok() ? 1 : 0);
  page.Add(kDraining, is_draining_ ? 1 : 0);
  AddProcess(page);
  page.Add(kLogLinesLost, LostLogLineCount());
  if (subject_.add_metrics) subject_.add_metrics(page);
  return page.text();
}

HttpAnswer Port::Answer(const HttpQuestion& question) {
  const std::string_view path = question.path;
  HttpAnswer answer;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (path == "/healthz") {
    // Whoever holds the lock for long must not look dead.
    const bool can_ask = lock.try_lock() && subject_.liveness != nullptr;
    const absl::Status liveness = can_ask ? subject_.liveness() : absl::OkStatus();
    answer.code = liveness.ok() ? answer.code : kUnavailable;
    answer.body = liveness.ok() ? "ok\n" : Cat("to be started anew: ", MessageOf(liveness), "\n");
    return answer;
  }
  if (path == "/metrics" && readers_ == MetricsReaders::kProven && !question.is_proven) {
    answer.code = kForbidden;
    answer.body = "for those who show a certificate of --metrics-client-ca\n";
    return answer;
  }
  if (const std::optional<StatusFile> file = FindStatusFile(path); file.has_value()) {
    answer.content_type = file->content_type;
    answer.content_security_policy = kStatusPolicy;
    answer.body = file->bytes;
    return answer;
  }
  lock.lock();
  if (path == "/metrics") {
    answer.content_type = std::string(kPageContentType);
    answer.body = PageLocked();
  } else if (path == "/readyz") {
    const absl::Status readiness = ReadinessLocked();
    answer.code = readiness.ok() ? answer.code : kUnavailable;
    answer.body = readiness.ok() ? "ready\n" : Cat("not ready: ", MessageOf(readiness), "\n");
  } else {
    answer.code = kNotFound;
    answer.body = "there are / (for people), /metrics, /healthz and /readyz\n";
  }
  return answer;
}

}  // namespace kerf::metrics
