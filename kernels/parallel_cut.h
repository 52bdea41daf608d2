// All cuts of one large range in memory, by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/profile.h"
#include "kernels/registry.h"
#include "kernels/twostage/mark.h"

namespace kerf {

// What a thread marks at a time: little enough for its marks to stay in its cache, much enough for
// the threads to meet seldom.
inline constexpr std::size_t kDefaultSegmentBytes = 256 << 10;

struct ParallelCutOptions {
  // With the calling one; at least 1. Fewer are used where there are fewer segments, or where the
  // system has no more.
  std::size_t thread_count = 1;
  // Rounded up to a multiple of kWordPositions; not 0.
  std::size_t segment_bytes = kDefaultSegmentBytes;
  // Whose kernels: as MakeChunkerOf, and one that implements the profile here. One without marks of
  // its own takes the scalar ones.
  std::string_view backend = kAutomaticBackend;
};

// The ends of all chunks: those that NextCut after NextCut gives, whatever the options. Profiles
// with a TwoStageRule are cut by all threads, others by the calling one alone. Memory beside the
// result: a quarter byte for each byte of max_bytes and of a few segments a thread.
std::vector<std::uint64_t> CutInParallel(const Profile& profile,
                                         std::span<const std::uint8_t> bytes,
                                         const ParallelCutOptions& options);

// The same with a rule and a marker of one's own.
std::vector<std::uint64_t> CutInParallel(const TwoStageRule& rule, const Marker& marker,
                                         std::span<const std::uint8_t> bytes,
                                         const ParallelCutOptions& options);

// The marker of a backend that runs here, or the scalar one where it has none; kAutomaticBackend is
// the one that ChosenBackend names, or the widest where that one has none. None for a profile
// without a TwoStageRule.
std::unique_ptr<Marker> MakeMarker(const Profile& profile,
                                   std::string_view backend = kAutomaticBackend);

}  // namespace kerf
