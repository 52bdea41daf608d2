// Whether a file could still change without its ctime telling.
#pragma once

#include <cstdint>

#include "client/fs/node.h"

namespace kerf::agent {

// Who sets the times of a file system: a local one this machine's kernel, by its own clock; one of
// the network, or of a program (FUSE), somebody with another clock. Where there is no ctime beside
// the mtime (FAT), or a program has written it into an image (squashfs, ISO 9660), anybody can set
// it to what it was, and another image can come to the same device with the same one.
enum class StampedBy : std::uint8_t { kThisMachine, kSomebodyElse, kAnybody };

// Changes within so long after a ctime may get the same one: file systems count in ticks, in
// seconds, or in two of them, and a long write(2) sets it once, when it begins.
inline constexpr std::int64_t kSettleSeconds = 2;
// The same where another clock sets it: that may lag behind this one by nearly as much.
inline constexpr std::int64_t kForeignSettleSeconds = 3600;

// The clock by which this kernel stamps: that of its ticks, which lags behind the one of programs.
Timestamp StampClockNow();

// Of the file system of an open file; an unknown one counts as somebody else's.
StampedBy WhoStamps(int fd);

// True if no change from `now` on can get the ctime `changed`, unless a clock is set back. False
// for a ctime from the future, for that of a file system that has none (zero), and where anybody
// sets it.
bool IsSettled(const Timestamp& changed, const Timestamp& now, StampedBy stamped_by);
// The same on the file system of an open file.
bool IsSettledOn(int fd, const Timestamp& changed, const Timestamp& now);

}  // namespace kerf::agent
