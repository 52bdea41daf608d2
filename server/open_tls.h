// The TLS that settings ask for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tls/tls_source.h"
#include "server/front/front_settings.h"
#include "server/metrics/page.h"
#include "server/net/tls_settings.h"
#include "server/redis/redis_settings.h"
#include "server/reloader.h"
#include "server/routing/worker_tls.h"

namespace kerf {

struct OpenedTls {
  // Of what listens; null: it listens in the clear.
  std::unique_ptr<TlsSource> server;
  // Of metrics, whose clients may show a certificate where there is a CA for it, and need not: not
  // all of its pages are for those alone. Null as above.
  std::unique_ptr<TlsSource> metrics;
  // For the process to ask itself, whoever its clients have to be; null as above.
  std::shared_ptr<const TlsContext> self;
  // Of a front to its workers; null: in the clear.
  std::unique_ptr<routing::WorkerTls> workers;
  // To Redis; null: in the clear.
  std::shared_ptr<TlsSource> redis;
};

// What changes in the files is said in the log from here on. `metrics_client_ca` is that of who
// reads metrics; empty: they are asked for no certificate. The errors of TlsSource::Open. Without
// `workers` and `redis`, which are opened by those who have any.
absl::StatusOr<OpenedTls> OpenTls(const TlsSettings& settings,
                                  const std::string& metrics_client_ca);

// Of a front to its workers, to which it shows what `settings` has for its clients; null: it speaks
// to them in the clear. As OpenTls.
absl::StatusOr<std::unique_ptr<routing::WorkerTls>> OpenWorkerTls(const FrontSettings& front,
                                                                  const TlsSettings& settings);

// The same to Redis.
absl::StatusOr<std::shared_ptr<TlsSource>> OpenRedisTls(const RedisSettings& redis,
                                                        const TlsSettings& settings);

// Of all that `tls` has, which outlives them.
std::vector<ReloadedFiles> FilesOf(const OpenedTls& tls);

void AddMetrics(const OpenedTls& tls, metrics::Page& page);

}  // namespace kerf
