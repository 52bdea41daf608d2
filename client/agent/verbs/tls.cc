// `kerf tls init`: keys and certificates for those who have no CA of their own.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/tls/certificate_facts.h"
#include "client/agent/tls/tls_folder.h"
#include "client/agent/verbs/shell_word.h"
#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

constexpr char kTlsExamples[] =
    "  kerf tls init /etc/kerf/tls --name backup.example --client laptop";
constexpr char kInitExamples[] =
    "  kerf tls init /etc/kerf/tls --name backup.example --name 10.1.2.3 --client laptop\n"
    "  kerf tls init /etc/kerf/tls --client desktop          one more, of the same CA\n"
    "The folder gets ca.pem and ca.key, a CA of its own; kerfd.pem and kerfd.key for the server; "
    "and\n"
    "NAME.pem and NAME.key for each client, who is kerf://client/NAME in it (a URI among the\n"
    "certificate's names). What is there already stays as it is. Keys are their owner's alone: "
    "give\n"
    "the server its two files and ca.pem, each client its own two and ca.pem, nobody ca.key.\n"
    "Before certificates end, move them away, run it again and put the new ones in their places:\n"
    "kerfd and kerf see it by themselves.";
constexpr int kMaxDays = 3650;
// Of the commands that are shown, unless a name is given.
constexpr char kAnyHost[] = "HOST";

std::string AbsolutePathOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  std::string result = error ? path : absolute.lexically_normal().string();
  while (result.size() > 1 && result.ends_with('/')) result.pop_back();
  return result;
}

std::int64_t NowSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

nlohmann::json JsonOf(const TlsPair& pair, const char* role) {
  return {{"role", role},
          {"name", pair.name},
          {"certificate", pair.certificate_path},
          {"key", pair.key_path},
          {"is_new", pair.is_new},
          {"names", pair.names},
          {"expires_unix_s", pair.expires_at_s}};
}

void Say(Reporter& reporter, const TlsPair& pair, const char* role) {
  reporter.Json("tls_pair", JsonOf(pair, role));
  std::string names;
  for (const std::string& name : pair.names) names += Cat(names.empty() ? ", for " : ", ", name);
  reporter.Line(Cat(pair.is_new ? "made  " : "there ", Printable(pair.certificate_path), " and ",
                    Printable(pair.key_path), ", until ", FormatCertificateTime(pair.expires_at_s),
                    Printable(names)));
  if (pair.expires_at_s > NowSeconds()) return;
  reporter.Warning(pair.certificate_path,
                   absl::FailedPreconditionError(Cat("its time is over: move it and ",
                                                     pair.key_path, " away, and run this again")));
}

std::string HostOf(const TlsPair& server) {
  for (const std::string& name : server.names) {
    if (name.find('*') == std::string::npos) {
      return name.find(':') == std::string::npos ? name : Cat("[", name, "]");
    }
  }
  return kAnyHost;
}

ExitCode Run(Context& context, const TlsFolderRequest& flags) {
  TlsFolderRequest request = flags;
  request.directory = AbsolutePathOf(flags.directory);
  const auto folder = FillTlsFolder(request);
  if (absl::IsNotFound(folder.status()) && flags.server_names.empty() && flags.clients.empty()) {
    return FailUsage(context, absl::InvalidArgumentError(
                                  "say for whom: --name HOST, at which the server is reached, "
                                  "--client NAME, or both"));
  }
  if (!folder.ok()) {
    return absl::IsInvalidArgument(folder.status()) ? FailUsage(context, folder.status())
                                                    : FailWith(context, folder.status());
  }
  Reporter& reporter = context.reporter;
  Say(reporter, folder->ca, "ca");
  std::string host = kAnyHost;
  std::string server_command;
  std::string client_command;
  const std::string ca = ShellWord(folder->ca.certificate_path);
  for (const TlsPair& pair : folder->pairs) {
    const bool is_server = pair.name == kServerName;
    Say(reporter, pair, is_server ? "server" : "client");
    const std::string files = Cat(" --tls-cert ", ShellWord(pair.certificate_path), " --tls-key ",
                                  ShellWord(pair.key_path));
    if (is_server) {
      host = HostOf(pair);
      server_command = Cat("kerfd --listen 0.0.0.0:7461 --data-dir /var/lib/kerfd", files,
                           " --tls-client-ca ", ca);
    } else if (client_command.empty()) {
      client_command = Cat("kerf ping --server ", host, ":7461 --tls-ca ", ca, files);
    }
  }
  if (!server_command.empty()) reporter.Line(Cat("\nThe server:\n  ", server_command));
  if (!client_command.empty()) {
    reporter.Line(Cat("\nA client, with copies of these three files:\n  ", client_command));
  } else if (!server_command.empty()) {
    reporter.Line(
        "\nWith --tls-client-ca it serves those alone who have a certificate of this CA: make them "
        "with --client NAME, or leave that flag out.");
  }
  reporter.Json("summary", {{"folder", request.directory},
                            {"server_command", server_command},
                            {"client_command", client_command}});
  return ExitCode::kOk;
}

}  // namespace

void AddTlsVerb(Context& context) {
  const Verb verb = AddVerb(context, "tls", "Make keys and certificates for TLS", kTlsExamples);
  verb.RequireVerb();
  const Verb init = verb.AddVerb("init", "Make a small CA, and certificates of it", kInitExamples);
  auto request = std::make_shared<TlsFolderRequest>();
  init.AddOption("folder", request->directory, "Where to put them; made if it is not there")
      .Check(RefuseEmpty)
      .Type("DIR")
      .Required();
  init.AddOption("--name", request->server_names,
                 "A host name or IP address at which clients reach the server (repeatable)")
      .Check(RefuseEmpty)
      .Repeat()
      .Type("HOST");
  init.AddOption("--client", request->clients,
                 "A client that is to have a certificate (repeatable)")
      .Check(RefuseEmpty)
      .Repeat()
      .Type("NAME");
  init.AddOption("--days", request->days, "How long new certificates are valid; the CA ten years")
      .Range(1, kMaxDays)
      .ShowDefault();
  init.OnRun([&context, request] { return Run(context, *request); });
}

}  // namespace kerf::agent
