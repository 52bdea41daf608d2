#include "client/fs/stamp_clock.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <time.h>

#include <algorithm>
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
    MSDOS_SUPER_MAGIC,
    EXFAT_SUPER_MAGIC,
    ISOFS_SUPER_MAGIC,
    UDF_SUPER_MAGIC,
    SQUASHFS_MAGIC,
    EROFS_SUPER_MAGIC_V1,
    MINIX_SUPER_MAGIC,
    MINIX2_SUPER_MAGIC,
    MINIX3_SUPER_MAGIC,
    ECRYPTFS_SUPER_MAGIC,
    JFFS2_SUPER_MAGIC,
    CRAMFS_MAGIC,
    kZfs,
    kBcachefs,
    kJfs,
    kUbifs,
    kNtfs,
    kHfsPlus,
};

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
  const bool is_local = std::find(std::begin(kLocal), std::end(kLocal), type) != std::end(kLocal);
  return is_local ? StampedBy::kThisMachine : StampedBy::kSomebodyElse;
}

bool IsSettled(const Timestamp& changed, const Timestamp& now, StampedBy stamped_by) {
  const std::int64_t wait_seconds =
      stamped_by == StampedBy::kThisMachine ? kSettleSeconds : kForeignSettleSeconds;
  const Timestamp latest{now.seconds - wait_seconds, now.nanoseconds};
  return changed != Timestamp() && changed <= latest;
}

bool IsSettledOn(int fd, const Timestamp& changed, const Timestamp& now) {
  // Most files are older than matters to either.
  return IsSettled(changed, now, StampedBy::kSomebodyElse) ||
         (IsSettled(changed, now, StampedBy::kThisMachine) &&
          WhoStamps(fd) == StampedBy::kThisMachine);
}

}  // namespace kerf::agent
