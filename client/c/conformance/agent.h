// An agent over kerf.h, whose store is the kit's: uploads, snapshots, and what collection.md asks
// of who makes them. It collects nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/c/conformance/formats.h"
#include "client/c/conformance/kit.h"
#include "client/c/conformance/kit_store.h"
#include "client/c/kerf.h"

namespace kerf::c::conformance {

class Agent {
 public:
  explicit Agent(Kit& kit) : kit_(kit) {}
  ~Agent() { Close(); }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // What a line of the kit asks for; what it is told.
  absl::StatusOr<Json> Do(const Json& told);

 private:
  absl::Status Open(const Json& told);
  void Close();
  absl::StatusOr<Json> Upload(const std::string& key, bool seeks);
  absl::StatusOr<Json> Reuse(std::size_t number);
  absl::StatusOr<Json> Decode(const std::string& body);
  absl::Status Snapshot(const std::string& name, const Json& numbers);
  // Of COL-27 to COL-30: fails where a chunk is gone.
  absl::Status Check(const std::vector<Recipe>& recipes);
  absl::StatusOr<bool> IsThere(const View& view, const Recipe& recipe);
  std::size_t Keep(Recipe recipe);

  Kit& kit_;
  kerf_client* client_ = nullptr;
  std::unique_ptr<KitStore> store_;
  std::uint64_t commit_bytes_ = 0;
  std::vector<Recipe> recipes_;
};

}  // namespace kerf::c::conformance
