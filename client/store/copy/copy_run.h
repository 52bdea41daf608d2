// Copies snapshots, with all that they need, from one store into another.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/copy/chunk_transfer.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// As of now.
struct CopyProgress {
  std::uint64_t snapshots_done = 0;
  // Of the snapshots that have been walked through, content that was there already included.
  std::uint64_t files_done = 0;
  std::uint64_t bytes_done = 0;
};

enum class CopyOutcome : std::uint8_t {
  kCopied,
  // The other store had it.
  kWasThere,
  kFailed,
};

struct SnapshotCopy {
  std::string id;
  CopyOutcome outcome = CopyOutcome::kCopied;
  // Why it has failed. DataLoss: it, or something that it needs, is damaged or missing. NotFound:
  // it was forgotten meanwhile. AlreadyExists: the other store has another snapshot of that id.
  absl::Status status;
  // What it added to the other store, raw.
  std::uint64_t new_chunk_count = 0;
  std::uint64_t new_bytes = 0;
};

struct CopyOptions {
  TransferOptions transfer;
  // Published together once so many wait, or when they have filled a pack: each time costs the
  // store two packs.
  std::size_t max_unpublished = 64;
  // Called for each snapshot, from the thread of the run.
  std::function<void(const SnapshotCopy&)> on_snapshot;
  std::function<void(const CopyProgress&)> on_progress;
  // Tells the index of the other store's server, for a session of the epoch, of chunks that are
  // durable; null: nobody does.
  std::function<absl::Status(std::uint64_t epoch, std::span<const StoredChunk> chunks)> commit;
};

struct CopyReport {
  std::uint64_t copied_count = 0;
  std::uint64_t present_count = 0;
  std::uint64_t failed_count = 0;
  // Of those: because something is damaged.
  std::uint64_t damaged_count = 0;
  std::uint64_t new_chunk_count = 0;
  std::uint64_t new_bytes = 0;
  std::uint64_t stored_bytes = 0;
  // Why the server's index does not know all new chunks; no fault of the snapshots. OK if it does,
  // or was not to be told.
  absl::Status index_warning;
};

// OK if chunks of one mean the same in the other: FailedPrecondition for two digest algorithms, or
// for one store under two names.
absl::Status CheckCopyable(const Store& from, const Store& to);

// `snapshots` are of `from`, and are copied in their order, each with its id. Every chunk that is
// read is held against its digest. A snapshot becomes visible in `to` when all that it needs is
// durable there, and has been checked against collections, as that of a backup
// (docs/adr/0005-publish-then-check.md); what was stored before stays, so that a copying that broke
// off goes on from there. One that cannot be read is left out, and the others go on. An error if
// `to` cannot be written, Cancelled if it was interrupted, Aborted if collections were faster three
// times.
absl::StatusOr<CopyReport> CopySnapshots(const Store& from, const Store& to,
                                         std::span<const store::v1::Snapshot> snapshots,
                                         const CopyOptions& options);

// The same; `report` has also behind an error what was done before it.
absl::Status CopySnapshots(const Store& from, const Store& to,
                           std::span<const store::v1::Snapshot> snapshots,
                           const CopyOptions& options, CopyReport& report);

}  // namespace kerf::agent
