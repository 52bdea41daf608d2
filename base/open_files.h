// How many files and connections this process may have open.
#pragma once

#include <cstdint>

namespace kerf {

// Raises the limit to `wanted` if it is lower, or as far as the system lets it, for this process
// and what it starts. Returns the limit as it is then, 0 if it cannot be told.
std::uint64_t RaiseOpenFileLimit(std::uint64_t wanted);

// Whether the process may open `count` more files now; takes one itself to see.
bool HasOpenFilesLeft(int count);

}  // namespace kerf
