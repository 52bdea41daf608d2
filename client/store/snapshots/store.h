// A store: the folder in which agents keep packs and snapshots. docs/spec/store.md has its layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/snapshots/copies.h"
#include "client/store/snapshots/manifest.h"
#include "client/store/snapshots/pins.h"
#include "client/store/snapshots/reserve.h"
#include "client/store/snapshots/snapshot_list.h"
#include "kerf/store/v1/store.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// Small chunks, so that the metadata of unchanged files around a changed one is found again
// (docs/adr/0004).
inline constexpr std::string_view kMetadataProfile =
    "fastcdc2020:min=512,avg=2048,max=16384,level=1";

// What is not as it should be now of the store in `directory`, though it can be used.
std::vector<StoreFlaw> FindFlaws(const std::string& directory);

// Second copies that are gone though the store had them. Whoever opens it for writing makes them,
// so they are no flaw of what he opens; whoever only looks finds that one more loss takes the rest.
std::vector<StoreFlaw> FindMissingCopies(const std::string& directory);

// Any number of processes may use a store at once. Thread-safe.
class Store {
 public:
  // Opens `directory` and changes nothing. NotFound if there is no store, FailedPrecondition if
  // there is something else.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& directory);
  // Opens it for whoever is going to change it: makes what a store of kerf 0.1.0 has not, and notes
  // snapshots that nobody has noted. What cannot be made is a flaw.
  static absl::StatusOr<std::unique_ptr<Store>> OpenForWriting(const std::string& directory);
  // The same, or makes a store where nothing is or an empty directory.
  static absl::StatusOr<std::unique_ptr<Store>> OpenOrCreate(const std::string& directory,
                                                             std::string_view profile,
                                                             DigestAlgorithm digest_algorithm);

  const std::string& directory() const { return directory_; }
  const store::v1::StoreConfig& config() const { return config_; }
  DigestAlgorithm digest_algorithm() const {
    return static_cast<DigestAlgorithm>(config_.digest_algorithm());
  }
  const Manifest& manifest() const { return manifest_; }
  Pins pins() const { return Pins(directory_); }
  Reserve reserve() const { return Reserve(directory_); }
  // What was not as it should be when it was opened.
  const std::vector<StoreFlaw>& flaws() const { return flaws_; }
  std::string packs_directory() const { return directory_ + "/packs"; }
  std::string temporary_directory() const { return directory_ + "/tmp"; }
  std::string snapshots_directory() const { return directory_ + "/snapshots"; }
  // docs/adr/0005-publish-then-check.md; see pending.h.
  std::string pending_directory() const { return directory_ + "/pending"; }
  // Snapshots that were forgotten, and of which nothing was collected since.
  std::string forgotten_directory() const { return directory_ + "/forgotten"; }
  std::string plan_path() const { return directory_ + "/gc/plan"; }
  std::string collector_lock_path() const { return directory_ + "/locks/gc"; }

  // Raised by each collection of garbage; the first is 1.
  absl::StatusOr<std::uint64_t> ReadEpoch() const;
  // Durable on return. Only the collector, under its lock. Where the disk is full it spends the
  // reserve, as RemoveSnapshot does.
  absl::Status WriteEpoch(std::uint64_t epoch) const;

  // Where `directory` keeps the snapshot.
  static std::string SnapshotPath(const std::string& directory, std::string_view id) {
    return agent::SnapshotPath(directory, id);
  }
  // Durable on return. The id is filled in if it is empty.
  absl::Status WriteSnapshotTo(const std::string& directory, store::v1::Snapshot& snapshot) const;
  // Publishes: durable, visible and noted on return. The id is filled in if it is empty.
  absl::Status WriteSnapshot(store::v1::Snapshot& snapshot) const;
  // Notes a snapshot that is durable in `snapshots_directory`, durably.
  absl::Status NoteSnapshot(const store::v1::Snapshot& snapshot) const;
  // Makes or removes its note, durably, so that it is there if and only if the snapshot is.
  absl::Status SettleNote(const std::string& id) const;
  absl::StatusOr<SnapshotList> ListSnapshots() const;
  // Those that are published and not yet checked.
  absl::StatusOr<SnapshotList> ListPending() const;
  // Those that were forgotten and can be brought back.
  absl::StatusOr<SnapshotList> ListForgotten() const;
  // By id, by a prefix of an id that only one has, or "latest". NotFound, or InvalidArgument for a
  // prefix that several share; DataLoss for one that is damaged or gone, and for "latest" if such a
  // one may be newer.
  absl::StatusOr<store::v1::Snapshot> FindSnapshot(std::string_view name) const;
  // Pins it: nobody forgets it from then on. Durable on return. NotFound if it is not there, or is
  // being forgotten.
  absl::Status PinSnapshot(const store::v1::SnapshotPin& pin) const;
  // Moves it to those that were forgotten. Durable on return; OK if another one has done so.
  // FailedPrecondition if it is pinned.
  absl::Status RemoveSnapshot(const std::string& id) const;

 private:
  Store(std::string directory, store::v1::StoreConfig config, std::vector<StoreFlaw> flaws);

  absl::Status MakeWhatIsMissing(const ConfigCopies& configs, const EpochCopies& epochs) const;
  absl::Status NoteAll() const;
  absl::Status WriteEpochs(std::uint64_t epoch) const;
  absl::Status DescribePinned(const std::string& id) const;
  absl::Status RemoveNoted(const std::string& id,
                           const absl::StatusOr<store::v1::SnapshotNote>& note) const;

  const std::string directory_;
  const store::v1::StoreConfig config_;
  const Manifest manifest_;
  std::vector<StoreFlaw> flaws_;
};

}  // namespace kerf::agent
