#include "server/routing/worker_tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "base/status.h"

namespace kerf::routing {
namespace {

// gRPC has a provider that watches files, and takes them as it finds them: with half of a pair, or
// half of a file, it connects to nobody until they are whole (1.51).
std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const TlsTexts& texts) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (texts.certificate.empty()) {
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::StaticDataCertificateProvider>(texts.ca));
  } else {
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
            texts.ca, std::vector<grpc::experimental::IdentityKeyCertPair>{
                          {.private_key = texts.key, .certificate_chain = texts.certificate}}));
    options.watch_identity_key_cert_pairs();
  }
  options.watch_root_certs();
  // The name of the connection is looked at; a call may have any authority.
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerTls>> WorkerTls::Open(const TlsFiles& files, std::string name,
                                                           TlsSource::OnReload on_reload,
                                                           std::chrono::milliseconds interval) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<TlsSource> source,
                        TlsSource::Open({.side = TlsRules::Side::kClient, .files = files},
                                        std::move(on_reload), interval));
  return std::unique_ptr<WorkerTls>(new WorkerTls(std::move(source), std::move(name)));
}

std::shared_ptr<grpc::ChannelCredentials> WorkerTls::credentials() const {
  const std::lock_guard lock(mutex_);
  if (std::shared_ptr<const TlsContext> now = source_->current(); now != context_) {
    credentials_ = CredentialsOf(now->texts());
    context_ = std::move(now);
  }
  return credentials_;
}

}  // namespace kerf::routing
