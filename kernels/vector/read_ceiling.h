// How fast one core can read: the yardstick of every kernel (docs/performance.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kerf {

// Loads every byte of whole blocks of 256 bytes once, in order, and adds them up; the sum keeps the
// compiler from leaving the loads out.
using ReadBytes = std::uint64_t (*)(std::span<const std::uint8_t> bytes);

// The reader that was compiled for a Highway target; none if there is none.
ReadBytes ReaderFor(long long target);

// One for each vector target that runs here; the ceiling is that of the fastest. Empty where there
// are no vector targets.
std::vector<ReadBytes> Readers();

}  // namespace kerf
