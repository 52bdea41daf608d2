// Where segments are kept, for all workers and for later.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/fingerprint/digest.h"
#include "server/hints/scope.h"
#include "server/hints/segment.h"

namespace kerf {

// To be written.
struct StoredSegment {
  SegmentId id;
  // EncodeSegment: opaque to the store.
  std::string bytes;
  // Digests that lead to it from now on, whatever they led to before.
  std::vector<Digest> anchors;
};

// Thread-safe. Everything in it may be lost at any time, or be anything that somebody wrote there:
// values are believed for their seal alone. Calls return at once, or after as long as the leaf
// takes if that has no better way, and call `done` exactly once: from any thread, also before they
// return. `done` does not block. Arguments need not outlive the call.
class SegmentStore {
 public:
  // The segment that the anchor leads to, which need not be there (any more). Nothing if the anchor
  // is not known; an error if that cannot be told.
  using FindDone = std::function<void(const absl::StatusOr<std::optional<SegmentId>>& id)>;
  // What EncodeSegment made, and at most a byte more than kMaxSegmentBytes if somebody else did;
  // nothing if it is not there; an error if that cannot be told.
  using FetchDone = std::function<void(const absl::StatusOr<std::optional<std::string>>& bytes)>;
  // Whether they are written now; some of them may be if not. What is refused to keep the store
  // within its bounds is no error.
  using PutDone = std::function<void(const absl::Status& status)>;

  virtual ~SegmentStore() = default;

  // Apart from Fetch, because many anchors of one segment are asked for at a time.
  virtual void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) = 0;
  virtual void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) = 0;
  virtual void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) = 0;

  // "memory", "rocksdb", ...
  virtual std::string_view backend_name() const = 0;
};

}  // namespace kerf
