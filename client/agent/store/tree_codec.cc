#include "client/agent/store/tree_codec.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/fs/path.h"

namespace kerf::agent {
namespace {

constexpr std::uint8_t kFlagSparse = 1;
constexpr std::uint8_t kFlagHardLink = 2;
constexpr std::uint8_t kFlagXattrs = 4;
constexpr std::uint8_t kKnownFlags = kFlagSparse | kFlagHardLink | kFlagXattrs;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kIdentityBytes = 8 + 8 + 8 + 4;

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

// Reads fields; once one is out of bounds, `ok` is false and all further ones are zero.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::uint64_t Varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const std::uint8_t byte = bytes_.front();
      bytes_ = bytes_.subspan(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  std::uint32_t Varint32() {
    const std::uint64_t value = Varint();
    if (value > UINT32_MAX) ok_ = false;
    return static_cast<std::uint32_t>(value);
  }
  std::uint8_t Byte() {
    std::uint8_t byte = 0;
    Bytes(&byte, 1);
    return byte;
  }
  void Bytes(void* out, std::size_t count) {
    if (!ok_ || bytes_.size() < count) {
      ok_ = false;
      return;
    }
    std::memcpy(out, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
  }
  void Text(std::string& out) {
    const std::uint64_t size = Varint();
    if (!ok_ || size > bytes_.size()) {
      ok_ = false;
      out.clear();
      return;
    }
    out.assign(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
  }
  // A number of things that take at least `min_bytes` each.
  std::size_t Count(std::size_t min_bytes) {
    const std::uint64_t count = Varint();
    if (!ok_ || count > bytes_.size() / min_bytes) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  std::span<const std::uint8_t> bytes_;
  bool ok_ = true;
};

absl::Status Damaged(std::string_view path, std::string_view what) {
  return absl::DataLossError(Cat("tree stream, entry '", path, "': ", what));
}

void DecodeFile(FieldReader& reader, std::uint8_t flags, std::size_t digest_size_bytes,
                TreeEntry& entry) {
  Node& node = entry.node;
  node.size_bytes = reader.Varint();
  if ((flags & kFlagHardLink) != 0) {
    reader.Text(node.hard_link_to);
    if (node.hard_link_to.empty()) reader.Fail();
    return;
  }
  if (node.sparse) {
    node.extents.resize(reader.Count(2));
    for (Extent& extent : node.extents) {
      extent.offset = reader.Varint();
      extent.length_bytes = reader.Varint();
    }
  }
  entry.recipe.resize(reader.Count(1 + digest_size_bytes));
  for (ChunkRef& chunk : entry.recipe) {
    chunk.length_bytes = reader.Varint32();
    chunk.digest = Digest();
    reader.Bytes(chunk.digest.bytes.data(), digest_size_bytes);
  }
}

absl::Status CheckContent(const TreeEntry& entry) {
  const Node& node = entry.node;
  if (!node.hard_link_to.empty()) return absl::OkStatus();
  std::uint64_t expected_bytes = node.size_bytes;
  if (node.sparse) {
    expected_bytes = 0;
    std::uint64_t end = 0;
    for (const Extent& extent : node.extents) {
      if (extent.offset < end || extent.offset > node.size_bytes || extent.length_bytes == 0 ||
          extent.length_bytes > node.size_bytes - extent.offset) {
        return Damaged(node.path, "its extents do not lie in order within the file");
      }
      end = extent.offset + extent.length_bytes;
      expected_bytes += extent.length_bytes;
    }
  }
  std::uint64_t recipe_bytes = 0;
  for (const ChunkRef& chunk : entry.recipe) {
    if (chunk.length_bytes == 0) return Damaged(node.path, "it has an empty chunk");
    recipe_bytes += chunk.length_bytes;
  }
  if (recipe_bytes != expected_bytes) {
    return Damaged(node.path,
                   Cat("its recipe covers ", recipe_bytes, " of ", expected_bytes, " bytes"));
  }
  return absl::OkStatus();
}

// The longest that a number, and the fields of fixed number, take.
constexpr std::uint64_t kMaxVarintBytes = 10;
constexpr std::uint64_t kMaxFixedFieldsBytes = 16 * kMaxVarintBytes;

}  // namespace

bool RecipeFitsTree(std::uint64_t chunk_count, std::size_t digest_size_bytes) {
  return chunk_count < kMaxEntryBytes / (kMaxVarintBytes + digest_size_bytes);
}

bool FitsTree(const TreeEntry& entry, std::size_t digest_size_bytes) {
  const Node& node = entry.node;
  std::uint64_t bytes = kMaxFixedFieldsBytes + node.path.size() + node.user.size() +
                        node.group.size() + node.link_target.size() + node.hard_link_to.size();
  for (const Xattr& xattr : node.xattrs) {
    bytes += 2 * kMaxVarintBytes + xattr.name.size() + xattr.value.size();
  }
  bytes += node.extents.size() * 2 * kMaxVarintBytes;
  bytes += entry.recipe.size() * (kMaxVarintBytes + digest_size_bytes);
  return RecipeFitsTree(entry.recipe.size(), digest_size_bytes) && bytes <= kMaxEntryBytes;
}

void EncodeTreeEntry(const TreeEntry& entry, std::size_t digest_size_bytes,
                     std::vector<std::uint8_t>& out) {
  const Node& node = entry.node;
  const std::size_t start = out.size();
  out.resize(start + kLengthBytes);
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
  if (node.kind == NodeKind::kFile) {
    PutVarint(out, node.size_bytes);
    if (!node.hard_link_to.empty()) {
      PutText(out, node.hard_link_to);
    } else {
      if (node.sparse) {
        PutVarint(out, node.extents.size());
        for (const Extent& extent : node.extents) {
          PutVarint(out, extent.offset);
          PutVarint(out, extent.length_bytes);
        }
      }
      PutVarint(out, entry.recipe.size());
      for (const ChunkRef& chunk : entry.recipe) {
        PutVarint(out, chunk.length_bytes);
        out.insert(out.end(), chunk.digest.bytes.begin(),
                   chunk.digest.bytes.begin() + static_cast<std::ptrdiff_t>(digest_size_bytes));
      }
    }
  }
  KERF_CHECK(out.size() - start - kLengthBytes <= kMaxEntryBytes);
  StoreLittleEndian(out.data() + start,
                    static_cast<std::uint32_t>(out.size() - start - kLengthBytes));
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

TreeReader::TreeReader(StreamSource source, std::size_t digest_size_bytes)
    : source_(std::move(source)), digest_size_bytes_(digest_size_bytes) {}

absl::StatusOr<bool> TreeReader::Fill(std::size_t count) {
  return FillBuffer(source_, buffer_, position_, at_end_, count);
}

absl::StatusOr<bool> TreeReader::Next(TreeEntry& entry) {
  KERF_ASSIGN_OR_RETURN(const bool more, Fill(kLengthBytes));
  if (!more) {
    if (buffer_.size() != position_) return Damaged(last_path_, "the stream ends behind it");
    return false;
  }
  const auto length = LoadLittleEndian<std::uint32_t>(buffer_.data() + position_);
  KERF_ASSIGN_OR_RETURN(const bool whole, Fill(kLengthBytes + std::size_t{length}));
  if (!whole) return Damaged(last_path_, "the stream ends within the entry behind it");
  KERF_RETURN_IF_ERROR(Decode(std::span(buffer_).subspan(position_ + kLengthBytes, length), entry));
  position_ += kLengthBytes + length;
  KERF_RETURN_IF_ERROR(Check(entry));
  return true;
}

absl::Status TreeReader::Decode(std::span<const std::uint8_t> bytes, TreeEntry& entry) const {
  FieldReader reader(bytes);
  Node& node = entry.node;
  entry.recipe.clear();
  node.extents.clear();
  node.xattrs.clear();
  node.hard_link_to.clear();
  node.link_target.clear();
  node.size_bytes = 0;
  node.device_number = 0;
  reader.Text(node.path);
  const std::uint8_t kind = reader.Byte();
  const std::uint8_t flags = reader.Byte();
  node.kind = static_cast<NodeKind>(kind);
  node.sparse = (flags & kFlagSparse) != 0;
  node.mode = reader.Varint32();
  node.uid = reader.Varint32();
  node.gid = reader.Varint32();
  reader.Text(node.user);
  reader.Text(node.group);
  node.modified.seconds = UnZigZag(reader.Varint());
  node.modified.nanoseconds = reader.Varint32();
  if (node.kind == NodeKind::kSymlink) reader.Text(node.link_target);
  if (node.kind == NodeKind::kCharDevice || node.kind == NodeKind::kBlockDevice) {
    node.device_number = reader.Varint();
  }
  if ((flags & kFlagXattrs) != 0) {
    node.xattrs.resize(reader.Count(2));
    for (Xattr& xattr : node.xattrs) {
      reader.Text(xattr.name);
      reader.Text(xattr.value);
    }
  }
  if (node.kind == NodeKind::kFile) DecodeFile(reader, flags, digest_size_bytes_, entry);
  const bool file_flags = (flags & (kFlagSparse | kFlagHardLink)) != 0;
  if (!reader.done() || kind < static_cast<std::uint8_t>(NodeKind::kFile) ||
      kind > static_cast<std::uint8_t>(NodeKind::kBlockDevice) || (flags & ~kKnownFlags) != 0 ||
      (file_flags && node.kind != NodeKind::kFile) || node.mode > 07777 ||
      node.modified.nanoseconds >= 1'000'000'000) {
    return Damaged(node.path, "it cannot be understood");
  }
  return absl::OkStatus();
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
  while (!open_directories_.empty() && open_directories_.back() != parent) {
    open_directories_.pop_back();
  }
  if (!parent.empty() && open_directories_.empty()) {
    return Damaged(node.path, "its parent is no directory of the snapshot");
  }
  if (node.kind == NodeKind::kDirectory) open_directories_.push_back(node.path);
  if (!node.hard_link_to.empty() && ComparePaths(node.hard_link_to, node.path) >= 0) {
    return Damaged(node.path, "it is a hard link to nothing before it");
  }
  last_path_ = node.path;
  return node.kind == NodeKind::kFile ? CheckContent(entry) : absl::OkStatus();
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
