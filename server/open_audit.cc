#include "server/open_audit.h"

#include "base/strings.h"

namespace kerf {
namespace {

// Of records that wait, beside those of calls under way.
constexpr std::size_t kOtherWaiting = 16'384;

}  // namespace

absl::StatusOr<std::unique_ptr<audit::Sink>> OpenAudit(const AuditSettings& settings,
                                                       const std::string& worker,
                                                       std::size_t max_calls) {
  if (settings.path.empty()) return std::unique_ptr<audit::Sink>();
  auto sink = audit::Sink::Open({.path = settings.path,
                                 .max_file_bytes = settings.max_file_bytes,
                                 .refuses = settings.refuses,
                                 .worker = worker,
                                 .max_waiting = max_calls + kOtherWaiting});
  if (!sink.ok()) return Annotate(sink.status(), "--audit");
  return sink;
}

void AddMetrics(const audit::Sink* sink, metrics::Page& page) {
  if (sink != nullptr) sink->AddMetrics(page);
}

}  // namespace kerf
