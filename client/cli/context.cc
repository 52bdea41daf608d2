#include "client/cli/context.h"

#include <optional>
#include <utility>

#include "base/small_file.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/cli/server_choice.h"
#include "client/cli/server_user.h"
#include "client/cpp/channel.h"
#include "client/cpp/tls_check.h"

namespace kerf::agent {
namespace {

// Its group may have to: a cluster hands out secrets so, and many let all users of a container read
// them, who are one. So it is no more than a warning.
void WarnIfOthersCanRead(Context& context, const std::string& path) {
  if (path.empty() || !IsOpenToAll(path)) return;
  context.reporter.Warning(
      path, absl::PermissionDeniedError("every user of this machine can read this secret: take "
                                        "that from them (chmod o=), and make a new one"));
}

}  // namespace

std::string_view ConnectionFailure(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return "";
  const std::string_view message = MessageOf(status);
  constexpr std::string_view kCause = "last error: ";
  if (message.starts_with("DNS resolution failed")) return "no such host";
  if (!message.starts_with("failed to connect to all addresses")) return "";
  const std::size_t cause = message.find(kCause);
  if (cause == std::string_view::npos) return message;
  std::string_view last = message.substr(cause + kCause.size());
  const auto drop = [&last] {
    const std::size_t colon = last.find(": ");
    if (colon != std::string_view::npos) last.remove_prefix(colon + 2);
  };
  // The name of a code.
  drop();
  // By which a socket was reached that was looked at (TrustedSocket).
  if (last.starts_with("unix:/proc/self/fd/")) drop();
  return last;
}

std::string RefuseEmpty(const std::string& value) {
  return value.empty() ? "it is empty: is a variable of your script unset?" : "";
}

void AddStoreOption(const Verb& verb, std::string& store) {
  verb.AddOption("--store", store, "The folder in which chunks and snapshots are kept")
      .Environment("KERF_STORE")
      .Check(RefuseEmpty)
      .Type("DIR")
      .Required();
}

void AddServerOption(const Verb& verb, ServerFlags& flags) {
  verb.AddOption("--server", flags.address,
                 Cat(kAnyServer,
                     "; own: one that kerf starts for itself, and ends. If it is left "
                     "out: ",
                     client::kDefaultServer,
                     " where root, a service or you listen there, "
                     "else own"))
      .Environment("KERF_SERVER")
      .Check(RefuseEmpty)
      .Type("ADDR");
  AddTlsOptions(verb, flags);
}

void AddPresentServerOption(const Verb& verb, ServerFlags& flags, const std::string& description) {
  flags.address = std::string(client::kDefaultServer);
  verb.AddOption("--server", flags.address, description)
      .Environment("KERF_SERVER")
      .Check(RefuseEmpty)
      .Type("ADDR")
      .ShowDefault();
  AddTlsOptions(verb, flags);
}

void AddTlsOptions(const Verb& verb, ServerFlags& flags) {
  verb.AddOption("--tls-ca", flags.tls.ca,
                 "Speak TLS to the server, whose certificate has to be of a CA in this file (PEM). "
                 "With --tls-cert alone: of one that the system knows. Unix sockets need no TLS")
      .Environment("KERF_TLS_CA")
      .Check(RefuseEmpty)
      .Type("FILE");
  verb.AddOption("--tls-cert", flags.tls.certificate,
                 "The certificate that tells the server who this is (PEM): `kerf tls init` makes "
                 "one. A new one in its place is seen")
      .Environment("KERF_TLS_CERT")
      .Check(RefuseEmpty)
      .Type("FILE");
  verb.AddOption("--tls-key", flags.tls.key, "Its key (PEM)")
      .Environment("KERF_TLS_KEY")
      .Check(RefuseEmpty)
      .Type("FILE");
  verb.AddOption("--tls-name", flags.tls_name,
                 "The name that the server's certificate has to be of, where that is not the host "
                 "of --server")
      .Environment("KERF_TLS_NAME")
      .Check(RefuseEmpty)
      .Type("NAME");
  verb.AddOption("--token-file", flags.token_file,
                 "A file whose one line is the token that tells the server who this is, where it "
                 "asks for one (kerfd --access): over TLS or a unix socket. A new one in its place "
                 "is seen")
      .Environment("KERF_TOKEN_FILE")
      .Check(RefuseEmpty)
      .Type("FILE");
  verb.AddOption("--server-user", flags.server_user,
                 "The user of kerfd, a name or a number, where it listens at a unix socket and is "
                 "neither root nor you: nobody else is shown the token")
      .Environment("KERF_SERVER_USER")
      .Check(RefuseEmpty)
      .Type("USER");
}

absl::StatusOr<client::ServerAddress> ServerOf(Context& context, const ServerFlags& flags) {
  for (const std::string& secret : {flags.tls.key, flags.token_file}) {
    WarnIfOthersCanRead(context, secret);
  }
  if (flags.tls.certificate.empty() != flags.tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert and --tls-key belong together: a certificate, and its key");
  }
  client::TlsChoice tls;
  if (!flags.tls.ca.empty() || !flags.tls.certificate.empty()) {
    KERF_ASSIGN_OR_RETURN(tls, client::TlsChoice::Make(flags.tls, flags.tls_name));
  } else if (!flags.tls_name.empty()) {
    return absl::InvalidArgumentError("--tls-name is for TLS: add --tls-ca");
  }
  if (!flags.token_file.empty()) {
    KERF_ASSIGN_OR_RETURN(auto token, client::TokenFile::Open(flags.token_file));
    std::optional<uid_t> server_user;
    if (!flags.server_user.empty()) {
      KERF_ASSIGN_OR_RETURN(server_user, ServerUserOf(flags.server_user));
    }
    tls = tls.WithToken(std::move(token), server_user);
  }
  std::string address = flags.address;
  if (address.empty() && (tls.is_tls() || tls.token() != nullptr)) {
    // Who proves who he is means a server that asks for it.
    address = std::string(client::kDefaultServer);
  }
  if (address.empty()) {
    KERF_ASSIGN_OR_RETURN(address, ChooseServer(context));
  } else if (address == kOwnServer) {
    KERF_ASSIGN_OR_RETURN(address, ChooseOwnKerfd(context));
  }
  return client::ServerAddress{std::move(address), std::move(tls)};
}

absl::Status StartOwnKerfd(Context& context) {
  return context.own_kerfd == nullptr ? absl::OkStatus() : context.own_kerfd->Start();
}

Verb AddVerb(Context& context, const std::string& name, const std::string& description,
             const std::string& examples) {
  return context.line.program().AddVerb(name, description, examples);
}

ExitCode FailWith(Context& context, const absl::Status& status) {
  context.reporter.Error(status);
  return ExitCodeOf(status);
}

ExitCode FailWithServer(Context& context, const absl::Status& met,
                        const client::ServerAddress& address) {
  // That asks the server, or one of names, once more.
  if (context.cancelled) return FailWith(context, met);
  const absl::Status status = client::ExplainByTls(met, address, /*cancellation=*/nullptr);
  const std::string_view failure = ConnectionFailure(status);
  if (failure.empty()) return FailWith(context, status);
  const std::string& server = address.text;
  if (context.own_kerfd != nullptr) {
    return FailWith(context,
                    absl::UnavailableError(Cat("the kerfd of kerf's own does not answer (", failure,
                                               "): see its log, ", context.own_kerfd->log_path())));
  }
  if (server.find(',') != std::string_view::npos) {
    return FailWith(context,
                    absl::UnavailableError(Cat("no kerfd answers at any of ", server,
                                               " (of the last one: ", failure,
                                               "): start one, or say with --server where it is")));
  }
  return FailWith(context,
                  absl::UnavailableError(Cat("no kerfd answers at ", server, " (", failure,
                                             "): start one with kerfd --listen ", server,
                                             " --data-dir DIR, or say with --server where it is")));
}

ExitCode FailUsage(Context& context, const absl::Status& status) {
  context.reporter.Error(status);
  return ExitCode::kUsage;
}

}  // namespace kerf::agent
