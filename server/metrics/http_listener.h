// A small HTTP server for those who watch kerfd: a few pages, read whole, each made when it is
// asked for.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kerf {
class TlsSource;
}  // namespace kerf

namespace kerf::metrics {

struct HttpQuestion {
  // Without its query.
  std::string_view path;
  // Over TLS, and the peer has shown a certificate of one of the CAs of `tls`.
  bool is_proven = false;
};

struct HttpAnswer {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  // What a browser lets the answer do; empty: nothing is said of it.
  std::string content_security_policy = {};
};

struct HttpLimits {
  // A newer connection takes the place of the oldest one: whoever opens many and says nothing keeps
  // nobody else out.
  std::size_t max_connections = 64;
  // From its first byte to the last one of the answer; then it is closed.
  std::chrono::milliseconds connection_time{10'000};
  // Of the first line and the headers; more is answered 400.
  std::size_t max_request_bytes = 8 << 10;
};

// Answers GET and HEAD, one request a connection, in one thread of its own. Thread-safe.
class HttpListener {
 public:
  // What there is at a path; 404 is for it to say. Called from the listener's thread, which answers
  // nobody else meanwhile.
  using Handler = std::function<HttpAnswer(const HttpQuestion& question)>;

  // Serves when it returns. `address` is HOST:PORT, port 0 picks a free one. InvalidArgument for
  // one that is none, FailedPrecondition for one that cannot be had.
  // `tls` is a server's (kHttpServer), and outlives it; null: in the clear. With it the process
  // ignores SIGPIPE.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(const std::string& address,
                                                             const HttpLimits& limits,
                                                             Handler handler,
                                                             const TlsSource* tls = nullptr);
  virtual ~HttpListener() = default;

  // HOST:PORT, with the port that was picked.
  virtual const std::string& address() const = 0;
};

}  // namespace kerf::metrics
