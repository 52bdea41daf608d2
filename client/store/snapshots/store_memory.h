// What a user's agents remember of the stores that they met, so that one that was set back to an
// older copy of itself is noticed (docs/adr/0016-what-a-store-notices.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// A small file for each store in a folder of the user. What cannot be written is not remembered:
// the store itself is no worse for it. Not thread-safe.
class StoreMemory {
 public:
  // $XDG_STATE_HOME/kerf/stores, else ~/.local/state/kerf/stores; empty without a home.
  static std::string UsualDirectory();
  // An empty `directory` remembers nothing.
  explicit StoreMemory(std::string directory) : directory_(std::move(directory)) {}

  // Remembers how far the store has come. DataLoss if it lies behind what is remembered, or did so
  // and nobody has accepted it since.
  absl::Status Meet(const Store& store) const;
  // What it is now is right.
  absl::Status Accept(const Store& store) const;
  // The highest epoch that the store was seen at; 0 if it was not.
  std::uint64_t EpochOf(std::string_view id) const { return Read(id).epoch(); }
  // Ids of stores that were met in this folder.
  std::vector<std::string> IdsOf(const std::string& store_directory) const;

 private:
  std::string PathOf(std::string_view id) const;
  store::v1::StoreMemory Read(std::string_view id) const;
  // What is remembered then, of all the agents of the user one at a time.
  absl::Status Change(std::string_view id,
                      const std::function<void(store::v1::StoreMemory&)>& change) const;

  const std::string directory_;
};

}  // namespace kerf::agent
