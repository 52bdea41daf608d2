// The hash of a file as its recipe names it: by which both ends of an upload know that they speak
// of the same chunks where no bytes are sent (docs/spec/protocol.md, PRO-80).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/fingerprint/digest.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf {

// XXH3-128 of each chunk's digest and length, one behind the other. Not thread-safe.
class RecipeHash {
 public:
  void Reset() { hash_.Reset(); }

  void Add(const Digest& digest, std::size_t digest_bytes, std::uint32_t length_bytes) {
    constexpr std::size_t kLengthBytes = 4;
    std::array<std::uint8_t, sizeof(Digest::bytes) + kLengthBytes> named;
    std::memcpy(named.data(), digest.bytes.data(), digest_bytes);
    for (std::size_t index = 0; index < kLengthBytes; ++index) {
      named[digest_bytes + index] = static_cast<std::uint8_t>(length_bytes >> (8 * index));
    }
    hash_.Update({named.data(), digest_bytes + kLengthBytes});
  }

  // Of all since Reset; more may follow.
  Xxh3Digest Value() const { return hash_.Digest(); }

 private:
  Xxh3Stream hash_;
};

}  // namespace kerf
