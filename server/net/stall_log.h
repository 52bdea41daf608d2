// How the log tells of streams and calls that wait for long.
#pragma once

#include <span>

#include "server/logging/logging.h"
#include "server/net/stall_watch.h"

namespace kerf {

// "stream waits" or "stream goes on", with the place, the time, and these fields. What the server
// itself or a front's worker is slow at is a warning, what a client may be the cause of is not.
// What a peer is the cause of, be it a client or a worker, is told at the level debug when it
// happens to the same stream again: whoever dribbles fills no log.
void LogStall(const StallWatch::News& news, std::span<const LogField> fields);

}  // namespace kerf
