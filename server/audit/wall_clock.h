// The machine's clock, for the times of records: people read them, and nothing goes by them.
#pragma once

#include <cstdint>
#include <string>

namespace kerf::audit {

// Since 1970, in UTC.
std::int64_t WallClockMs();

// RFC 3339 in UTC with milliseconds: "2026-11-25T20:43:47.123Z".
std::string FormatTime(std::int64_t unix_ms);

}  // namespace kerf::audit
