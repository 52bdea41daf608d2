// XXH3 (xxHash 0.8) with seed 0, in the widest vectors that this machine has: not cryptographic,
// for checks against faulty memory and networks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/fingerprint/xxh3_target.h"

namespace kerf {

// Canonical (big-endian) form.
using Xxh3Digest = std::array<std::uint8_t, xxh3::kDigestBytes>;

// Pure and thread-safe; the same on every machine.
std::uint64_t Xxh3Of64(std::span<const std::uint8_t> bytes);
Xxh3Digest Xxh3Of128(std::span<const std::uint8_t> bytes);

// The 128-bit hash of bytes that come in pieces. Not thread-safe.
class Xxh3Stream {
 public:
  Xxh3Stream();

  // Begins anew.
  void Reset();
  void Update(std::span<const std::uint8_t> bytes);
  // Of all since Reset; more may follow.
  Xxh3Digest Digest() const;

 private:
  const xxh3::Target& target_;
  const std::unique_ptr<xxh3::State> state_;
};

// Those that this machine can run, the fastest first; never empty. For tests.
std::span<const xxh3::Target* const> Xxh3Targets();

}  // namespace kerf
