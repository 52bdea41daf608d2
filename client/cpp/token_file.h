// The token by which a client tells servers who it is.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "base/trusted_socket.h"
#include "grpcpp/support/client_interceptor.h"

namespace kerf::client {

// Thread-safe.
class TokenFile {
 public:
  // The errors of reading name the file; InvalidArgument: it holds no token, which is one line of
  // visible ASCII, at most 8 KiB. Nothing of it ever stands in an error.
  static absl::StatusOr<std::shared_ptr<const TokenFile>> Open(const std::string& path);

  // As the file has it now, or if it has none as it last had it.
  std::string token() const;

 private:
  TokenFile(std::string path, std::string token)
      : path_(std::move(path)), token_(std::move(token)) {}

  const std::string path_;
  mutable std::mutex mutex_;
  mutable std::string token_;
};

// Shows the token with each call of a channel. To be used where nobody can read it on its way. With
// a socket the channel is one to its target, and the path is looked at before each call: nobody
// else ever gets the token.
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> ShowToken(
    std::shared_ptr<const TokenFile> file, std::shared_ptr<TrustedSocket> socket);

}  // namespace kerf::client
