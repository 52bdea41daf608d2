// Where servers are, and how they are spoken to.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"
#include "client/cpp/token_file.h"
#include "grpcpp/security/credentials.h"

namespace kerf::client {

// In the clear, or over TLS with the files of one client; and the token that says who it is. Copies
// share what they hold; thread-safe.
class TlsChoice {
 public:
  // In the clear.
  TlsChoice() = default;
  // Over TLS, to whatever is no unix socket. Of `files`, the certificate is that of the client. A
  // server's certificate has to be of `name`; empty: of its address's host. InvalidArgument and
  // errors of reading name the file that is wrong.
  static absl::StatusOr<TlsChoice> Make(const TlsFiles& files, const std::string& name);

  bool is_tls() const { return inner_ != nullptr; }
  // Nobody comes between the ends of a unix socket.
  bool IsFor(std::string_view server) const { return is_tls() && !server.starts_with("unix:"); }
  // The same for servers of another name; empty: for those whose names are those of their
  // addresses.
  TlsChoice WithName(std::string name) const;
  // The same for a client that shows this token, over TLS or unix sockets alone; and of these to
  // those alone where root listens, the client's own user, or `server_user`.
  TlsChoice WithToken(std::shared_ptr<const TokenFile> token,
                      std::optional<uid_t> server_user = std::nullopt) const;
  // Null: none is shown.
  const std::shared_ptr<const TokenFile>& token() const { return token_; }
  std::optional<uid_t> server_user() const { return server_user_; }

  // For gRPC. Files that were changed are seen by connections that are made later.
  std::shared_ptr<grpc::ChannelCredentials> credentials() const;
  // Only if is_tls(); with the CAs of the system where none were given.
  const TlsFiles& files() const;
  // Empty: that of the address.
  const std::string& name() const { return name_; }

 private:
  struct Inner;

  std::shared_ptr<const Inner> inner_;
  std::string name_;
  std::shared_ptr<const TokenFile> token_;
  std::optional<uid_t> server_user_;
};

struct ServerAddress {
  // One or several, with commas between them: see channel.h.
  std::string text;
  TlsChoice tls = {};
};

// What a certificate has to be of for a server at "HOST:PORT": the host, without the brackets of an
// IPv6 address.
std::string HostOfAddress(std::string_view server);

}  // namespace kerf::client
