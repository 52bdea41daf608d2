#include "client/store/format/pack_format.h"

#include <cstring>
#include <iterator>

#include "base/little_endian.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/format_version.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kHeaderMagic = "KERFPACK";
constexpr std::string_view kTrailerMagic = "KERFPEND";
constexpr std::uint32_t kVersion = 1;
// Where they lie in a header, and in a trailer.
constexpr std::size_t kHeaderVersionOffset = 8;
constexpr std::size_t kHeaderReservedOffset = 12;
constexpr std::size_t kTrailerVersionOffset = 8 + 4;
constexpr std::size_t kTrailerReservedOffset = 8 + 4 + 4 + 32;
constexpr std::size_t kBlockRowBytes = 8 + 4 + 4 + 1;
constexpr std::size_t kFooterHeadBytes = 4 + 4 + 1;
constexpr std::size_t kChunkPlaceBytes = 4 + 4 + 4;

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    AppendLittleEndian(bytes_, value);
  }
  void PutBytes(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
  }
  std::vector<std::uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

// The caller has checked that enough bytes are there.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    const T value = LoadLittleEndian<T>(bytes_.data());
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  void GetBytes(void* data, std::size_t size) {
    std::memcpy(data, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::uint8_t> bytes_;
};

// Footers are checked by one algorithm whatever the chunks are named by.
Digest Checksum(std::span<const std::uint8_t> bytes) {
  return Fingerprint(DigestAlgorithm::kBlake3, bytes);
}

absl::Status Damaged(std::string_view what) { return absl::DataLossError(ToAbsl(what)); }

}  // namespace

std::string PackIdToHex(const PackId& id) {
  Digest digest;
  std::memcpy(digest.bytes.data(), id.bytes.data(), id.bytes.size());
  return DigestToHex(digest, id.bytes.size());
}

std::optional<PackId> ParsePackId(std::string_view hex) {
  PackId id;
  if (hex.size() != 2 * id.bytes.size()) return std::nullopt;
  for (std::size_t index = 0; index < hex.size(); ++index) {
    const char digit = hex[index];
    int value = 0;
    if (digit >= '0' && digit <= '9') {
      value = digit - '0';
    } else if (digit >= 'a' && digit <= 'f') {
      value = digit - 'a' + 10;
    } else {
      return std::nullopt;
    }
    std::uint8_t& byte = id.bytes[index / 2];
    byte = static_cast<std::uint8_t>((byte << 4) | value);
  }
  return id;
}

std::array<std::uint8_t, kPackHeaderBytes> EncodePackHeader(const PackId& id) {
  std::array<std::uint8_t, kPackHeaderBytes> header{};
  Writer writer;
  writer.PutBytes(kHeaderMagic.data(), kHeaderMagic.size());
  writer.Put(kVersion);
  writer.Put(std::uint32_t{0});
  writer.PutBytes(id.bytes.data(), id.bytes.size());
  std::memcpy(header.data(), writer.bytes().data(), header.size());
  return header;
}

absl::Status CheckPackHeader(std::span<const std::uint8_t> header, const PackId& id) {
  if (header.size() != kPackHeaderBytes ||
      std::memcmp(header.data(), kHeaderMagic.data(), kHeaderMagic.size()) != 0) {
    return Damaged("it does not begin as a pack");
  }
  Reader reader(header.subspan(kHeaderReservedOffset + sizeof(std::uint32_t)));
  PackId stored;
  reader.GetBytes(stored.bytes.data(), stored.bytes.size());
  if (stored != id) return Damaged(Cat("it is pack ", PackIdToHex(stored), " under another name"));
  return absl::OkStatus();
}

absl::Status CheckPackVersion(std::span<const std::uint8_t> header,
                              std::span<const std::uint8_t> trailer) {
  if (header.size() != kPackHeaderBytes || trailer.size() != kPackTrailerBytes) {
    return Damaged("it is too short for a pack");
  }
  const auto version = LoadLittleEndian<std::uint32_t>(&header[kHeaderVersionOffset]);
  if (LoadLittleEndian<std::uint32_t>(&trailer[kTrailerVersionOffset]) == kVersion) {
    return absl::OkStatus();
  }
  return CheckFormatVersion(version, kVersion);
}

absl::Status CheckReservedBytes(std::span<const std::uint8_t> header,
                                std::span<const std::uint8_t> trailer) {
  if (header.size() != kPackHeaderBytes || trailer.size() != kPackTrailerBytes) {
    return Damaged("it is too short for a pack");
  }
  if (LoadLittleEndian<std::uint32_t>(header.data() + kHeaderReservedOffset) != 0 ||
      LoadLittleEndian<std::uint64_t>(trailer.data() + kTrailerReservedOffset) != 0) {
    return Damaged("bytes are set in it that are zero in every pack");
  }
  if (LoadLittleEndian<std::uint32_t>(header.data() + kHeaderVersionOffset) !=
      LoadLittleEndian<std::uint32_t>(trailer.data() + kTrailerVersionOffset)) {
    return Damaged("its beginning and its end name different versions");
  }
  return absl::OkStatus();
}

std::vector<std::uint8_t> EncodePackEnd(const PackFooter& footer, std::uint64_t footer_offset) {
  const std::size_t digest_bytes = DigestSizeBytes(footer.digest_algorithm);
  Writer writer;
  writer.bytes().reserve(kFooterHeadBytes + footer.blocks.size() * kBlockRowBytes +
                         footer.chunks.size() * (digest_bytes + kChunkPlaceBytes) +
                         kPackTrailerBytes);
  writer.Put(static_cast<std::uint32_t>(footer.blocks.size()));
  writer.Put(static_cast<std::uint32_t>(footer.chunks.size()));
  writer.Put(static_cast<std::uint8_t>(footer.digest_algorithm));
  for (const PackBlock& block : footer.blocks) {
    writer.Put(block.offset);
    writer.Put(block.stored_bytes);
    writer.Put(block.raw_bytes);
    writer.Put(static_cast<std::uint8_t>(block.compressed ? 1 : 0));
  }
  for (const PackChunk& chunk : footer.chunks) {
    writer.PutBytes(chunk.digest.bytes.data(), digest_bytes);
    writer.Put(chunk.block_index);
    writer.Put(chunk.offset_in_block);
    writer.Put(chunk.length_bytes);
  }
  const auto footer_bytes = static_cast<std::uint32_t>(writer.bytes().size());
  const Digest checksum = Checksum(writer.bytes());
  writer.Put(footer_offset);
  writer.Put(footer_bytes);
  writer.Put(kVersion);
  writer.PutBytes(checksum.bytes.data(), checksum.bytes.size());
  writer.Put(std::uint64_t{0});
  writer.PutBytes(kTrailerMagic.data(), kTrailerMagic.size());
  return std::move(writer.bytes());
}

absl::StatusOr<PackTrailer> DecodePackTrailer(std::span<const std::uint8_t> trailer,
                                              std::uint64_t file_bytes) {
  if (trailer.size() != kPackTrailerBytes ||
      std::memcmp(trailer.data() + kPackTrailerBytes - kTrailerMagic.size(), kTrailerMagic.data(),
                  kTrailerMagic.size()) != 0) {
    return Damaged("it does not end as a pack: it was cut short");
  }
  Reader reader(trailer);
  PackTrailer result;
  result.footer_offset = reader.Get<std::uint64_t>();
  result.footer_bytes = reader.Get<std::uint32_t>();
  reader.Get<std::uint32_t>();
  reader.GetBytes(result.footer_checksum.bytes.data(), result.footer_checksum.bytes.size());
  if (file_bytes < kPackHeaderBytes + kPackTrailerBytes || result.footer_bytes > kMaxFooterBytes ||
      result.footer_offset < kPackHeaderBytes ||
      result.footer_offset > file_bytes - kPackTrailerBytes ||
      result.footer_offset + result.footer_bytes != file_bytes - kPackTrailerBytes) {
    return Damaged("its trailer points outside of the file");
  }
  return result;
}

absl::StatusOr<PackFooter> DecodePackFooter(std::span<const std::uint8_t> footer,
                                            const PackTrailer& trailer) {
  if (footer.size() != trailer.footer_bytes || Checksum(footer) != trailer.footer_checksum) {
    return Damaged("its footer does not match its checksum");
  }
  if (footer.size() < kFooterHeadBytes) return Damaged("its footer is too short");
  Reader reader(footer);
  const auto block_count = reader.Get<std::uint32_t>();
  const auto chunk_count = reader.Get<std::uint32_t>();
  const auto algorithm = reader.Get<std::uint8_t>();
  PackFooter result;
  result.digest_algorithm = static_cast<DigestAlgorithm>(algorithm);
  if (algorithm < 1 || algorithm > 3) return Damaged("its digest algorithm is unknown");
  const std::size_t digest_bytes = DigestSizeBytes(result.digest_algorithm);
  if (reader.left() != std::uint64_t{block_count} * kBlockRowBytes +
                           std::uint64_t{chunk_count} * (digest_bytes + kChunkPlaceBytes)) {
    return Damaged("its footer has another length than its counts say");
  }
  // Else tables of blocks that nobody needs would fill the memory of whoever lists the packs.
  if (block_count > chunk_count) return Damaged("it has blocks without chunks");
  result.blocks.resize(block_count);
  for (PackBlock& block : result.blocks) {
    block.offset = reader.Get<std::uint64_t>();
    block.stored_bytes = reader.Get<std::uint32_t>();
    block.raw_bytes = reader.Get<std::uint32_t>();
    block.compressed = reader.Get<std::uint8_t>() != 0;
    if (block.offset < kPackHeaderBytes || block.offset > trailer.footer_offset ||
        block.stored_bytes > trailer.footer_offset - block.offset ||
        block.raw_bytes > kMaxBlockRawBytes ||
        (!block.compressed && block.raw_bytes != block.stored_bytes)) {
      return Damaged("its block table points outside of the file");
    }
    // A block that compression would make longer is stored as it is.
    if (block.stored_bytes > block.raw_bytes) {
      return Damaged("it has a block that is stored in more bytes than it has");
    }
  }
  result.chunks.resize(chunk_count);
  for (PackChunk& chunk : result.chunks) {
    reader.GetBytes(chunk.digest.bytes.data(), digest_bytes);
    chunk.block_index = reader.Get<std::uint32_t>();
    chunk.offset_in_block = reader.Get<std::uint32_t>();
    chunk.length_bytes = reader.Get<std::uint32_t>();
    if (chunk.block_index >= block_count ||
        chunk.offset_in_block > result.blocks[chunk.block_index].raw_bytes ||
        chunk.length_bytes > result.blocks[chunk.block_index].raw_bytes - chunk.offset_in_block) {
      return Damaged("its chunk table points outside of a block");
    }
  }
  return result;
}

std::string EncodeLocator(const PackId& pack, std::uint32_t chunk_index) {
  std::string locator(pack.bytes.begin(), pack.bytes.end());
  std::uint8_t position[sizeof chunk_index];
  StoreLittleEndian(position, chunk_index);
  return locator.append(std::begin(position), std::end(position));
}

std::optional<Locator> DecodeLocator(std::string_view locator) {
  Locator result;
  if (locator.size() != result.pack.bytes.size() + 4) return std::nullopt;
  std::memcpy(result.pack.bytes.data(), locator.data(), result.pack.bytes.size());
  result.chunk_index = LoadLittleEndian<std::uint32_t>(
      reinterpret_cast<const std::uint8_t*>(locator.data()) + result.pack.bytes.size());
  return result;
}

}  // namespace kerf::agent
