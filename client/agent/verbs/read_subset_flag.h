// `kerf verify --read-data-subset N/M|SIZE|TIME`, and where the last run with it has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/check/read_subset.h"

namespace kerf::agent {

// "3/7", "20G" or "90m". InvalidArgument says what is wrong with anything else.
absl::StatusOr<ReadSubset> ParseReadSubset(std::string_view text);

// What is remembered of the verifications of one store. A plain value.
struct VerifyState {
  std::optional<PackId> read_up_to;
  // Of going once through all packs; 0: there was none yet.
  std::int64_t round_started_unix_ns = 0;
  std::int64_t round_finished_unix_ns = 0;
};

// $XDG_STATE_HOME/kerf/verify/ or ~/.local/state/kerf/verify/, and in it a file for each
// repository; empty if neither is known. It is the user's, not the store's: whoever may only read a
// store can verify it.
std::string VerifyStatePath(std::string_view repository);

// What was never written is a VerifyState() as well; DataLoss if it cannot be understood.
absl::StatusOr<VerifyState> ReadVerifyState(const std::string& path);
// Durable on return. Makes the folders that are missing.
absl::Status WriteVerifyState(const std::string& path, const VerifyState& state);

}  // namespace kerf::agent
