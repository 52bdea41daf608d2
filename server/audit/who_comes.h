// Whom a door asks who they are, and where it tells of those whom it does not let in: that of a
// front as that of a worker.
#pragma once

#include "server/access/gate.h"
#include "server/audit/sink.h"
#include "server/listener/grpc_listener.h"

namespace kerf::audit {

// Both outlive the listener that has the limits. A null `sink`: nobody is to be told.
void AskWhoComes(const access::Gate* gate, Sink* sink, TransportLimits* limits);

}  // namespace kerf::audit
