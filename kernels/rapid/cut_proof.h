// What a rule looked at to cut where it did: why a cut that was made once may be made again without
// the scan. README.md has the argument for each algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"

namespace kerf {

// How many bytes behind a cut had a say in it: where the rule has cut a chunk shorter than
// max_bytes with the file going on behind it, it cuts again wherever the chunk and so many bytes
// behind it are the same, unless the file ends at most one byte behind these.
//
//   0          rabin, fixed: the byte that makes the cut belongs to the chunk
//   1          gear, fastcdc, fastcdc2020, crc, ae-*, ram, seqcdc: it begins the next one
//   window + 1 maxp, maxp-local: the maximum begins the next chunk, and its window lies behind it
//   max_bytes  mincdc, maxcdc: it must beat all places up to max. tttd: a cut by the small divisor
//              stands only if the large one cuts nowhere up to max
std::size_t BytesBehindCut(const Profile& profile);

// Whether a chunk that the rule cut, not because a file ended, is cut the same wherever its bytes
// stand.
bool CutDependsOnChunkAlone(const Profile& profile);

// Whether a cut moves with the bytes around it: the rule tests every place by what stands near it.
// The others test by the front of the chunk or by places at steps from it.
bool CutsShiftWithBytes(const Profile& profile);

// The rolling window test (RapidCDC, section 3.2, FF+RWT), widened to rules without a rolling hash:
// what the rule tests at a cut of `length`, without what it had to pass before it got there.
// `bytes` as for Chunker::NextCut, `base` cuts by `profile`. False where no chunk can end. A cut
// at max_bytes or at the end of the file passes, since nothing is tested there. Bytes looked at:
// the window of the hash for rabin, tttd, crc, gear and fastcdc*; two for ae-*, seqcdc; all up to
// max_bytes behind the cut for mincdc, maxcdc; both windows for maxp*; the first window for ram.
// tttd passes by the large divisor only.
bool RollingWindowTest(const Chunker& base, const Profile& profile,
                       std::span<const std::uint8_t> bytes, std::size_t length);

// True only if base.NextCut(bytes) == length, provided that bytes.first(length) is a chunk that a
// chunker of `profile` has cut, anywhere, and not because the file ended. False says nothing. ram
// is proven only where one byte does, because it scans as fast as it could be proven.
bool ProvesCut(const Chunker& base, const Profile& profile, std::span<const std::uint8_t> bytes,
               std::size_t length);

}  // namespace kerf
