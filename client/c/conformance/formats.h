// What this agent keeps in its store beside chunks: plans and snapshots (CLI-28, CLI-29).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

namespace kerf::c::conformance {

struct Chunk {
  std::string digest;
  std::uint32_t length_bytes = 0;
};

// What was read in the store before the first verdict (COL-2).
struct View {
  std::uint64_t epoch = 0;
  bool has_plan = false;
  // Locators.
  absl::flat_hash_set<std::string> condemned;
};

struct Recipe {
  std::string key;
  std::uint64_t size_bytes = 0;
  std::vector<Chunk> chunks;
  // Of the view that it was uploaded with. Of one that was kept nobody knows: it has none (COL-36).
  std::uint64_t epoch = 0;
  bool has_plan = true;
  // The highest that the index has told; 0: none (CLI-37).
  std::uint64_t index_epoch = 0;
};

// Fails where it is damaged, or of another version.
absl::StatusOr<absl::flat_hash_set<std::string>> ReadPlan(std::string_view body);
absl::StatusOr<std::vector<Recipe>> ReadSnapshot(std::string_view body);
std::string WriteSnapshot(const std::vector<Recipe>& recipes);

}  // namespace kerf::c::conformance
