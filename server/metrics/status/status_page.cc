#include "server/metrics/status/status_page.h"

#include <cstdint>

extern "C" {
extern const char kerf_status_html_begin[];
extern const std::uint64_t kerf_status_html_size;
extern const char kerf_status_css_begin[];
extern const std::uint64_t kerf_status_css_size;
extern const char kerf_status_js_begin[];
extern const std::uint64_t kerf_status_js_size;
}

namespace kerf::metrics {

std::optional<StatusFile> FindStatusFile(std::string_view path) {
  if (path == "/") {
    return StatusFile{"text/html; charset=utf-8", {kerf_status_html_begin, kerf_status_html_size}};
  }
  if (path == "/status.css") {
    return StatusFile{"text/css; charset=utf-8", {kerf_status_css_begin, kerf_status_css_size}};
  }
  if (path == "/status.js") {
    return StatusFile{"text/javascript; charset=utf-8",
                      {kerf_status_js_begin, kerf_status_js_size}};
  }
  return std::nullopt;
}

}  // namespace kerf::metrics
