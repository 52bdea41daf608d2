// What a store says of its snapshots beside them, so that one that is lost is missed
// (docs/adr/0016-what-a-store-notices.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kerf/store/v1/store.pb.h"

namespace kerf::agent {

bool IsSnapshotId(std::string_view text);

// The note of a snapshot.
store::v1::SnapshotNote NoteOf(const store::v1::Snapshot& snapshot);

// A note for each snapshot that was published and not forgotten since, and the generation: a number
// that rises whenever a snapshot comes or goes. Thread-safe; any number of processes may use it.
class Manifest {
 public:
  // Of the store in `directory`.
  explicit Manifest(std::string_view directory);

  const std::string& directory() const { return directory_; }
  // False in a store of kerf 0.1.0, and where it was lost.
  bool IsThere() const;
  std::string NotePath(std::string_view id) const;

  // Ids that have a note, in order. NotFound if there is no manifest.
  absl::StatusOr<std::vector<std::string>> ListIds() const;
  // DataLoss for one that is damaged.
  absl::StatusOr<store::v1::SnapshotNote> Read(std::string_view id) const;
  bool Has(std::string_view id) const;
  // Durable on return.
  absl::Status Add(const store::v1::SnapshotNote& note) const;
  // Durable on return; OK if it is not there.
  absl::Status Remove(std::string_view id) const;

  // 0 if there is none yet.
  absl::StatusOr<std::uint64_t> ReadGeneration() const;
  // Durable on return. Of several that raise it at once each leaves it higher than it was.
  absl::Status RaiseGeneration() const;

 private:
  const std::string directory_;
  const std::string temporary_directory_;
};

}  // namespace kerf::agent
