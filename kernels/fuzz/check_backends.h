// What the fuzz targets of the kernels share.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/profile.h"
#include "kernels/reference/reference.h"
#include "kernels/registry.h"

namespace kerf {

// Every backend cuts `input`, less the bits of `mask` in each byte, as the reference does.
inline void CheckBackends(const Profile& profile, std::span<const std::uint8_t> input,
                          std::uint8_t mask) {
  // An allocation of its own, of exactly that size: the address sanitizer sees reads behind it.
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(byte & ~mask);
  for (const std::string_view backend : BackendsFor(profile)) {
    const std::unique_ptr<Chunker> chunker = *MakeChunkerOf(backend, profile);
    for (std::span<const std::uint8_t> rest = bytes; !rest.empty();) {
      const std::size_t length = chunker->NextCut(rest);
      KERF_CHECK(length == ReferenceNextCut(profile, rest));
      rest = rest.subspan(length);
    }
  }
}

}  // namespace kerf
