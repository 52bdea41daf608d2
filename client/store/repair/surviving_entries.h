// What is left of a snapshot's metadata streams, as another snapshot can have it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/repair/tree_repair.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/snapshots/tree_salvage.h"

namespace kerf::agent {

// An identity stream of which chunks may be lost: each identity stands at a known place.
class SurvivingIdentities {
 public:
  // `reader` outlives it.
  SurvivingIdentities(ChunkReader& reader, std::vector<ChunkRef> recipe);
  SurvivingIdentities(const SurvivingIdentities&) = delete;
  SurvivingIdentities& operator=(const SurvivingIdentities&) = delete;

  // Of the next entry. Where it is lost, or the stream is over, all of it is zero, and with that
  // its ctime, which is never the same as another.
  absl::StatusOr<NodeIdentity> Next();
  // Why the first one that is lost is; OK: none was so far.
  const absl::Status& damage() const { return damage_; }

 private:
  absl::StatusOr<std::span<const std::uint8_t>> NextPiece();

  ChunkReader& reader_;
  const std::vector<ChunkRef> recipe_;
  std::size_t next_chunk_ = 0;
  std::uint64_t given_bytes_ = 0;
  std::uint64_t read_bytes_ = 0;
  ChunkBytes current_;
  std::vector<std::uint8_t> zeros_;
  // Of the stream, from and to, in order; those that lie behind what was read.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> lost_;
  absl::Status damage_;
  IdentityReader identities_;
};

// Not thread-safe.
class SurvivingEntries {
 public:
  using Sink = std::function<absl::Status(const TreeEntry& entry, const NodeIdentity& identity)>;

  // All outlive it. DataLoss if the snapshot's recipes make no sense.
  static absl::StatusOr<std::unique_ptr<SurvivingEntries>> Make(
      const store::v1::Snapshot& snapshot, std::size_t digest_size_bytes, const ChunkIndex& index,
      ChunkReader& reader, const TreeRepairOptions& options, bool without_lost_content);

  // First: looks for damage. OK if there is none.
  absl::Status Examine(absl::Status& damage);
  // Gives what a new snapshot has, in order, and says in `report` what it has not.
  absl::Status Visit(const Sink& sink, RepairedTree& report);
  // The chunks of a file, long recipes too.
  absl::Status VisitRecipe(const TreeEntry& entry, const ChunkVisitor& visit);
  // All entries are there; behind Examine.
  bool is_whole() const { return is_whole_; }

 private:
  SurvivingEntries(const store::v1::Snapshot& snapshot, SharedRecipe tree,
                   std::vector<ChunkRef> identity, std::size_t digest_size_bytes,
                   const ChunkIndex& index, ChunkReader& reader, const TreeRepairOptions& options,
                   bool without_lost_content);

  SalvagingTreeReader OpenTree(std::function<void(const TreeGap&)> on_gap);
  absl::Status CheckCancelled() const;
  absl::StatusOr<bool> HasLostContent(const TreeEntry& entry);
  // False if it is left out.
  absl::StatusOr<bool> Admit(SalvagedEntry& next, RepairedTree& report);

  const store::v1::Snapshot& snapshot_;
  const SharedRecipe tree_;
  const std::vector<ChunkRef> identity_;
  const std::size_t digest_size_bytes_;
  const ChunkIndex& index_;
  ChunkReader& reader_;
  const TreeRepairOptions& options_;
  const bool without_lost_content_;
  bool is_whole_ = true;
  // What further names point to; and of that, what the new snapshot has.
  absl::flat_hash_set<std::string> link_targets_;
  absl::flat_hash_set<std::string> kept_targets_;
};

}  // namespace kerf::agent
