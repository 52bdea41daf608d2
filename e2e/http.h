// What a program says over HTTP.
#pragma once

#include <chrono>
#include <string>

namespace kerf::e2e {

struct HttpAnswer {
  // 0: there was none.
  int code = 0;
  std::string body;
};

// `address` is HOST:PORT of this machine; a newline behind it does no harm.
HttpAnswer GetHttp(const std::string& address, const std::string& path,
                   std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace kerf::e2e
