// Small files with a magic, a version and a checksum around a payload.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf::agent {

// "KERF" and four letters that say what the file is.
using FileMagic = std::array<char, 8>;

inline constexpr FileMagic kConfigMagic = {'K', 'E', 'R', 'F', 'C', 'O', 'N', 'F'};
inline constexpr FileMagic kSnapshotMagic = {'K', 'E', 'R', 'F', 'S', 'N', 'A', 'P'};
inline constexpr FileMagic kEpochMagic = {'K', 'E', 'R', 'F', 'E', 'P', 'O', 'C'};
inline constexpr FileMagic kPlanMagic = {'K', 'E', 'R', 'F', 'P', 'L', 'A', 'N'};
inline constexpr FileMagic kNoteMagic = {'K', 'E', 'R', 'F', 'N', 'O', 'T', 'E'};
inline constexpr FileMagic kMemoryMagic = {'K', 'E', 'R', 'F', 'M', 'E', 'M', 'O'};
inline constexpr FileMagic kPinMagic = {'K', 'E', 'R', 'F', 'P', 'I', 'N', 'S'};
inline constexpr FileMagic kParitySettingMagic = {'K', 'E', 'R', 'F', 'P', 'S', 'E', 'T'};

// Of all files but some snapshots.
inline constexpr std::uint32_t kFirstFramedVersion = 1;
// Of snapshots with hard links of what is no file: a kerf that does not know them must not read on.
inline constexpr std::uint32_t kLinkedSnapshotVersion = 2;

// Magic, version (u32), reserved (u32), payload length (u64), payload, BLAKE3 of all before it.
std::vector<std::uint8_t> EncodeFramed(const FileMagic& magic, std::string_view payload,
                                       std::uint32_t version = kFirstFramedVersion);

// DataLoss if the bytes are not what EncodeFramed made; FailedPrecondition for a later version, of
// which all that is known is that it ends with the checksum, too.
absl::StatusOr<std::string> DecodeFramed(const FileMagic& magic,
                                         std::span<const std::uint8_t> bytes);

// What EncodeFramed made, from a file. The errors are those of DecodeFramed and ReadWholeFile, and
// name the file.
absl::StatusOr<std::string> ReadFramedFile(const std::string& path, const FileMagic& magic,
                                           std::uint64_t max_bytes);

}  // namespace kerf::agent
