// The audit log that the settings ask for.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/audit/audit_settings.h"
#include "server/audit/sink.h"
#include "server/metrics/page.h"

namespace kerf {

// Null without --audit. `worker` is who writes it; `max_calls` how many he has under way at once.
// Errors are those of audit::ChainFile::Open.
absl::StatusOr<std::unique_ptr<audit::Sink>> OpenAudit(const AuditSettings& settings,
                                                       const std::string& worker,
                                                       std::size_t max_calls);

// `sink` may be null.
void AddMetrics(const audit::Sink* sink, metrics::Page& page);

}  // namespace kerf
