// The index that the settings ask for.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "base/tls/tls_source.h"
#include "server/index/index.h"
#include "server/metrics/page.h"
#include "server/redis/redis_index.h"
#include "server/settings/settings.h"

namespace kerf {

struct OpenedIndex {
  std::unique_ptr<Index> index;
  // The same if it is in Redis, else null.
  RedisIndex* redis = nullptr;
};

// Opens or makes it, and logs what an operator should know about it. Waits for a Redis that is not
// there yet, for at most EdgeSettings::index_timeout, or until `is_cancelled` (Cancelled);
// `on_trouble` is told why, soon and again, and the log is, too.
// `redis_tls` as RedisOptionsOf takes it.
// FailedPrecondition for a folder or a Redis that cannot be used, and for a password file that
// cannot be read or that others may read.
absl::StatusOr<OpenedIndex> OpenIndex(const CuttingSettings& settings,
                                      std::shared_ptr<const TlsSource> redis_tls,
                                      std::function<bool()> is_cancelled,
                                      std::function<void(const absl::Status&)> on_trouble);

// Of Redis, if the index is there.
void AddMetrics(const OpenedIndex& opened, metrics::Page& page);

}  // namespace kerf
