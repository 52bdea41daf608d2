// A store's configuration from what else the store holds, should both copies be lost.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/store/snapshots/snapshot_list.h"
#include "kerf/store/v1/store.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// Where the store's id may come from, but for its snapshots.
struct LostConfigHints {
  // What people say: the id, or that any will do.
  std::string id;
  bool new_id = false;
  std::vector<std::string> remembered_ids;
};

inline kerf::v1::DigestAlgorithm Number(DigestAlgorithm algorithm) {
  return static_cast<kerf::v1::DigestAlgorithm>(algorithm);
}

// Of all packs that can be read. NotFound if there is none, DataLoss if they differ.
absl::StatusOr<DigestAlgorithm> DigestAlgorithmOfPacks(const std::string& directory);

// FailedPrecondition says what is not known, and how to say it.
absl::StatusOr<store::v1::StoreConfig> RebuildStoreConfig(const std::string& directory,
                                                          const SnapshotList& checked,
                                                          const SnapshotList& pending,
                                                          const LostConfigHints& hints);

}  // namespace kerf::agent
