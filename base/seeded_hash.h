// Hashes for tables whose keys others choose.
#pragma once

#include <cstdint>
#include <string_view>

namespace kerf {

// By a secret of 192 random bytes that each process draws: whoever does not know it cannot make
// keys that meet. A seed alone does not do that: hashes that multiply, as absl::Hash and XXH3 with
// a seed, have constants that everybody knows, and eight bytes of a key that are equal to one of
// them make a product 0, whatever the seed is. Not for what is kept or sent. Thread-safe.
std::uint64_t SeededHash(std::string_view bytes);

}  // namespace kerf
