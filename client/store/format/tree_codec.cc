#include "client/store/format/tree_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/fs/path.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

constexpr std::uint8_t kFlagSparse = 1;
constexpr std::uint8_t kFlagHardLink = 2;
constexpr std::uint8_t kFlagXattrs = 4;
constexpr std::uint8_t kKnownFlags = kFlagSparse | kFlagHardLink | kFlagXattrs;
constexpr std::size_t kLengthBytes = 4;

// Unsigned LEB128.
void PutVarint(std::vector<std::uint8_t>& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::uint8_t>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::uint8_t>(value));
}

// Small for small values of either sign.
std::uint64_t ZigZag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t UnZigZag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

void PutText(std::vector<std::uint8_t>& out, const std::string& text) {
  PutVarint(out, text.size());
  out.insert(out.end(), text.begin(), text.end());
}

absl::Status Damaged(std::string_view path, std::string_view what) {
  return absl::DataLossError(Cat("tree stream, entry '", path, "': ", what));
}

// The longest that a number, and the fields of fixed number, take.
constexpr std::uint64_t kMaxVarintBytes = 10;
constexpr std::uint64_t kMaxFixedFieldsBytes = 16 * kMaxVarintBytes;
// Each has a name of at least one byte.
constexpr std::size_t kMaxXattrCount = kMaxXattrListBytes / 2;

// Reads the fields of one entry from the stream as it comes; once one is out of bounds, `ok` is
// false and all further ones are zero.
class FieldReader {
 public:
  FieldReader(StreamPosition& position, std::uint64_t length_bytes)
      : position_(position), rest_(position.rest), left_bytes_(length_bytes) {}

  std::uint8_t Byte() {
    if (!Available(1)) return 0;
    const std::uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    --left_bytes_;
    return byte;
  }
  std::uint64_t Varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && ok_; shift += 7) {
      const std::uint8_t byte = Byte();
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return ok_ ? value : 0;
    }
    ok_ = false;
    return 0;
  }
  std::uint32_t Varint32() {
    const std::uint64_t value = Varint();
    if (value > UINT32_MAX) ok_ = false;
    return static_cast<std::uint32_t>(value);
  }
  void Bytes(std::uint8_t* out, std::size_t count) {
    Pieces(count, [&](std::span<const std::uint8_t> piece) {
      std::memcpy(out, piece.data(), piece.size());
      out += piece.size();
    });
  }
  void Text(std::string& out, std::size_t max_bytes) {
    out.clear();
    const std::uint64_t size = Varint();
    if (size > max_bytes) ok_ = false;
    Pieces(size, [&](std::span<const std::uint8_t> piece) {
      out.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
    if (!ok_) out.clear();
  }
  // A number of things that take at least `min_bytes` each.
  std::uint64_t Count(std::size_t min_bytes, std::uint64_t max_count) {
    const std::uint64_t count = Varint();
    if (count > max_count || count > left_bytes_ / min_bytes) ok_ = false;
    return ok_ ? count : 0;
  }
  void Skip(std::size_t count) {
    Pieces(count, [](std::span<const std::uint8_t>) {});
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && left_bytes_ == 0; }
  // The stream ended before the field did.
  bool stream_ended() const { return stream_ended_; }
  const absl::Status& source_status() const { return source_status_; }
  // Where the next field begins, if it is a recipe's.
  RecipePlace PlaceOf(std::uint64_t chunk_count) const {
    return {position_.given_count - 1, position_.piece_bytes - rest_.size(), chunk_count};
  }

 private:
  // Makes some of the next `count` bytes lie in rest_.
  bool Available(std::uint64_t count) {
    if (!ok_ || count > left_bytes_) {
      ok_ = false;
      return false;
    }
    if (!rest_.empty()) return true;
    absl::StatusOr<std::span<const std::uint8_t>> bytes = position_.source();
    if (bytes.ok()) {
      ++position_.given_count;
      position_.given_bytes += bytes->size();
      position_.piece_bytes = bytes->size();
      rest_ = *bytes;
    } else {
      source_status_ = std::move(bytes).status();
    }
    stream_ended_ = rest_.empty();
    ok_ = !stream_ended_;
    return ok_;
  }
  template <typename Take>
  void Pieces(std::uint64_t count, Take take) {
    while (count > 0 && Available(count)) {
      const auto piece = rest_.first(std::min<std::uint64_t>(rest_.size(), count));
      take(piece);
      rest_ = rest_.subspan(piece.size());
      left_bytes_ -= piece.size();
      count -= piece.size();
    }
  }

  StreamPosition& position_;
  // position_'s.
  std::span<const std::uint8_t>& rest_;
  std::uint64_t left_bytes_;
  bool ok_ = true;
  bool stream_ended_ = false;
  absl::Status source_status_;
};

// All lists grow by what has been read, never by the count that stands in front of them.
void DecodeXattrs(FieldReader& reader, std::vector<Xattr>& xattrs) {
  std::size_t list_bytes = 0;
  std::size_t values_bytes = 0;
  for (std::uint64_t count = reader.Count(2, kMaxXattrCount); count > 0 && reader.ok(); --count) {
    Xattr& xattr = xattrs.emplace_back();
    reader.Text(xattr.name, kMaxXattrNameBytes);
    reader.Text(xattr.value, kMaxXattrValueBytes);
    list_bytes += xattr.name.size() + 1;
    values_bytes += xattr.value.size();
    if (list_bytes > kMaxXattrListBytes || values_bytes > kMaxXattrValuesBytes) reader.Fail();
  }
}

absl::Status DecodeExtents(FieldReader& reader, Node& node, std::uint64_t& content_bytes) {
  std::uint64_t end = 0;
  for (std::uint64_t count = reader.Count(2, kMaxExtentCount); count > 0; --count) {
    Extent extent;
    extent.offset = reader.Varint();
    extent.length_bytes = reader.Varint();
    if (!reader.ok()) break;
    if (extent.offset < end || extent.offset > node.size_bytes || extent.length_bytes == 0 ||
        extent.length_bytes > node.size_bytes - extent.offset) {
      return Damaged(node.path, "its extents do not lie in order within the file");
    }
    end = extent.offset + extent.length_bytes;
    content_bytes += extent.length_bytes;
    node.extents.push_back(extent);
  }
  return absl::OkStatus();
}

// Zero of length if the reader is not ok behind it.
ChunkRef DecodeChunk(FieldReader& reader, std::size_t digest_size_bytes) {
  ChunkRef chunk;
  chunk.length_bytes = reader.Varint32();
  reader.Bytes(chunk.digest.bytes.data(), digest_size_bytes);
  if (!reader.ok()) chunk.length_bytes = 0;
  return chunk;
}

// What becomes of the chunks of a recipe.
struct RecipeUse {
  std::size_t digest_size_bytes = 0;
  // If it is empty, they are kept in the entry,
  const ChunkVisitor& visit;
  // unless they are more than this.
  std::size_t max_kept_chunks = 0;
};

absl::Status DecodeRecipe(FieldReader& reader, const RecipeUse& use, std::uint64_t content_bytes,
                          TreeEntry& entry) {
  const std::string& path = entry.node.path;
  const std::uint64_t max_count = kMaxEntryBytes / (kMaxVarintBytes + use.digest_size_bytes);
  std::uint64_t count = reader.Count(1 + use.digest_size_bytes, max_count);
  const bool keep = !use.visit && count <= use.max_kept_chunks;
  if (!use.visit && !keep) entry.long_recipe = reader.PlaceOf(count);
  std::uint64_t covered_bytes = 0;
  for (; count > 0; --count) {
    const ChunkRef chunk = DecodeChunk(reader, use.digest_size_bytes);
    if (!reader.ok()) break;
    if (chunk.length_bytes == 0) return Damaged(path, "it has an empty chunk");
    // A longer one that repeats would cost a hostile store nothing.
    if (chunk.length_bytes > kMaxMaxBytes) {
      return Damaged(path, Cat("it has a chunk of ", chunk.length_bytes, " bytes; no profile cuts ",
                               "more than ", kMaxMaxBytes));
    }
    if (chunk.length_bytes > content_bytes - covered_bytes) {
      return Damaged(path, Cat("its recipe covers more than its ", content_bytes, " bytes"));
    }
    covered_bytes += chunk.length_bytes;
    if (use.visit) use.visit(chunk);
    if (keep) entry.recipe.push_back(chunk);
  }
  if (reader.ok() && covered_bytes != content_bytes) {
    return Damaged(path, Cat("its recipe covers ", covered_bytes, " of ", content_bytes, " bytes"));
  }
  return absl::OkStatus();
}

void DecodeHardLink(FieldReader& reader, Node& node) {
  reader.Text(node.hard_link_to, kMaxTreePathBytes);
  if (node.hard_link_to.empty()) reader.Fail();
}

absl::Status DecodeFile(FieldReader& reader, std::uint8_t flags, const RecipeUse& use,
                        TreeEntry& entry) {
  Node& node = entry.node;
  node.size_bytes = reader.Varint();
  if ((flags & kFlagHardLink) != 0) {
    DecodeHardLink(reader, node);
    return absl::OkStatus();
  }
  std::uint64_t content_bytes = node.size_bytes;
  if (node.sparse) {
    content_bytes = 0;
    KERF_RETURN_IF_ERROR(DecodeExtents(reader, node, content_bytes));
  }
  return DecodeRecipe(reader, use, content_bytes, entry);
}

absl::Status DecodeEntry(FieldReader& reader, const RecipeUse& use, TreeEntry& entry) {
  Node& node = entry.node;
  entry.recipe.clear();
  entry.long_recipe.reset();
  node.extents.clear();
  node.xattrs.clear();
  node.hard_link_to.clear();
  node.link_target.clear();
  node.size_bytes = 0;
  node.device_number = 0;
  reader.Text(node.path, kMaxTreePathBytes);
  const std::uint8_t kind = reader.Byte();
  const std::uint8_t flags = reader.Byte();
  node.kind = static_cast<NodeKind>(kind);
  node.sparse = (flags & kFlagSparse) != 0;
  node.mode = reader.Varint32();
  node.uid = reader.Varint32();
  node.gid = reader.Varint32();
  reader.Text(node.user, kMaxOwnerNameBytes);
  reader.Text(node.group, kMaxOwnerNameBytes);
  node.modified.seconds = UnZigZag(reader.Varint());
  node.modified.nanoseconds = reader.Varint32();
  if (node.kind == NodeKind::kSymlink) reader.Text(node.link_target, kMaxTreePathBytes);
  if (node.kind == NodeKind::kCharDevice || node.kind == NodeKind::kBlockDevice) {
    node.device_number = reader.Varint();
  }
  if ((flags & kFlagXattrs) != 0) DecodeXattrs(reader, node.xattrs);
  if (node.kind == NodeKind::kFile) {
    KERF_RETURN_IF_ERROR(DecodeFile(reader, flags, use, entry));
  } else if ((flags & kFlagHardLink) != 0) {
    DecodeHardLink(reader, node);
  }
  const bool is_linked_directory =
      (flags & kFlagHardLink) != 0 && node.kind == NodeKind::kDirectory;
  if (!reader.done() || kind < static_cast<std::uint8_t>(NodeKind::kFile) ||
      kind > static_cast<std::uint8_t>(NodeKind::kBlockDevice) || (flags & ~kKnownFlags) != 0 ||
      (node.sparse && node.kind != NodeKind::kFile) || is_linked_directory || node.mode > 07777 ||
      node.modified.nanoseconds >= 1'000'000'000) {
    return Damaged(node.path, "it cannot be understood");
  }
  return absl::OkStatus();
}

bool XattrsFit(const std::vector<Xattr>& xattrs) {
  std::size_t list_bytes = 0;
  std::size_t values_bytes = 0;
  for (const Xattr& xattr : xattrs) {
    if (xattr.name.size() > kMaxXattrNameBytes || xattr.value.size() > kMaxXattrValueBytes) {
      return false;
    }
    list_bytes += xattr.name.size() + 1;
    values_bytes += xattr.value.size();
  }
  return xattrs.size() <= kMaxXattrCount && list_bytes <= kMaxXattrListBytes &&
         values_bytes <= kMaxXattrValuesBytes;
}

}  // namespace

bool RecipeFitsTree(std::uint64_t chunk_count, std::size_t digest_size_bytes) {
  return chunk_count < kMaxEntryBytes / (kMaxVarintBytes + digest_size_bytes);
}

bool FitsTree(const TreeEntry& entry, std::size_t digest_size_bytes) {
  const Node& node = entry.node;
  if (node.path.size() > kMaxTreePathBytes || node.link_target.size() > kMaxTreePathBytes ||
      node.hard_link_to.size() > kMaxTreePathBytes || node.user.size() > kMaxOwnerNameBytes ||
      node.group.size() > kMaxOwnerNameBytes || !XattrsFit(node.xattrs) ||
      node.extents.size() > kMaxExtentCount) {
    return false;
  }
  std::uint64_t bytes = kMaxFixedFieldsBytes + node.path.size() + node.user.size() +
                        node.group.size() + node.link_target.size() + node.hard_link_to.size();
  for (const Xattr& xattr : node.xattrs) {
    bytes += 2 * kMaxVarintBytes + xattr.name.size() + xattr.value.size();
  }
  bytes += node.extents.size() * 2 * kMaxVarintBytes;
  bytes += entry.recipe.size() * (kMaxVarintBytes + digest_size_bytes);
  return RecipeFitsTree(entry.recipe.size(), digest_size_bytes) && bytes <= kMaxEntryBytes;
}

namespace {

// All but the length in front and the chunks of the recipe.
void EncodeFields(const TreeEntry& entry, std::uint64_t chunk_count,
                  std::vector<std::uint8_t>& out) {
  const Node& node = entry.node;
  PutText(out, node.path);
  std::uint8_t flags = 0;
  if (node.sparse) flags |= kFlagSparse;
  if (!node.hard_link_to.empty()) flags |= kFlagHardLink;
  if (!node.xattrs.empty()) flags |= kFlagXattrs;
  out.push_back(static_cast<std::uint8_t>(node.kind));
  out.push_back(flags);
  PutVarint(out, node.mode);
  PutVarint(out, node.uid);
  PutVarint(out, node.gid);
  PutText(out, node.user);
  PutText(out, node.group);
  PutVarint(out, ZigZag(node.modified.seconds));
  PutVarint(out, node.modified.nanoseconds);
  if (node.kind == NodeKind::kSymlink) PutText(out, node.link_target);
  if (node.kind == NodeKind::kCharDevice || node.kind == NodeKind::kBlockDevice) {
    PutVarint(out, node.device_number);
  }
  if (!node.xattrs.empty()) {
    PutVarint(out, node.xattrs.size());
    for (const Xattr& xattr : node.xattrs) {
      PutText(out, xattr.name);
      PutText(out, xattr.value);
    }
  }
  if (node.kind == NodeKind::kFile) PutVarint(out, node.size_bytes);
  if (!node.hard_link_to.empty()) {
    KERF_CHECK(node.kind != NodeKind::kDirectory);
    PutText(out, node.hard_link_to);
  } else if (node.kind == NodeKind::kFile) {
    if (node.sparse) {
      PutVarint(out, node.extents.size());
      for (const Extent& extent : node.extents) {
        PutVarint(out, extent.offset);
        PutVarint(out, extent.length_bytes);
      }
    }
    PutVarint(out, chunk_count);
  }
}

void StoreLength(std::uint64_t length, std::size_t start, std::vector<std::uint8_t>& out) {
  KERF_CHECK(length <= kMaxEntryBytes);
  StoreLittleEndian(out.data() + start, static_cast<std::uint32_t>(length));
}

}  // namespace

void EncodeChunkRef(const ChunkRef& chunk, std::size_t digest_size_bytes,
                    std::vector<std::uint8_t>& out) {
  PutVarint(out, chunk.length_bytes);
  out.insert(out.end(), chunk.digest.bytes.begin(),
             chunk.digest.bytes.begin() + static_cast<std::ptrdiff_t>(digest_size_bytes));
}

void EncodeTreeEntry(const TreeEntry& entry, std::size_t digest_size_bytes,
                     std::vector<std::uint8_t>& out) {
  KERF_CHECK(!entry.long_recipe.has_value());
  const std::size_t start = out.size();
  out.resize(start + kLengthBytes);
  EncodeFields(entry, entry.recipe.size(), out);
  const bool has_recipe = entry.node.kind == NodeKind::kFile && entry.node.hard_link_to.empty();
  if (has_recipe) {
    for (const ChunkRef& chunk : entry.recipe) EncodeChunkRef(chunk, digest_size_bytes, out);
  }
  StoreLength(out.size() - start - kLengthBytes, start, out);
}

void EncodeLongTreeEntry(const TreeEntry& entry, std::uint64_t recipe_bytes,
                         std::vector<std::uint8_t>& out) {
  KERF_CHECK(entry.long_recipe.has_value());
  const std::size_t start = out.size();
  out.resize(start + kLengthBytes);
  EncodeFields(entry, entry.long_recipe->chunk_count, out);
  StoreLength(out.size() - start - kLengthBytes + recipe_bytes, start, out);
}

void EncodeIdentity(const NodeIdentity& identity, std::vector<std::uint8_t>& out) {
  const std::size_t start = out.size();
  out.resize(start + kIdentityBytes);
  StoreLittleEndian(out.data() + start, identity.device);
  StoreLittleEndian(out.data() + start + 8, identity.inode);
  StoreLittleEndian(out.data() + start + 16, static_cast<std::uint64_t>(identity.changed.seconds));
  StoreLittleEndian(out.data() + start + 24, identity.changed.nanoseconds);
}

namespace {

// Makes at least `count` bytes behind `position` available; false if the stream ends before.
absl::StatusOr<bool> FillBuffer(const StreamSource& source, std::vector<std::uint8_t>& buffer,
                                std::size_t& position, bool& at_end, std::size_t count) {
  while (buffer.size() - position < count) {
    if (at_end) return false;
    if (position > 0) {
      buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(position));
      position = 0;
    }
    KERF_ASSIGN_OR_RETURN(const std::span<const std::uint8_t> bytes, source());
    if (bytes.empty()) at_end = true;
    buffer.insert(buffer.end(), bytes.begin(), bytes.end());
  }
  return true;
}

}  // namespace

TreeReader::TreeReader(StreamSource source, std::size_t digest_size_bytes,
                       std::size_t max_kept_chunks)
    : position_{std::move(source)},
      digest_size_bytes_(digest_size_bytes),
      max_kept_chunks_(max_kept_chunks) {}

absl::StatusOr<bool> TreeReader::Next(TreeEntry& entry) { return Next(entry, ChunkVisitor()); }

absl::StatusOr<bool> TreeReader::Next(TreeEntry& entry, const ChunkVisitor& visit) {
  try {
    KERF_ASSIGN_OR_RETURN(const bool more, ReadEntry(entry, visit));
    if (!more) return false;
    KERF_RETURN_IF_ERROR(Check(entry));
    return true;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        Cat("tree stream, the entry behind '", last_path_, "' needs more memory than there is"));
  }
}

absl::StatusOr<bool> TreeReader::ReadEntry(TreeEntry& entry, const ChunkVisitor& visit) {
  entry_offset_ = position_.offset();
  entry_end_.reset();
  std::array<std::uint8_t, kLengthBytes> length;
  FieldReader head(position_, kLengthBytes);
  length.front() = head.Byte();
  KERF_RETURN_IF_ERROR(head.source_status());
  if (head.stream_ended()) return false;
  head.Bytes(length.data() + 1, length.size() - 1);
  KERF_RETURN_IF_ERROR(head.source_status());
  if (!head.ok()) return Damaged(last_path_, "the stream ends behind it");
  const auto entry_bytes = LoadLittleEndian<std::uint32_t>(length.data());
  entry_end_ = position_.offset() + entry_bytes;
  FieldReader reader(position_, entry_bytes);
  const absl::Status status =
      DecodeEntry(reader, {digest_size_bytes_, visit, max_kept_chunks_}, entry);
  KERF_RETURN_IF_ERROR(reader.source_status());
  if (reader.stream_ended()) {
    return Damaged(last_path_, "the stream ends within the entry behind it");
  }
  KERF_RETURN_IF_ERROR(status);
  return true;
}

absl::Status TreeReader::Check(const TreeEntry& entry) {
  const Node& node = entry.node;
  if (const absl::Status status = CheckNodePath(node.path); !status.ok()) {
    return Damaged(node.path, MessageOf(status));
  }
  if (!last_path_.empty() && ComparePaths(last_path_, node.path) >= 0) {
    return Damaged(node.path, Cat("it does not come behind '", last_path_, "'"));
  }
  const std::string_view parent = ParentOf(node.path);
  const std::string_view last = last_path_;
  // Those that are open are the beginnings of the last path.
  std::size_t open_count = open_directories_.size();
  while (open_count > 0 &&
         !IsAtOrBelow(parent, last.substr(0, open_directories_[open_count - 1]))) {
    --open_count;
  }
  const std::size_t open_bytes = open_count == 0 ? 0 : open_directories_[open_count - 1];
  if (open_bytes != parent.size()) {
    // Those between are missing, unless one of them is there and is no directory.
    const bool is_below_last = !last.empty() && IsAtOrBelow(parent, last);
    if (!entries_are_missing_ || (is_below_last && open_bytes < last.size())) {
      return Damaged(node.path, "its parent is no directory of the snapshot");
    }
  }
  if (!node.hard_link_to.empty() && ComparePaths(node.hard_link_to, node.path) >= 0) {
    return Damaged(node.path, "it is a hard link to nothing before it");
  }
  open_directories_.resize(open_count);
  for (std::size_t end = open_bytes; end != parent.size(); open_directories_.push_back(end)) {
    end = std::min(node.path.find('/', end + 1), parent.size());
  }
  if (node.kind == NodeKind::kDirectory) open_directories_.push_back(node.path.size());
  known_parent_bytes_ = open_bytes;
  entries_are_missing_ = false;
  last_path_ = node.path;
  return absl::OkStatus();
}

void TreeReader::ResumeBehind(const TreeReader& before) {
  last_path_ = before.last_path_;
  open_directories_ = before.open_directories_;
  entries_are_missing_ = true;
}

RecipeReader::RecipeReader(StreamSource source, const RecipePlace& place,
                           std::size_t digest_size_bytes)
    : position_{std::move(source)},
      skip_bytes_(place.offset_in_piece),
      left_count_(place.chunk_count),
      digest_size_bytes_(digest_size_bytes) {}

absl::StatusOr<ChunkRef> RecipeReader::Next() {
  KERF_CHECK(left_count_ > 0);
  FieldReader reader(position_, UINT64_MAX);
  reader.Skip(std::exchange(skip_bytes_, 0));
  const ChunkRef chunk = DecodeChunk(reader, digest_size_bytes_);
  KERF_RETURN_IF_ERROR(reader.source_status());
  if (chunk.length_bytes == 0 || chunk.length_bytes > kMaxMaxBytes) {
    return absl::DataLossError("tree stream: a recipe has changed since it was read before");
  }
  --left_count_;
  return chunk;
}

IdentityReader::IdentityReader(StreamSource source) : source_(std::move(source)) {}

absl::StatusOr<bool> IdentityReader::Next(NodeIdentity& identity) {
  KERF_ASSIGN_OR_RETURN(const bool more,
                        FillBuffer(source_, buffer_, position_, at_end_, kIdentityBytes));
  if (!more) {
    if (buffer_.size() == position_) return false;
    return absl::DataLossError("identity stream: it ends within an entry");
  }
  const std::uint8_t* bytes = buffer_.data() + position_;
  identity.device = LoadLittleEndian<std::uint64_t>(bytes);
  identity.inode = LoadLittleEndian<std::uint64_t>(bytes + 8);
  identity.changed.seconds = static_cast<std::int64_t>(LoadLittleEndian<std::uint64_t>(bytes + 16));
  identity.changed.nanoseconds = LoadLittleEndian<std::uint32_t>(bytes + 24);
  position_ += kIdentityBytes;
  return true;
}

}  // namespace kerf::agent
