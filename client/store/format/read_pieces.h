// Reads past what cannot be read.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace kerf::agent {

// A sector that cannot be read takes no more with it than this.
inline constexpr std::uint64_t kPieceBytes = 4096;

// Reads piece by piece from `offset` on where it cannot be read at once; zeros where nothing could
// be read. Why the first such piece could not be; OK if all could.
absl::Status ReadPieces(int fd, std::span<std::uint8_t> bytes, std::uint64_t offset,
                        const std::string& path);

}  // namespace kerf::agent
