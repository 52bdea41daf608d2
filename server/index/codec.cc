#include "server/index/codec.h"

#include <cstring>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/index/arguments.h"

namespace kerf::index_codec {
namespace {

constexpr std::uint8_t kValueVersion = 1;
constexpr std::uint8_t kCountedEpochVersion = 2;
constexpr std::uint8_t kFollowingVersion = 3;
constexpr std::uint8_t kCountedFollowingVersion = 4;
constexpr std::uint8_t kLastEpochVersion = kCountedFollowingVersion;
constexpr std::size_t kMaxVarintBytes = 10;

void AppendByte(std::uint8_t byte, std::string& out) { out.push_back(static_cast<char>(byte)); }

void AppendVarint(std::uint64_t value, std::string& out) {
  while (value >= 0x80) {
    AppendByte(static_cast<std::uint8_t>(value | 0x80), out);
    value >>= 7;
  }
  AppendByte(static_cast<std::uint8_t>(value), out);
}

// Takes bytes off the front of `rest`; nothing if they are not there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::optional<std::uint8_t> Byte() {
    if (rest_.empty()) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  std::optional<std::uint64_t> Varint() {
    std::uint64_t value = 0;
    for (std::size_t index = 0; index < kMaxVarintBytes; ++index) {
      const std::optional<std::uint8_t> byte = Byte();
      if (!byte) return std::nullopt;
      // The tenth byte has room for one bit; a last byte of zero could be left out.
      if (index == kMaxVarintBytes - 1 && *byte > 1) return std::nullopt;
      if (index > 0 && *byte == 0) return std::nullopt;
      value |= static_cast<std::uint64_t>(*byte & 0x7F) << (7 * index);
      if ((*byte & 0x80) == 0) return value;
    }
    return std::nullopt;
  }

  std::optional<std::string_view> Bytes(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

absl::Status NotUnderstood(std::string_view what, std::string_view bytes) {
  return absl::DataLossError(ToAbsl(Cat("the index holds ", what, " of ", bytes.size(),
                                        " bytes that is not in kerf's layout; delete the index "
                                        "and run `kerf index rebuild`")));
}

// Of an epoch, whose first byte is a version that no kerf of today knows.
absl::Status OfALaterKerf(std::uint8_t version) {
  return absl::DataLossError(
      ToAbsl(Cat("the index holds an epoch of version ", version,
                 ", which a later kerfd has written: let all kerfd of this index be that one, or "
                 "delete the index and run `kerf index rebuild`")));
}

void AppendEpoch(std::uint8_t version, const EpochValue& value, std::string& out) {
  AppendByte(version, out);
  AppendVarint(value.epoch, out);
  if (value.removed_count > 0) AppendVarint(value.removed_count, out);
}

// One of two versions: without a count, and with one that is not 0.
absl::StatusOr<EpochValue> ParseEpochOf(std::string_view bytes, std::uint8_t plain,
                                        std::uint8_t counted) {
  Reader reader(bytes);
  const std::optional<std::uint8_t> version = reader.Byte();
  if (version > kLastEpochVersion) return OfALaterKerf(*version);
  const std::optional<std::uint64_t> epoch = reader.Varint();
  const std::optional<std::uint64_t> removed_count =
      version == counted ? reader.Varint() : std::optional<std::uint64_t>(0);
  if ((version != plain && version != counted) || !epoch || !removed_count || !reader.at_end() ||
      (version == counted && *removed_count == 0)) {
    return NotUnderstood("an epoch", bytes);
  }
  return EpochValue{*epoch, *removed_count};
}

}  // namespace

void AppendEntry(const EntryValue& value, std::string* out) {
  KERF_CHECK(!value.locator.empty() && value.locator.size() <= kMaxLocatorBytes);
  AppendByte(kValueVersion, *out);
  AppendVarint(value.epoch, *out);
  AppendVarint(value.length_bytes, *out);
  AppendByte(static_cast<std::uint8_t>(value.locator.size()), *out);
  out->append(value.locator);
}

std::string EncodeEntry(const EntryValue& value) {
  std::string out;
  out.reserve(2 + 2 * kMaxVarintBytes + value.locator.size());
  AppendEntry(value, &out);
  return out;
}

absl::StatusOr<EntryValue> ParseEntry(std::string_view bytes) {
  Reader reader(bytes);
  const std::optional<std::uint8_t> version = reader.Byte();
  const std::optional<std::uint64_t> epoch = reader.Varint();
  const std::optional<std::uint64_t> length_bytes = reader.Varint();
  const std::optional<std::uint8_t> locator_bytes = reader.Byte();
  if (version != kValueVersion || !epoch || !length_bytes || !locator_bytes ||
      *length_bytes > std::numeric_limits<std::uint32_t>::max() || *locator_bytes == 0 ||
      *locator_bytes > kMaxLocatorBytes) {
    return NotUnderstood("an entry", bytes);
  }
  const std::optional<std::string_view> locator = reader.Bytes(*locator_bytes);
  if (!locator || !reader.at_end()) return NotUnderstood("an entry", bytes);
  return EntryValue{*epoch, static_cast<std::uint32_t>(*length_bytes), *locator};
}

std::string EncodeNumber(std::uint64_t number) {
  std::string out;
  AppendByte(kValueVersion, out);
  AppendVarint(number, out);
  return out;
}

absl::StatusOr<std::uint64_t> ParseNumber(std::string_view bytes) {
  Reader reader(bytes);
  const std::optional<std::uint8_t> version = reader.Byte();
  const std::optional<std::uint64_t> number = reader.Varint();
  if (version != kValueVersion || !number || !reader.at_end()) {
    return NotUnderstood("a number", bytes);
  }
  return *number;
}

std::string EncodeEpoch(const EpochValue& value) {
  std::string out;
  AppendEpoch(value.removed_count == 0 ? kValueVersion : kCountedEpochVersion, value, out);
  return out;
}

absl::StatusOr<EpochValue> ParseEpoch(std::string_view bytes) {
  return ParseEpochOf(bytes, kValueVersion, kCountedEpochVersion);
}

std::string EncodeFollowing(const EpochValue& value) {
  std::string out;
  AppendEpoch(value.removed_count == 0 ? kFollowingVersion : kCountedFollowingVersion, value, out);
  return out;
}

absl::StatusOr<EpochValue> ParseFollowing(std::string_view bytes) {
  return ParseEpochOf(bytes, kFollowingVersion, kCountedFollowingVersion);
}

bool IsFollowing(std::string_view bytes) {
  const std::optional<std::uint8_t> version = Reader(bytes).Byte();
  return version == kFollowingVersion || version == kCountedFollowingVersion;
}

std::string KindPrefix(KeyKind kind) { return std::string(1, static_cast<char>(kind)); }

std::string RepositoryKey(KeyKind kind, const RepositoryId& repository) {
  KERF_CHECK(!repository.name.empty() && repository.name.size() <= kMaxRepositoryNameBytes);
  std::string key;
  key.reserve(3 + repository.name.size());
  key.push_back(static_cast<char>(kind));
  AppendByte(static_cast<std::uint8_t>(repository.name.size()), key);
  key.append(repository.name);
  AppendByte(static_cast<std::uint8_t>(repository.digest_algorithm), key);
  return key;
}

std::string EndOfPrefix(std::string prefix) {
  // The last byte is a digest algorithm, which is never 255.
  KERF_CHECK(!prefix.empty() && static_cast<std::uint8_t>(prefix.back()) < 0xFF);
  ++prefix.back();
  return prefix;
}

absl::StatusOr<RepositoryId> ParseRepositoryKey(KeyKind kind, std::string_view key) {
  Reader reader(key);
  const std::optional<std::uint8_t> letter = reader.Byte();
  const std::optional<std::uint8_t> name_bytes = reader.Byte();
  const std::optional<std::string_view> name =
      name_bytes ? reader.Bytes(*name_bytes) : std::nullopt;
  const std::optional<std::uint8_t> algorithm = reader.Byte();
  if (letter != static_cast<std::uint8_t>(kind) || !name || !algorithm || !reader.at_end() ||
      *name_bytes > kMaxRepositoryNameBytes) {
    return NotUnderstood("a repository's key", key);
  }
  RepositoryId repository{std::string(*name), static_cast<DigestAlgorithm>(*algorithm)};
  if (!ValidateRepository(repository).ok()) return NotUnderstood("a repository's key", key);
  return repository;
}

std::string_view DigestKey(const RepositoryId& repository, const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()),
          DigestSizeBytes(repository.digest_algorithm)};
}

absl::StatusOr<Digest> ParseDigestKey(const RepositoryId& repository, std::string_view bytes) {
  if (bytes.size() != DigestSizeBytes(repository.digest_algorithm)) {
    return NotUnderstood("a digest", bytes);
  }
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes.data(), bytes.size());
  return digest;
}

}  // namespace kerf::index_codec
