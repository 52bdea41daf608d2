// Reads what is left of a tree stream.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/recipe_stream.h"

namespace kerf::agent {

// Entries are lost between two that were read.
struct TreeGap {
  // The last path before it, and the first behind it; empty: the stream's beginning, or its end.
  std::string behind;
  std::string before;
  // Of the stream.
  std::uint64_t lost_bytes = 0;
  // Why the first of them could not be read.
  absl::Status cause;
};

// DataLoss, for people: between what, how much, and why.
absl::Status DescribeGap(const TreeGap& gap);
// False if nothing that is at or below the node's path can be missing there; empty: the whole tree.
bool MayTouch(const TreeGap& gap, std::string_view subtree);

struct SalvagedEntry {
  TreeEntry entry;
  // The entry itself is lost, and made up: a directory above the next one, of which nothing but the
  // path is known.
  bool is_made_up = false;
  // Its beginning, or that of an entry before it, was searched for and not known. It has all that
  // an entry has, but so can the value of an extended attribute: a user of the machine could have
  // planted it, for the day on which the store is damaged just there.
  bool is_doubtful = false;
};

// One that only root can set, by which a file or who runs it may do more than others.
bool IsPrivilege(const Xattr& xattr);

// What was taken from a doubtful entry.
enum class Withheld {
  kNothing,
  // Set-id bits, capabilities or labels.
  kRights,
  // All of it is a right.
  kNode,
};
// Takes away what would let a user become another one, had he made the entry up.
Withheld WithholdRights(Node& node);
// For people, of what is not kNothing.
std::string DescribeWithheld(Withheld withheld);

// As TreeReader, but goes on behind what cannot be read. An entry that lies in a chunk that is
// damaged is lost. Where it says itself where it ends, the next one begins there; else the next one
// is searched for, byte by byte behind the damage: some entries in a row that pass all of
// TreeReader's checks, in order behind the last path that was read. Not thread-safe.
class SalvagingTreeReader {
 public:
  // `reader` outlives it. `on_gap` may be empty.
  SalvagingTreeReader(ChunkReader& reader, SharedRecipe recipe, std::size_t digest_size_bytes,
                      std::size_t max_kept_chunks, std::function<void(const TreeGap&)> on_gap);
  SalvagingTreeReader(const SalvagingTreeReader&) = delete;
  SalvagingTreeReader& operator=(const SalvagingTreeReader&) = delete;

  // False at the end. ResourceExhausted where there is not enough memory; whatever else is wrong is
  // a gap.
  absl::StatusOr<bool> Next(SalvagedEntry& next);

 private:
  // The source from `offset` on; notes in failed_piece_ what cannot be read.
  StreamSource SourceAt(std::uint64_t offset);
  TreeReader ReaderAt(std::uint64_t offset, std::size_t max_kept_chunks);
  std::size_t PieceAt(std::uint64_t offset) const;
  std::uint64_t EndOf(std::size_t piece) const { return ends_[piece]; }

  // Behind an entry that could not be read: reader_ begins at the next one, or is nothing.
  absl::Status Resynchronise(const absl::Status& cause);
  // The offset of the next entry from `begin` on; nothing if there is none.
  absl::StatusOr<std::optional<std::uint64_t>> Search(std::uint64_t begin);
  // In what is left of a piece from `offset` on.
  absl::StatusOr<std::optional<std::uint64_t>> SearchPiece(std::uint64_t offset, std::size_t piece);
  absl::StatusOr<bool> IsEntry(std::uint64_t offset);
  void ResumeAt(std::uint64_t offset);
  void CloseGap(const std::string& before, std::uint64_t offset);
  // Gives `next` the directories above the entry that were lost, one at a time, and then it.
  bool TakeWaiting(SalvagedEntry& next);

  ChunkReader& chunks_;
  const SharedRecipe recipe_;
  const std::size_t digest_size_bytes_;
  const std::size_t max_kept_chunks_;
  const std::function<void(const TreeGap&)> on_gap_;
  // Behind each piece.
  std::vector<std::uint64_t> ends_;
  std::optional<std::size_t> failed_piece_;

  // Where reader_'s source begins.
  std::uint64_t base_ = 0;
  std::optional<TreeReader> reader_;
  std::optional<TreeGap> gap_;
  std::uint64_t gap_begin_ = 0;
  bool is_doubtful_ = false;
  // Of all searches: where they looked, and what they read in vain.
  std::uint64_t searched_bytes_ = 0;
  std::uint64_t work_bytes_ = 0;
  // What comes behind directories that are made up.
  std::optional<SalvagedEntry> waiting_;
  std::size_t waiting_parent_bytes_ = 0;
};

}  // namespace kerf::agent
