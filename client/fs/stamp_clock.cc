#include "client/fs/stamp_clock.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace kerf::agent {
namespace {

// Those without a name in linux/magic.h.
constexpr std::uint64_t kZfs = 0x2FC12FC1;
constexpr std::uint64_t kBcachefs = 0xCA451A4E;
constexpr std::uint64_t kJfs = 0x3153464A;
constexpr std::uint64_t kUbifs = 0x24051905;
constexpr std::uint64_t kNtfs = 0x7366746E;
constexpr std::uint64_t kHfsPlus = 0x482B;

// What this kernel writes itself. A cluster's file system (GFS2, OCFS2) is not among them: each of
// its machines has a clock.
constexpr std::uint64_t kLocal[] = {
    EXT4_SUPER_MAGIC,
    XFS_SUPER_MAGIC,
    BTRFS_SUPER_MAGIC,
    TMPFS_MAGIC,
    RAMFS_MAGIC,
    OVERLAYFS_SUPER_MAGIC,
    F2FS_SUPER_MAGIC,
    NILFS_SUPER_MAGIC,
    REISERFS_SUPER_MAGIC,
    UDF_SUPER_MAGIC,
    MINIX2_SUPER_MAGIC,
    MINIX3_SUPER_MAGIC,
    ECRYPTFS_SUPER_MAGIC,
    JFFS2_SUPER_MAGIC,
    kZfs,
    kBcachefs,
    kJfs,
    kUbifs,
    kNtfs,
    kHfsPlus,
};

// Whose ctime says nothing. FAT: the kernel keeps it the same as the mtime, which any program sets;
// exFAT and the first minix: it is the mtime as often as an inode is read. The others are images,
// whose times their makers choose, all the same one for builds that are to be reproducible.
constexpr std::uint64_t kAnybodys[] = {
    MSDOS_SUPER_MAGIC, EXFAT_SUPER_MAGIC, MINIX_SUPER_MAGIC, MINIX_SUPER_MAGIC2,
    ISOFS_SUPER_MAGIC, SQUASHFS_MAGIC,    CRAMFS_MAGIC,      EROFS_SUPER_MAGIC_V1,
};

template <std::size_t kCount>
bool IsOneOf(const std::uint64_t (&types)[kCount], std::uint64_t type) {
  return std::find(std::begin(types), std::end(types), type) != std::end(types);
}

}  // namespace

Timestamp StampClockNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return {now.tv_sec, static_cast<std::uint32_t>(now.tv_nsec)};
}

StampedBy WhoStamps(int fd) {
  struct statfs status{};
  if (fstatfs(fd, &status) != 0) return StampedBy::kSomebodyElse;
  const auto type = static_cast<std::uint64_t>(status.f_type) & UINT32_MAX;
  if (IsOneOf(kAnybodys, type)) return StampedBy::kAnybody;
  return IsOneOf(kLocal, type) ? StampedBy::kThisMachine : StampedBy::kSomebodyElse;
}

bool IsSettled(const Timestamp& changed, const Timestamp& now, StampedBy stamped_by) {
  if (stamped_by == StampedBy::kAnybody) return false;
  const std::int64_t wait_seconds =
      stamped_by == StampedBy::kThisMachine ? kSettleSeconds : kForeignSettleSeconds;
  const Timestamp latest{now.seconds - wait_seconds, now.nanoseconds};
  return changed != Timestamp() && changed <= latest;
}

bool IsSettledOn(int fd, const Timestamp& changed, const Timestamp& now) {
  return IsSettled(changed, now, WhoStamps(fd));
}

}  // namespace kerf::agent
