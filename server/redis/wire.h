// Commands as they go to Redis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kerf::redis {

// A command in Redis's protocol (RESP): an array of strings.
std::string FormatWire(const std::vector<std::string>& arguments);

// A key of no meaning in the slot of `key`.
std::string BarrierKeyOf(std::string_view key);

}  // namespace kerf::redis
