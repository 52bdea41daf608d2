#include "client/store/snapshots/tree_salvage.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/little_endian.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

// In a row: what is taken for the beginning of an entry is followed by more of them.
constexpr int kEntriesInARow = 3;
// In front of each entry; then come a path of at least two bytes with its length, and nine more
// fields.
constexpr std::size_t kLengthBytes = 4;
constexpr std::uint32_t kMinEntryBytes = 11;
// A longer entry is not searched for, only found where the one before says that it ends.
constexpr std::uint32_t kMaxSearchedBytes = std::uint32_t{64} << 20;
// What was read in vain may be so many times what was searched, and this beside it: a hostile store
// could make each byte the beginning of something that is almost an entry.
constexpr std::uint64_t kMaxWorkFactor = 256;
constexpr std::uint64_t kFreeWorkBytes = std::uint64_t{64} << 20;
constexpr std::uint32_t kMadeUpMode = 0700;
constexpr std::uint32_t kSetIdBits = S_ISUID | S_ISGID;

// False if no entry can begin with these bytes, of which there may be too few to tell.
bool MayBegin(std::span<const std::uint8_t> bytes, std::uint64_t left_bytes) {
  if (bytes.size() < kLengthBytes + 1) return true;
  const auto length = LoadLittleEndian<std::uint32_t>(bytes.data());
  if (length < kMinEntryBytes || length > kMaxSearchedBytes || length > left_bytes) return false;
  const std::uint8_t path_bytes = bytes[kLengthBytes];
  // Longer paths have a length of two bytes.
  if (path_bytes >= 0x80) return true;
  const std::size_t kind = kLengthBytes + 1 + path_bytes;
  if (path_bytes == 0 || path_bytes > length) return false;
  if (kind >= bytes.size()) return true;
  return bytes[kind] >= static_cast<std::uint8_t>(NodeKind::kFile) &&
         bytes[kind] <= static_cast<std::uint8_t>(NodeKind::kBlockDevice);
}

TreeEntry MakeUpDirectory(std::string path) {
  TreeEntry entry;
  entry.node.path = std::move(path);
  entry.node.kind = NodeKind::kDirectory;
  entry.node.mode = kMadeUpMode;
  entry.node.modified.seconds = std::time(nullptr);
  return entry;
}

}  // namespace

absl::Status DescribeGap(const TreeGap& gap) {
  const std::string begin = gap.behind.empty() ? "its beginning" : Cat("/", gap.behind);
  const std::string end = gap.before.empty() ? " up to the end" : Cat(" and before /", gap.before);
  return absl::DataLossError(
      ToAbsl(Cat("the snapshot's list of files is damaged: what it had behind ", begin, end,
                 " is lost (", gap.lost_bytes, " bytes): ", MessageOf(gap.cause))));
}

bool MayTouch(const TreeGap& gap, std::string_view subtree) {
  if (subtree.empty()) return true;
  const bool is_before = !gap.before.empty() && ComparePaths(gap.before, subtree) <= 0;
  const bool is_behind = ComparePaths(gap.behind, subtree) > 0 && !IsAtOrBelow(gap.behind, subtree);
  return !is_before && !is_behind;
}

bool IsPrivilege(const Xattr& xattr) {
  return xattr.name.starts_with("security.") || xattr.name.starts_with("trusted.");
}

Withheld WithholdRights(Node& node) {
  if (node.kind == NodeKind::kCharDevice || node.kind == NodeKind::kBlockDevice) {
    return Withheld::kNode;
  }
  const bool has_set_id = node.kind != NodeKind::kDirectory && (node.mode & kSetIdBits) != 0;
  if (has_set_id) node.mode &= ~kSetIdBits;
  const bool has_privilege = std::erase_if(node.xattrs, IsPrivilege) > 0;
  return has_set_id || has_privilege ? Withheld::kRights : Withheld::kNothing;
}

std::string DescribeWithheld(Withheld withheld) {
  return Cat(
      withheld == Withheld::kNode ? "this device" : "its set-id bits, capabilities or labels",
      " were left out: the entry was found behind a damaged place, where a user could have ",
      "planted one; --trust-salvaged leaves them in");
}

SalvagingTreeReader::SalvagingTreeReader(ChunkReader& reader, SharedRecipe recipe,
                                         std::size_t digest_size_bytes, std::size_t max_kept_chunks,
                                         std::function<void(const TreeGap&)> on_gap)
    : chunks_(reader),
      recipe_(std::move(recipe)),
      digest_size_bytes_(digest_size_bytes),
      max_kept_chunks_(max_kept_chunks),
      on_gap_(std::move(on_gap)) {
  ends_.reserve(recipe_->size());
  std::uint64_t end = 0;
  for (const ChunkRef& chunk : *recipe_) ends_.push_back(end += chunk.length_bytes);
  reader_.emplace(ReaderAt(0, max_kept_chunks_));
}

std::size_t SalvagingTreeReader::PieceAt(std::uint64_t offset) const {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), offset) -
                                  ends_.begin());
}

StreamSource SalvagingTreeReader::SourceAt(std::uint64_t offset) {
  struct State {
    std::size_t next;
    std::uint64_t skip_bytes;
    ChunkBytes current;
  };
  auto state = std::make_shared<State>();
  state->next = PieceAt(offset);
  state->skip_bytes = state->next == 0 ? offset : offset - EndOf(state->next - 1);
  return [this, state]() -> absl::StatusOr<std::span<const std::uint8_t>> {
    if (state->next >= recipe_->size()) return std::span<const std::uint8_t>();
    absl::StatusOr<ChunkBytes> bytes = chunks_.Read((*recipe_)[state->next]);
    if (!bytes.ok()) {
      failed_piece_ = state->next;
      return bytes.status();
    }
    ++state->next;
    state->current = *std::move(bytes);
    return state->current.bytes().subspan(std::exchange(state->skip_bytes, 0));
  };
}

TreeReader SalvagingTreeReader::ReaderAt(std::uint64_t offset, std::size_t max_kept_chunks) {
  return {SourceAt(offset), digest_size_bytes_, max_kept_chunks};
}

absl::StatusOr<bool> SalvagingTreeReader::Next(SalvagedEntry& next) {
  if (TakeWaiting(next)) return true;
  while (reader_.has_value()) {
    failed_piece_.reset();
    const absl::StatusOr<bool> more = reader_->Next(next.entry);
    if (!more.ok()) {
      if (absl::IsResourceExhausted(more.status())) return more.status();
      KERF_RETURN_IF_ERROR(Resynchronise(more.status()));
      continue;
    }
    if (!*more) break;
    const std::uint64_t offset = base_ + reader_->entry_offset();
    next.is_made_up = false;
    next.is_doubtful = is_doubtful_;
    if (std::optional<RecipePlace>& place = next.entry.long_recipe; place.has_value()) {
      // Counted from where the source begins.
      const std::size_t first = PieceAt(base_);
      if (place->piece_index == 0)
        place->offset_in_piece += base_ - (first == 0 ? 0 : EndOf(first - 1));
      place->piece_index += first;
    }
    CloseGap(next.entry.node.path, offset);
    waiting_parent_bytes_ = reader_->known_parent_bytes();
    if (waiting_parent_bytes_ == ParentOf(next.entry.node.path).size()) return true;
    waiting_ = std::move(next);
    return TakeWaiting(next);
  }
  CloseGap("", ends_.empty() ? 0 : ends_.back());
  return false;
}

bool SalvagingTreeReader::TakeWaiting(SalvagedEntry& next) {
  if (!waiting_.has_value()) return false;
  const std::string& path = waiting_->entry.node.path;
  if (waiting_parent_bytes_ == ParentOf(path).size()) {
    next = *std::exchange(waiting_, std::nullopt);
    return true;
  }
  waiting_parent_bytes_ = path.find('/', waiting_parent_bytes_ + 1);
  next = {MakeUpDirectory(path.substr(0, waiting_parent_bytes_)), true, waiting_->is_doubtful};
  return true;
}

void SalvagingTreeReader::CloseGap(const std::string& before, std::uint64_t offset) {
  if (!gap_.has_value()) return;
  gap_->before = before;
  gap_->lost_bytes = offset - gap_begin_;
  const TreeGap gap = *std::exchange(gap_, std::nullopt);
  if (on_gap_) on_gap_(gap);
}

void SalvagingTreeReader::ResumeAt(std::uint64_t offset) {
  TreeReader resumed = ReaderAt(offset, max_kept_chunks_);
  resumed.ResumeBehind(*reader_);
  reader_.emplace(std::move(resumed));
  base_ = offset;
}

absl::Status SalvagingTreeReader::Resynchronise(const absl::Status& cause) {
  const std::uint64_t begin = base_ + reader_->entry_offset();
  if (!gap_.has_value()) {
    gap_ = TreeGap{reader_->last_path(), "", 0, cause};
    gap_begin_ = begin;
  }
  const std::optional<std::size_t> failed_piece = failed_piece_;
  std::uint64_t search_begin = begin + 1;
  const std::uint64_t total_bytes = ends_.empty() ? 0 : ends_.back();
  if (reader_->entry_end().has_value()) {
    const std::uint64_t end = base_ + *reader_->entry_end();
    // What it says of itself is as sound as its digest; if it could be read and is no entry, it is
    // believed no more than any other place.
    const bool is_cut_off = failed_piece.has_value() && end >= EndOf(*failed_piece);
    bool is_next = is_cut_off && end < total_bytes;
    if (!failed_piece.has_value() && end < total_bytes) {
      KERF_ASSIGN_OR_RETURN(is_next, IsEntry(end));
    }
    if (is_next) {
      ResumeAt(end);
      return absl::OkStatus();
    }
    if (is_cut_off && end == total_bytes) search_begin = total_bytes;
  }
  if (failed_piece.has_value()) search_begin = std::max(search_begin, EndOf(*failed_piece));
  KERF_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> found, Search(search_begin));
  if (found.has_value()) {
    ResumeAt(*found);
    is_doubtful_ = true;
  } else {
    reader_.reset();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::uint64_t>> SalvagingTreeReader::Search(std::uint64_t begin) {
  const std::uint64_t total_bytes = ends_.empty() ? 0 : ends_.back();
  while (begin < total_bytes) {
    const std::size_t piece = PieceAt(begin);
    KERF_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> found, SearchPiece(begin, piece));
    if (found.has_value()) return found;
    begin = EndOf(piece);
  }
  return std::optional<std::uint64_t>();
}

absl::StatusOr<std::optional<std::uint64_t>> SalvagingTreeReader::SearchPiece(std::uint64_t offset,
                                                                              std::size_t piece) {
  const absl::StatusOr<ChunkBytes> bytes = chunks_.Read((*recipe_)[piece]);
  if (absl::IsResourceExhausted(bytes.status())) return bytes.status();
  if (!bytes.ok()) return std::optional<std::uint64_t>();
  const std::uint64_t end = EndOf(piece);
  for (; offset < end; ++offset) {
    ++searched_bytes_;
    if (work_bytes_ > kFreeWorkBytes + kMaxWorkFactor * searched_bytes_) break;
    if (!MayBegin(bytes->bytes().last(end - offset), ends_.back() - offset)) continue;
    KERF_ASSIGN_OR_RETURN(const bool is_entry, IsEntry(offset));
    if (is_entry) return std::optional<std::uint64_t>(offset);
  }
  return std::optional<std::uint64_t>();
}

absl::StatusOr<bool> SalvagingTreeReader::IsEntry(std::uint64_t offset) {
  TreeReader probe = ReaderAt(offset, 0);
  probe.ResumeBehind(*reader_);
  TreeEntry entry;
  failed_piece_.reset();
  for (int count = 0; count < kEntriesInARow; ++count) {
    const absl::StatusOr<bool> more = probe.Next(entry, [](const ChunkRef&) {});
    work_bytes_ += probe.read_bytes() - probe.entry_offset();
    if (absl::IsResourceExhausted(more.status())) return more.status();
    // The end, or the next place that cannot be read, may come early.
    if (!more.ok()) return failed_piece_.has_value() && count > 0;
    if (!*more) return count > 0;
  }
  return true;
}

}  // namespace kerf::agent
