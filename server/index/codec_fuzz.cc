// Parsing any bytes ends in a Status or in a value whose encoding is those bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/index/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kerf;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);

  if (const auto entry = index_codec::ParseEntry(bytes); entry.ok()) {
    KERF_CHECK(!entry->locator.empty() && entry->locator.size() <= kMaxLocatorBytes);
    KERF_CHECK(index_codec::EncodeEntry(*entry) == bytes);
  }
  if (const auto number = index_codec::ParseNumber(bytes); number.ok()) {
    KERF_CHECK(index_codec::EncodeNumber(*number) == bytes);
  }
  if (const auto epoch = index_codec::ParseEpoch(bytes); epoch.ok()) {
    KERF_CHECK(index_codec::EncodeEpoch(*epoch) == bytes);
    KERF_CHECK(!index_codec::IsFollowing(bytes));
  }
  if (const auto epoch = index_codec::ParseFollowing(bytes); epoch.ok()) {
    KERF_CHECK(index_codec::EncodeFollowing(*epoch) == bytes);
    KERF_CHECK(index_codec::IsFollowing(bytes));
  }
  for (const auto kind : {index_codec::KeyKind::kEpoch, index_codec::KeyKind::kEntry}) {
    const auto repository = index_codec::ParseRepositoryKey(kind, bytes);
    if (!repository.ok()) continue;
    KERF_CHECK(index_codec::RepositoryKey(kind, *repository) == bytes);
  }
  for (const auto algorithm : {DigestAlgorithm::kBlake3, DigestAlgorithm::kXxh3_128}) {
    const RepositoryId repository{"a", algorithm};
    const auto digest = index_codec::ParseDigestKey(repository, bytes);
    if (digest.ok()) KERF_CHECK(index_codec::DigestKey(repository, *digest) == bytes);
  }

  // The other way round: values made of the input come back as they were.
  if (size >= 12 && size <= 12 + kMaxLocatorBytes && size > 12) {
    index_codec::EntryValue value;
    for (std::size_t index = 0; index < 8; ++index) value.epoch = value.epoch << 8 | data[index];
    for (std::size_t index = 8; index < 12; ++index) {
      value.length_bytes = value.length_bytes << 8 | data[index];
    }
    value.locator = bytes.substr(12);
    const std::string encoded = index_codec::EncodeEntry(value);
    const auto parsed = index_codec::ParseEntry(encoded);
    KERF_CHECK(parsed.ok() && *parsed == value);
  }
  return 0;
}
