#include "server/open_tls.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/tls/certificate_maker.h"
#include "server/logging/logging.h"
#include "server/metrics/catalog.h"

namespace kerf {
namespace {

// Of which the log begins to tell: whoever renews certificates has done so long before.
constexpr std::chrono::hours kSoon{24 * 7};
// Longer than any process runs.
constexpr std::chrono::hours kOwnTime{24 * 365 * 30};

void LogTime(const TlsContext& context) {
  const std::chrono::hours left = context.TimeLeft();
  if (left >= kSoon) return;
  Log(LogLevel::kWarning,
      left.count() < 0
          ? Cat("--tls-cert: the certificate's time is over: clients refuse it")
          : Cat("--tls-cert: the certificate's time ends in ", left.count(), " hours: renew it"));
}

void LogReload(std::string_view whose, const absl::Status& status) {
  if (!status.ok()) {
    return Log(LogLevel::kError,
               Cat(whose, " goes on with the files as they were: ", MessageOf(status)));
  }
  Log(LogLevel::kInfo,
      Cat(whose, " has changed with its files; open connections stay as they are"));
}

void OnReload(const absl::Status& status, const TlsContext& context) {
  LogReload("TLS", status);
  if (status.ok()) LogTime(context);
}

void WarnUnlessForClients(const std::string& whom, const TlsContext& context) {
  if (context.is_for_clients()) return;
  Log(LogLevel::kWarning,
      Cat("--tls-cert: the certificate is for servers alone (extendedKeyUsage without clientAuth): "
          "where TLS to ",
          whom, " asks for one, it is refused"));
}

TlsSource::OnReload TellsOf(const std::string& whom) {
  return [whom](const absl::Status& status, const TlsContext& context) {
    LogReload("TLS to " + whom, status);
    if (status.ok()) WarnUnlessForClients(whom, context);
  };
}

// What is shown to clients is shown to others, too; who they have to be, is another matter.
TlsFiles ClientFiles(const TlsSettings& settings, const std::string& ca) {
  return {.certificate = settings.files.certificate, .key = settings.files.key, .ca = ca};
}

}  // namespace

absl::StatusOr<OpenedTls> OpenTls(const TlsSettings& settings,
                                  const std::string& metrics_client_ca) {
  OpenedTls opened;
  if (settings.files.certificate.empty()) return opened;
  KERF_ASSIGN_OR_RETURN(const CertifiedKey own, MakeOwnCertificate({.common_name = "kerfd itself",
                                                                    .is_for_clients = true,
                                                                    .valid_for = kOwnTime}));
  KERF_ASSIGN_OR_RETURN(opened.server, TlsSource::Open({.side = TlsRules::Side::kHttp2Server,
                                                        .files = settings.files,
                                                        .is_certificate_optional =
                                                            settings.is_client_certificate_optional,
                                                        .also_trusted = own.certificate},
                                                       OnReload));
  // What changes is said by the one above, but of the CA, which only this one has.
  const TlsSource::OnReload tell = [](const absl::Status& status, const TlsContext& /*context*/) {
    LogReload("TLS of metrics", status);
  };
  KERF_ASSIGN_OR_RETURN(opened.metrics,
                        TlsSource::Open({.side = TlsRules::Side::kHttpServer,
                                         .files = ClientFiles(settings, metrics_client_ca),
                                         .is_certificate_optional = true},
                                        metrics_client_ca.empty() ? nullptr : tell));
  KERF_ASSIGN_OR_RETURN(opened.self,
                        TlsContext::Make({.side = TlsRules::Side::kClient},
                                         {.certificate = own.certificate, .key = own.key}));
  LogTime(*opened.server->current());
  return opened;
}

absl::StatusOr<std::unique_ptr<routing::WorkerTls>> OpenWorkerTls(const FrontSettings& front,
                                                                  const TlsSettings& settings) {
  if (front.worker_tls_ca.empty()) return nullptr;
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<routing::WorkerTls> opened,
                        routing::WorkerTls::Open(ClientFiles(settings, front.worker_tls_ca),
                                                 front.worker_tls_name, TellsOf("workers")));
  WarnUnlessForClients("workers", *opened->current());
  return opened;
}

absl::StatusOr<std::shared_ptr<TlsSource>> OpenRedisTls(const RedisSettings& redis,
                                                        const TlsSettings& settings) {
  if (redis.tls_ca.empty()) return nullptr;
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<TlsSource> opened,
                        TlsSource::Open({.side = TlsRules::Side::kClient,
                                         .files = ClientFiles(settings, redis.tls_ca)},
                                        TellsOf("Redis")));
  WarnUnlessForClients("Redis", *opened->current());
  return std::shared_ptr<TlsSource>(std::move(opened));
}

std::vector<ReloadedFiles> FilesOf(const OpenedTls& tls) {
  std::vector<ReloadedFiles> files;
  const auto add = [&](const char* name, auto* source) {
    if (source != nullptr) files.push_back({name, [source] { return source->Reload(); }});
  };
  add("TLS", tls.server.get());
  add("TLS of metrics", tls.metrics.get());
  add("TLS to workers", tls.workers.get());
  add("TLS to Redis", tls.redis.get());
  return files;
}

void AddMetrics(const OpenedTls& tls, metrics::Page& page) {
  if (tls.server == nullptr) return;
  page.Add(metrics::kTlsCertificateExpires,
           static_cast<std::uint64_t>(tls.server->current()->expires_at_s()));
}

}  // namespace kerf
