// What every chunker owes (architecture: cuts are a file format), as tests over nasty inputs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/profile.h"

namespace kerf {

// Ends of all chunks of `bytes`, one NextCut after another.
std::vector<std::uint64_t> CutAll(const Chunker& chunker, std::span<const std::uint8_t> bytes);

// SHA-256 over the ends as little-endian 64-bit values, first 16 bytes in hexadecimal: how golden
// vectors name a list of cuts.
std::string CutsDigest(std::span<const std::uint64_t> ends);

// Runs all checks of `chunker`, which claims to implement `profile`, as gtest expectations:
// chunks cover the input with sizes within bounds, the cuts are the reference's, bytes behind
// max_chunk_bytes change nothing, cutting can start again at every cut, a longer input keeps all
// but the last chunk, and a StreamCutter gives the same cuts for every slicing.
void CheckChunkerConforms(const Chunker& chunker, const Profile& profile);

}  // namespace kerf
