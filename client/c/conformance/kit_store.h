// The kit's store, as the store of an agent that is written over kerf.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/c/conformance/formats.h"
#include "client/c/conformance/kit.h"

namespace kerf::c::conformance {

// Each call is a question. For one thread at a time.
class KitStore {
 public:
  // One that is never collected stays at its first epoch (COL-7).
  KitStore(Kit& kit, bool is_collected) : kit_(kit), is_collected_(is_collected) {}

  // The epoch, then the plan (COL-2).
  absl::StatusOr<View> ReadView();

  // Where it is, if it is anywhere; in a place that no plan condemns, if there is one.
  struct Found {
    bool is_anywhere = false;
    std::string safe_locator;
  };
  absl::StatusOr<Found> Find(const View& view, const Chunk& chunk);
  absl::StatusOr<std::string> Put(std::string_view digest, std::string_view data);
  // All that was put, and the names of what was found (COL-19, COL-20), is durable. Behind a
  // failure it never is again (CLI-20).
  absl::Status Sync();

  absl::Status Publish(const std::string& name, std::string_view body);
  absl::Status Withdraw(const std::string& name);
  absl::Status Confirm(const std::string& name);

 private:
  Kit& kit_;
  const bool is_collected_;
  bool is_dirty_ = false;
  absl::Status sync_failure_;
};

}  // namespace kerf::c::conformance
