// The hints that the settings ask for.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/tls/tls_source.h"
#include "server/hints/hint_cache.h"
#include "server/hints/segment_store.h"
#include "server/settings/settings.h"

namespace kerf {

struct OpenedHints {
  // Null: they stay in the cache.
  std::unique_ptr<SegmentStore> store;
  // Null: none are wanted.
  std::shared_ptr<HintCache> cache;
};

// Where the index is, so are the hints: in DIR/hints of --data-dir, in its Redis, or in memory.
// Makes DIR/hint.key if it is not there. A store that cannot be opened is done without. An error
// for a key that cannot be read or that others may read.
absl::StatusOr<OpenedHints> OpenHints(const CuttingSettings& settings,
                                      std::shared_ptr<const TlsSource> redis_tls);

}  // namespace kerf
