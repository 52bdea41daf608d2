#include "server/access/base64_url.h"

#include "absl/strings/escaping.h"
#include "base/strings.h"

namespace kerf::access {

std::optional<std::string> DecodeBase64Url(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  if (text.find_first_not_of(kDigits) != std::string_view::npos) return std::nullopt;
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(ToAbsl(text), &bytes)) return std::nullopt;
  // One text for each: the library takes more.
  if (absl::WebSafeBase64Escape(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace kerf::access
