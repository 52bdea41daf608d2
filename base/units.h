// Byte sizes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kerf {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr std::uint64_t kTiB = 1024 * kGiB;

// "4096", "64K", "64KiB", "1.5M", "2G" or "1T" in bytes; units are powers of 1024, case does not
// matter. InvalidArgument says what is wrong with anything else.
absl::StatusOr<std::uint64_t> ParseByteSize(std::string_view text);

// "512 B", "1.5 KiB", "866.0 MiB": for people, not for machines.
std::string FormatByteSize(std::uint64_t bytes);

}  // namespace kerf
