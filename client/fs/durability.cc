#include "client/fs/durability.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace kerf::agent {
namespace {

int ErrorOf(int result) { return result == 0 ? 0 : errno; }

class Kernel final : public Durability {
 public:
  int Flush(int fd) override {
    const int copy = dup(fd);
    if (copy < 0) return errno;
    // Linux closes it whatever it says, and it is flushed before that can be interrupted.
    const int error = ErrorOf(close(copy));
    return error == EINTR ? 0 : error;
  }

  int SyncFile(int fd) override {
    const int error = ErrorOf(fsync(fd));
    // Some file systems sync no directories. All of them together they do, and that takes longer.
    // EROFS is none of these: so ext4 and btrfs say that they have failed and kept nothing.
    const bool is_unknown = error == EINVAL || error == EOPNOTSUPP || error == ENOSYS;
    return is_unknown ? SyncFileSystem(fd) : error;
  }

  int SyncFileSystem(int fd) override { return ErrorOf(syncfs(fd)); }

  bool SyncsAsAWhole(int fd) override {
    struct statfs system{};
    // Linux tells the process behind such a file system of fsync, and nothing of syncfs.
    return fstatfs(fd, &system) == 0 && system.f_type != FUSE_SUPER_MAGIC;
  }
};

}  // namespace

Durability& SystemDurability() {
  static Kernel kernel;
  return kernel;
}

}  // namespace kerf::agent
