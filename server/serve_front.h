// kerfd --role=front, from its start to its end.
#pragma once

#include "absl/status/status.h"
#include "server/access/access_source.h"
#include "server/audit/sink.h"
#include "server/front/front_settings.h"
#include "server/lifecycle.h"
#include "server/lifecycle_settings.h"
#include "server/metrics/port.h"
#include "server/net/serving_settings.h"
#include "server/open_tls.h"

namespace kerf {

// Everybody may do everything if `access` is null. Returns when a signal has told it to stop.
// `port` shows how it is; null: there is none. `audit` is told of calls that the front refuses
// itself; it may be null. InvalidArgument and FailedPrecondition as FrontServer::Start says them.
absl::Status ServeFront(const FrontSettings& settings, const ServingSettings& serving,
                        const LifecycleSettings& lifecycle, const OpenedTls& tls,
                        const access::AccessSource* access, audit::Sink* audit,
                        Supervision& supervision, metrics::Port* port);

}  // namespace kerf
