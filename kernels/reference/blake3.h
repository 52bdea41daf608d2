// BLAKE3 in hash mode (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, "BLAKE3: one function, fast
// everywhere", 2021, section 2) in its plainest form: the specification that runs. The fast form is
// kernels/fingerprint/blake3.h and is held equal to it by tests.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace kerf {

// The 32-byte hash of `bytes`. Pure.
std::array<std::uint8_t, 32> Blake3Reference(std::span<const std::uint8_t> bytes);

}  // namespace kerf
