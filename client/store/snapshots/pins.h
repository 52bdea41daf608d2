// Snapshots that nobody may forget.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kerf/store/v1/store.pb.h"

namespace kerf::agent {

// Of the store in `directory`. Thread-safe; any number of processes may use it.
class Pins {
 public:
  explicit Pins(std::string_view directory);

  // A pin that cannot be read is one all the same.
  bool Has(std::string_view id) const;
  // DataLoss for one that is damaged, NotFound if there is none.
  absl::StatusOr<store::v1::SnapshotPin> Read(std::string_view id) const;
  // Durable on return. Replaces one that is there.
  absl::Status Add(const store::v1::SnapshotPin& pin) const;
  // Durable on return. NotFound if it is not there.
  absl::Status Remove(std::string_view id) const;

  std::string PathOf(std::string_view id) const;

 private:
  const std::string directory_;
  const std::string temporary_directory_;
};

}  // namespace kerf::agent
