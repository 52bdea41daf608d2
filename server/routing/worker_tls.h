// TLS from a front to its workers: what it shows them, and by what it knows them.
#pragma once

#include <grpcpp/security/credentials.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tls/tls_source.h"
#include "server/routing/worker_address.h"

namespace kerf::routing {

// Follows its files, as TlsSource does: what is of no use changes nothing. Thread-safe.
class WorkerTls {
 public:
  // `files.ca` is that of the workers. Workers have to be of `name`; empty: of the host by which
  // the operator calls each. The errors of TlsSource::Open.
  static absl::StatusOr<std::unique_ptr<WorkerTls>> Open(
      const TlsFiles& files, std::string name, TlsSource::OnReload on_reload,
      std::chrono::milliseconds interval = kTlsReloadInterval);

  // Of now: the same ones until the files change.
  std::shared_ptr<grpc::ChannelCredentials> credentials() const;
  const std::string& NameOf(const Endpoint& endpoint) const {
    return name_.empty() ? endpoint.host : name_;
  }
  std::shared_ptr<const TlsContext> current() const { return source_->current(); }
  // As TlsSource::Reload.
  absl::Status Reload() { return source_->Reload(); }

 private:
  WorkerTls(std::unique_ptr<TlsSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)) {}

  const std::unique_ptr<TlsSource> source_;
  const std::string name_;

  mutable std::mutex mutex_;
  mutable std::shared_ptr<const TlsContext> context_;
  // Made of `context_`.
  mutable std::shared_ptr<grpc::ChannelCredentials> credentials_;
};

}  // namespace kerf::routing
