// What a collection of garbage means to delete: published before it deletes anything
// (docs/adr/0005).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"
#include "client/store/packs/chunk_index.h"

namespace kerf::agent {

// A pack that will go. A plain value.
struct PlannedPack {
  PackId id;
  // For each chunk of the footer: true if its bytes go with the pack, false if they are moved.
  std::vector<bool> condemned;
};

// A plain value.
struct CollectionPlan {
  // The epoch that the store has once the collection is done.
  std::uint64_t target_epoch = 0;
  // The index had gone back in time, or the store had: it may name chunks that are gone, whatever
  // epoch it has.
  bool index_is_behind = false;
  // Else an index that has this epoch names no chunk that is gone. Nothing: an earlier kerf has
  // written the plan.
  std::optional<std::uint64_t> min_index_epoch;
  // In ascending order of their ids.
  std::vector<PlannedPack> packs;

  // Null if the plan does not name the pack.
  const PlannedPack* Find(const PackId& pack) const;
  // True if the bytes at this place will be deleted and not moved.
  bool Condemns(const PackId& pack, std::uint32_t chunk_index) const;
  bool Condemns(const ChunkPlace& place) const {
    return Condemns(place.pack->id, place.chunk_index);
  }
};

// What the pack takes in the plan's file.
std::uint64_t PlannedBytes(std::size_t chunk_count);

std::vector<std::uint8_t> EncodeCollectionPlan(const CollectionPlan& plan);
// Takes any bytes. DataLoss says what is wrong with them, FailedPrecondition that a newer kerf
// wrote them.
absl::StatusOr<CollectionPlan> DecodeCollectionPlan(std::span<const std::uint8_t> bytes);

// Nothing if there is no plan. DataLoss names the file and how to mend it.
absl::StatusOr<std::optional<CollectionPlan>> ReadCollectionPlan(const std::string& path);
// Durable on return; replaces a plan that is there.
absl::Status WriteCollectionPlan(const std::string& path, const std::string& temporary_directory,
                                 const CollectionPlan& plan);
absl::Status RemoveCollectionPlan(const std::string& path);

}  // namespace kerf::agent
