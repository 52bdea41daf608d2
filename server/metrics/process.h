// What the system says of this process.
#pragma once

#include "server/metrics/page.h"

namespace kerf::metrics {

// The process_ metrics; one that the system does not say is left out.
void AddProcess(Page& page);

}  // namespace kerf::metrics
