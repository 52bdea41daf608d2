// The parity of a pack, made once more by nothing but docs/spec/store.md: slow and plain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// Of the field of 256 elements.
inline unsigned ReferenceMultiply(unsigned a, unsigned b) {
  unsigned product = 0;
  for (; b != 0; b >>= 1) {
    if ((b & 1) != 0) product ^= a;
    a <<= 1;
    if ((a & 0x100) != 0) a ^= 0x11d;
  }
  return product;
}

inline unsigned ReferenceInverse(unsigned a) {
  unsigned inverse = 1;
  while (ReferenceMultiply(a, inverse) != 1) ++inverse;
  return inverse;
}

inline unsigned ReferenceCoefficient(unsigned data_count, unsigned parity, unsigned data) {
  return ReferenceInverse((data_count + parity) ^ data);
}

inline std::string ReferenceDigest(DigestAlgorithm algorithm, std::string_view bytes,
                                   std::size_t size_bytes) {
  const Digest digest =
      Fingerprint(algorithm, {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  return std::string(reinterpret_cast<const char*>(digest.bytes.data()), size_bytes);
}

inline std::string ReferenceNumber(std::uint64_t value, std::size_t size_bytes) {
  std::string text;
  for (std::size_t index = 0; index < size_bytes; ++index) {
    text.push_back(static_cast<char>(value));
    value >>= 8;
  }
  return text;
}

inline std::string ReferenceParity(std::string_view id, std::string_view pack, unsigned group_count,
                                   unsigned data_count, unsigned parity_count) {
  constexpr std::size_t kSector = 4096;
  constexpr std::size_t kSum = 8;
  std::string padded(pack);
  padded.resize(std::size_t{group_count} * data_count * kSector);
  const std::size_t row_bytes = group_count * kSector;
  std::string parity(parity_count * row_bytes, '\0');
  for (unsigned p = 0; p < parity_count; ++p) {
    for (unsigned d = 0; d < data_count; ++d) {
      const unsigned coefficient = ReferenceCoefficient(data_count, p, d);
      unsigned product[256];
      for (unsigned value = 0; value < 256; ++value) {
        product[value] = ReferenceMultiply(coefficient, value);
      }
      for (std::size_t at = 0; at < row_bytes; ++at) {
        const auto byte = static_cast<unsigned char>(padded[d * row_bytes + at]);
        parity[p * row_bytes + at] = static_cast<char>(
            static_cast<unsigned char>(parity[p * row_bytes + at]) ^ product[byte]);
      }
    }
  }
  std::string table;
  std::string page;
  const auto end_page = [&] {
    if (page.empty()) return;
    table += page + ReferenceDigest(DigestAlgorithm::kXxh3_128, page, kSum);
    page.clear();
  };
  const std::size_t stored_sectors = (pack.size() + kSector - 1) / kSector;
  for (const std::string_view part :
       {std::string_view(padded).substr(0, stored_sectors * kSector), std::string_view(parity)}) {
    for (std::size_t at = 0; at < part.size(); at += kSector) {
      page += ReferenceDigest(DigestAlgorithm::kXxh3_128, part.substr(at, kSector), kSum);
      if (page.size() == 511 * kSum) end_page();
    }
  }
  end_page();
  std::string pieces;
  for (std::size_t at = 0; at < pack.size(); at += 1 << 20) {
    pieces += ReferenceDigest(DigestAlgorithm::kBlake3, pack.substr(at, 1 << 20), 32);
  }
  std::string head = "KERFPRTY" + ReferenceNumber(1, 4) + ReferenceNumber(0, 4);
  head += id;
  head += ReferenceNumber(pack.size(), 8) + ReferenceNumber(group_count, 4) +
          ReferenceNumber(data_count, 4) + ReferenceNumber(parity_count, 4) +
          ReferenceNumber(0, 12);
  head += ReferenceDigest(DigestAlgorithm::kBlake3, pieces, 32);
  head += ReferenceDigest(DigestAlgorithm::kBlake3, head, 32);
  std::string front = head + table;
  front.resize((front.size() + kSector - 1) / kSector * kSector);
  return front + parity + table + head;
}

}  // namespace kerf::agent
