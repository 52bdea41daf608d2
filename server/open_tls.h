// The TLS that settings ask for.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/tls/tls_source.h"
#include "server/metrics/page.h"
#include "server/net/tls_settings.h"

namespace kerf {

struct OpenedTls {
  // Of what listens; null: it listens in the clear.
  std::unique_ptr<TlsSource> server;
  // Of metrics, whose clients show no certificate; null as above.
  std::unique_ptr<TlsSource> metrics;
  // For the process to ask itself, whoever its clients have to be; null as above.
  std::shared_ptr<const TlsContext> self;
};

// What changes in the files is said in the log from here on. The errors of TlsSource::Open.
absl::StatusOr<OpenedTls> OpenTls(const TlsSettings& settings);

void AddMetrics(const OpenedTls& tls, metrics::Page& page);

}  // namespace kerf
