// The bytes of the index in a key-value store: the only file that knows them. docs/spec/index.md
// has the same layout for people.
//
//   key    letter, length of the repository's name (1 byte), name, digest algorithm (1 byte), and
//          for an entry the digest. The length makes keys of two repositories differ whatever
//          their names; byte order of the keys is digest order inside one.
//   entry  version (1 byte: 1), epoch (varint), length (varint), length of the locator (1 byte),
//          locator
//   number version (1 byte: 1), varint: a repository's epoch, the store's format
//   epoch  a number; or version (1 byte: 2), varint epoch, varint count of removed entries, not 0
//   later  an epoch in its later form, in Redis alone (docs/adr/0022): version (1 byte: 3), varint
//          epoch; or 4, and the count as above. Who knows the other form alone refuses it
//
// Varints are little-endian groups of 7 bits, in their shortest form only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf::index_codec {

// The layout of this file as a whole. A store of a higher number is of a newer kerf.
inline constexpr std::uint64_t kFormatVersion = 1;

// An entry without its digest, which is in the key.
struct EntryValue {
  std::uint64_t epoch = 0;
  std::uint32_t length_bytes = 0;
  // 1 to kMaxLocatorBytes bytes. A view: of the caller's locator, or into the parsed bytes.
  std::string_view locator;

  friend bool operator==(const EntryValue&, const EntryValue&) = default;
};

std::string EncodeEntry(const EntryValue& value);
// The same, behind what `out` has.
void AppendEntry(const EntryValue& value, std::string* out);

// DataLoss unless `bytes` are exactly what EncodeEntry makes of some entry.
absl::StatusOr<EntryValue> ParseEntry(std::string_view bytes);

std::string EncodeNumber(std::uint64_t number);

// DataLoss unless `bytes` are exactly what EncodeNumber makes of some number.
absl::StatusOr<std::uint64_t> ParseNumber(std::string_view bytes);

// An epoch, and how many entries have been removed since it was raised, in one value.
struct EpochValue {
  std::uint64_t epoch = 0;
  std::uint64_t removed_count = 0;

  friend bool operator==(const EpochValue&, const EpochValue&) = default;
};

// EncodeNumber of the epoch if nothing has been removed.
std::string EncodeEpoch(const EpochValue& value);

// DataLoss unless `bytes` are exactly what EncodeEpoch makes of some value.
absl::StatusOr<EpochValue> ParseEpoch(std::string_view bytes);

// The later form: the epoch of a bucket in Redis that follows a head. None is also of the other.
std::string EncodeFollowing(const EpochValue& value);
absl::StatusOr<EpochValue> ParseFollowing(std::string_view bytes);
// Whether they are to be read by ParseFollowing, if by anything.
bool IsFollowing(std::string_view bytes);

// The key under which a store says its format version.
inline constexpr std::string_view kFormatKey = "F";

// What a repository's key is about.
enum class KeyKind : char {
  kEntryCount = 'C',
  // A number, 1: it was created, not only met.
  kCreated = 'N',
  kEntry = 'E',
  kEpoch = 'R',
  kRemovedCount = 'X',
};

// What all keys of that kind, and no others, begin with.
std::string KindPrefix(KeyKind kind);

// The key of all kinds but kEntry; the prefix of all keys of kEntry. The
// repository is valid.
std::string RepositoryKey(KeyKind kind, const RepositoryId& repository);

// The smallest key behind all keys that begin with `prefix`, which is a RepositoryKey.
std::string EndOfPrefix(std::string prefix);

// DataLoss unless `key` is a RepositoryKey of that kind.
absl::StatusOr<RepositoryId> ParseRepositoryKey(KeyKind kind, std::string_view key);

// The digest as an entry's key ends with it. The view lasts as long as the digest.
std::string_view DigestKey(const RepositoryId& repository, const Digest& digest);

// The inverse. DataLoss unless `bytes` is as long as the repository's digests.
absl::StatusOr<Digest> ParseDigestKey(const RepositoryId& repository, std::string_view bytes);

}  // namespace kerf::index_codec
