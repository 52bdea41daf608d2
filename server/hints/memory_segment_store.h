// Segments in this process, gone with it.
#pragma once

#include <cstddef>
#include <memory>

#include "server/hints/segment_store.h"

namespace kerf {

// Holds about `capacity_bytes` at most; what has not been fetched or written for longest goes
// first. Every call is answered before it returns.
std::unique_ptr<SegmentStore> CreateMemorySegmentStore(std::size_t capacity_bytes);

}  // namespace kerf
