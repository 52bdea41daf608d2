// Compares the server's index with the store, while both may change.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/index/readable_index.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

struct IndexCheckProgress {
  // Entries of the index are read behind the chunks of the store.
  bool is_scanning = false;
  std::uint64_t done_count = 0;
  // Not known while the index is scanned.
  std::uint64_t total_count = 0;
};

struct IndexCheckOptions {
  // Before each batch; a status that is not OK ends the check.
  std::function<absl::Status(const IndexCheckProgress&)> on_progress;
  // Asked while it reads which chunks the store has, by any thread: the check ends there, too, with
  // Cancelled.
  std::function<bool()> is_cancelled;
};

// What an agent that believed the index would get wrong.
struct IndexFinding {
  enum class Kind {
    // The store does not hold it at all.
    kGone,
    // The store holds it, but not there: as an index does that was set back to before the chunk was
    // moved. Agents that ask their store where it is, as kerf does, do not mind.
    kElsewhere,
    // The store holds one of another length.
    kWrongLength,
  };
  Kind kind = Kind::kGone;
  // As the index has it.
  StoredChunk entry;
};

// That many are reported; all are counted.
inline constexpr std::size_t kMaxIndexFindings = 1000;

struct IndexCheckReport {
  // The store's at the end; the index's in the beginning.
  std::uint64_t store_epoch = 0;
  std::uint64_t index_epoch = 0;
  // The store's, copies not counted; each is one of the next six.
  std::uint64_t chunk_count = 0;
  std::uint64_t known_count = 0;
  std::uint64_t unverified_count = 0;
  // NEW.
  std::uint64_t missing_count = 0;
  // NEW, and that is right: a collection that runs, or has died, is about to delete them.
  std::uint64_t condemned_count = 0;
  // DUPLICATE, but at a place where the store does not hold it, or with another length.
  std::uint64_t elsewhere_count = 0;
  std::uint64_t wrong_length_count = 0;
  // The index's.
  std::uint64_t entry_count = 0;
  // Of them, what the store does not hold and the index calls DUPLICATE.
  std::uint64_t gone_count = 0;
  // The same, but UNVERIFIED: nobody believes it without a look.
  std::uint64_t outdated_count = 0;
  // Neither sound nor wrong for certain: collections ran beside the check all the time.
  std::uint64_t undecided_count = 0;
  // Packs whose chunks are not known because they cannot be read.
  std::uint64_t damaged_pack_count = 0;
  std::vector<IndexFinding> findings;

  // What may cost data.
  std::uint64_t damage_count() const { return gone_count + wrong_length_count; }
  // The store was set back to an older copy of itself: the index refuses all commits. The store is
  // told an epoch before the index is, so no collection beside the check looks like that.
  bool index_is_ahead() const { return index_epoch > store_epoch; }
  // What is not as it should be, and costs time at most.
  std::uint64_t flaw_count() const {
    return (index_is_ahead() ? 1 : 0) + missing_count + unverified_count + elsewhere_count +
           outdated_count + undecided_count;
  }
};

// Backups and collections may run meanwhile: what looks like damage is asked for again and counts
// only if no order of their steps can explain it. A chunk whose pack is sealed and whose commit is
// still under way counts as missing.
absl::StatusOr<IndexCheckReport> CheckIndex(const Store& store, ReadableIndex& index,
                                            const IndexCheckOptions& options);

}  // namespace kerf::agent
