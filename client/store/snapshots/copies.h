// The two small files without which a store is of no use, config and epoch, are kept twice
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

// A file of the store that is not as it should be, though the store can be used without it.
struct StoreFlaw {
  std::string path;
  absl::Status status;
  // Who opened it for writing was to make it, and could not.
  bool was_not_made = false;
};

// Where `directory`, a store, keeps its small files.
std::string ConfigPath(std::string_view directory);
std::string EpochPath(std::string_view directory);
std::string CopiesDirectory(std::string_view directory);
std::string ConfigCopyPath(std::string_view directory);
std::string EpochCopyPath(std::string_view directory);

// Both copies of one of them. NotFound: it is not there.
struct ConfigCopies {
  absl::StatusOr<store::v1::StoreConfig> config;
  absl::StatusOr<store::v1::StoreConfig> copy;
};
struct EpochCopies {
  absl::StatusOr<std::uint64_t> epoch;
  absl::StatusOr<std::uint64_t> copy;
};
ConfigCopies ReadConfigCopies(const std::string& directory);
EpochCopies ReadEpochCopies(const std::string& directory);

// `config` counts; the other one only where `config` is damaged or gone. NotFound if neither is
// there. A file of a newer kerf is never passed over.
absl::StatusOr<store::v1::StoreConfig> ChooseConfig(const ConfigCopies& copies);
// The higher one counts: the epoch only rises, and one of them may be a step behind, or damaged.
absl::StatusOr<std::uint64_t> ChooseEpoch(const EpochCopies& copies);

// What is wrong with the one that does not count. A second copy that is not there is no flaw:
// kerf 0.1.0 made none.
std::vector<StoreFlaw> FlawsOf(const std::string& directory, const ConfigCopies& configs,
                               const EpochCopies& epochs);

// Durable on return. `temporary_directory` is that of the store.
absl::Status WriteConfigFile(const std::string& path, const std::string& temporary_directory,
                             const store::v1::StoreConfig& config);
absl::Status WriteEpochFile(const std::string& path, const std::string& temporary_directory,
                            std::uint64_t epoch);
// The same for a file that is new: one that is there already stays.
absl::Status AddConfigFile(const std::string& path, const std::string& temporary_directory,
                           const store::v1::StoreConfig& config);
absl::Status AddEpochFile(const std::string& path, const std::string& temporary_directory,
                          std::uint64_t epoch);

}  // namespace kerf::agent
