// Base64 as in URLs, without padding (RFC 7515, appendix C).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kerf::access {

// Nothing: it has other characters, a length that no bytes give, or bits behind the last byte.
std::optional<std::string> DecodeBase64Url(std::string_view text);

}  // namespace kerf::access
