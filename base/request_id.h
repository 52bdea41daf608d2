// The id of a call, made by whoever makes the call and told by everybody whom it meets: one word to
// look for in the logs of a client, a front and a worker.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kerf {

// Of the call's metadata.
inline constexpr const char* kRequestIdMetadata = "kerf-request-id";
inline constexpr std::size_t kMaxRequestIdBytes = 64;

// 128 random bits, in hexadecimal.
std::string NewRequestId();

// Whether it is one that others may have made: 1 to kMaxRequestIdBytes of [A-Za-z0-9._-].
bool IsRequestId(std::string_view text);

}  // namespace kerf
