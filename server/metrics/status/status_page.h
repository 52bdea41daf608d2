// What a person sees who opens kerfd's HTTP port in a browser: a page that shows what /metrics of
// the same port says. All of it is inside the program; nothing comes from elsewhere.
#pragma once

#include <optional>
#include <string_view>

namespace kerf::metrics {

// Lives as long as the program.
struct StatusFile {
  const char* content_type;
  std::string_view bytes;
};

// The page's file at `path` ("/" is the page); nothing: it has none there. Pure.
std::optional<StatusFile> FindStatusFile(std::string_view path);

// The Content-Security-Policy of them all: whatever came into the page could neither run nor fetch
// nor send anything.
inline constexpr char kStatusPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

}  // namespace kerf::metrics
