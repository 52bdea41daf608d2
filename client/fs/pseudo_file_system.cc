#include "client/fs/pseudo_file_system.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace kerf::agent {
namespace {

// Those without a name in linux/magic.h.
constexpr std::uint64_t kConfigfs = 0x62656570;
constexpr std::uint64_t kMqueue = 0x19800202;
constexpr std::uint64_t kFusectl = 0x65735543;
constexpr std::uint64_t kRpcPipefs = 0x67596969;
constexpr std::uint64_t kNfsd = 0x6E667364;

// Nobody can keep a file of his own in any of them.
constexpr std::uint64_t kPseudo[] = {
    PROC_SUPER_MAGIC,
    SYSFS_MAGIC,
    DEVPTS_SUPER_MAGIC,
    CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC,
    DEBUGFS_MAGIC,
    TRACEFS_MAGIC,
    SECURITYFS_MAGIC,
    SELINUX_MAGIC,
    SMACK_MAGIC,
    AAFS_MAGIC,
    BPF_FS_MAGIC,
    PSTOREFS_MAGIC,
    EFIVARFS_MAGIC,
    BINFMTFS_MAGIC,
    BINDERFS_SUPER_MAGIC,
    RDTGROUP_SUPER_MAGIC,
    XENFS_SUPER_MAGIC,
    OPENPROM_SUPER_MAGIC,
    USBDEVICE_SUPER_MAGIC,
    NSFS_MAGIC,
    kConfigfs,
    kMqueue,
    kFusectl,
    kRpcPipefs,
    kNfsd,
};

}  // namespace

bool IsOnPseudoFileSystem(int fd) {
  struct statfs status{};
  if (fstatfs(fd, &status) != 0) return false;
  const auto type = static_cast<std::uint64_t>(status.f_type) & UINT32_MAX;
  return std::find(std::begin(kPseudo), std::end(kPseudo), type) != std::end(kPseudo);
}

}  // namespace kerf::agent
