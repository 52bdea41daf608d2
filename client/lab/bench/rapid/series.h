// Versions of the same files, in order: what RapidCDC is measured on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/testing/edits.h"

namespace kerf::bench {

using Bytes = std::span<const std::uint8_t>;

// Borrows its bytes.
struct Series {
  std::string name;
  // Of each version the files, none of them empty; the first version is stored, the later ones are
  // compared with it. At least two.
  std::vector<std::vector<Bytes>> versions;

  std::uint64_t TotalBytes() const;
  // Without the first version.
  std::uint64_t LaterBytes() const;
};

struct SeriesRule {
  std::uint64_t size_bytes = 0;
  std::uint32_t version_count = 2;
  // Of each version, on the one before it.
  EditRule edits;
  std::uint64_t seed = 0;
};

// One file of random bytes and its later versions (RapidCDC, section 4.2).
std::vector<std::vector<std::uint8_t>> MakeVersions(const SeriesRule& rule);

}  // namespace kerf::bench
