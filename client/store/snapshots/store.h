// A store: the folder in which agents keep packs and snapshots. docs/spec/store.md has its layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kerf/store/v1/store.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// A snapshot file that cannot be read.
struct DamagedSnapshot {
  std::string path;
  absl::Status status;
};

struct SnapshotList {
  // By the time at which they began, oldest first.
  std::vector<store::v1::Snapshot> snapshots;
  std::vector<DamagedSnapshot> damaged;
};

// Any number of processes may use a store at once. Thread-safe.
class Store {
 public:
  // Opens `directory`. NotFound if there is no store, FailedPrecondition if there is something
  // else.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& directory);
  // Opens it, or makes one where nothing is or an empty directory.
  static absl::StatusOr<std::unique_ptr<Store>> OpenOrCreate(const std::string& directory,
                                                             std::string_view profile,
                                                             DigestAlgorithm digest_algorithm);

  const std::string& directory() const { return directory_; }
  const store::v1::StoreConfig& config() const { return config_; }
  DigestAlgorithm digest_algorithm() const {
    return static_cast<DigestAlgorithm>(config_.digest_algorithm());
  }
  std::string packs_directory() const { return directory_ + "/packs"; }
  std::string temporary_directory() const { return directory_ + "/tmp"; }
  std::string snapshots_directory() const { return directory_ + "/snapshots"; }
  // docs/adr/0005-publish-then-check.md; see pending.h.
  std::string pending_directory() const { return directory_ + "/pending"; }
  std::string plan_path() const { return directory_ + "/gc/plan"; }
  std::string collector_lock_path() const { return directory_ + "/locks/gc"; }

  // Raised by each collection of garbage; the first is 1.
  absl::StatusOr<std::uint64_t> ReadEpoch() const;
  // Durable on return. Only the collector, under its lock.
  absl::Status WriteEpoch(std::uint64_t epoch) const;

  // Where `directory` keeps the snapshot.
  static std::string SnapshotPath(const std::string& directory, std::string_view id);
  // Durable on return. The id is filled in if it is empty.
  absl::Status WriteSnapshotTo(const std::string& directory, store::v1::Snapshot& snapshot) const;
  // Publishes: durable and visible on return. The id is filled in if it is empty.
  absl::Status WriteSnapshot(store::v1::Snapshot& snapshot) const;
  absl::StatusOr<SnapshotList> ListSnapshots() const;
  // Those that are published and not yet checked.
  absl::StatusOr<SnapshotList> ListPending() const;
  // By id, by a prefix of an id that only one has, or "latest". NotFound, or InvalidArgument for a
  // prefix that several share.
  absl::StatusOr<store::v1::Snapshot> FindSnapshot(std::string_view name) const;
  // Durable on return.
  absl::Status RemoveSnapshot(const std::string& id) const;

 private:
  Store(std::string directory, store::v1::StoreConfig config);

  const std::string directory_;
  const store::v1::StoreConfig config_;
};

}  // namespace kerf::agent
