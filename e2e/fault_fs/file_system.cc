#include "e2e/fault_fs/file_system.h"

#define FUSE_USE_VERSION 312

#include <dirent.h>
#include <fcntl.h>
#include <fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace kerf::fault_fs {
namespace {

constexpr auto kDelay = std::chrono::milliseconds(30);
constexpr std::int64_t kSecond_ns = 1'000'000'000;
constexpr int kIdleThreads = 4;
// How libfuse names what was removed and is open still; elsewhere nobody sees such files.
constexpr std::string_view kHidden = ".fuse_hidden";

FileSystem& Files() { return *static_cast<FileSystem*>(fuse_get_context()->private_data); }

// The working directory is the root. Without a path it is a file that has no name any more.
const char* At(const char* path) {
  if (path == nullptr) return "";
  return path[0] == '/' && path[1] == '\0' ? "." : path + 1;
}

bool IsHidden(std::string_view name) { return name.substr(0, kHidden.size()) == kHidden; }

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

int Result(long result) { return result < 0 ? -errno : static_cast<int>(result); }
int Handle(const fuse_file_info* info) { return static_cast<int>(info->fh); }

// What the rules say of an operation; who is to be stopped or killed is.
Outcome Ask(std::string_view operation, const char* path) {
  const Outcome outcome = Files().rules.Ask(operation, path == nullptr ? "" : path);
  const pid_t caller = fuse_get_context()->pid;
  if (outcome.action == Action::kStop) kill(caller, SIGSTOP);
  if (outcome.action == Action::kKill) kill(caller, SIGKILL);
  if (outcome.action == Action::kDelay) std::this_thread::sleep_for(kDelay);
  return outcome;
}

bool Fails(const Outcome& outcome) {
  return outcome.action == Action::kError || outcome.action == Action::kDropError;
}

// `perform` returns what the operation does, or -errno.
template <typename Perform>
int Try(std::string_view operation, const char* path, Perform perform) {
  const Outcome outcome = Ask(operation, path);
  if (Fails(outcome)) return -outcome.error;
  const int result = perform();
  return outcome.action == Action::kLateError && result >= 0 ? -outcome.error : result;
}

void Round(timespec& time, std::int64_t granularity_ns) {
  const std::int64_t seconds = std::max<std::int64_t>(1, granularity_ns / kSecond_ns);
  // Rounded down before 1970, too.
  time.tv_sec -= ((time.tv_sec % seconds) + seconds) % seconds;
  time.tv_nsec = granularity_ns >= kSecond_ns ? 0 : time.tv_nsec - time.tv_nsec % granularity_ns;
}

void* Init(fuse_conn_info* connection, fuse_config* config) {
  connection->max_background = 64;
  config->use_ino = 1;
  // Rules go by paths, also of what is done to open files.
  config->nullpath_ok = 0;
  config->direct_io = 1;
  config->entry_timeout = 0;
  config->attr_timeout = 0;
  config->negative_timeout = 0;
  return fuse_get_context()->private_data;
}

int GetAttr(const char* path, struct stat* found, fuse_file_info* info) {
  return Try("getattr", path, [&] {
    const int result =
        Result(info != nullptr ? fstat(Handle(info), found) : lstat(At(path), found));
    const std::int64_t granularity_ns = Files().granularity_ns.load();
    for (timespec* const time : {&found->st_atim, &found->st_mtim, &found->st_ctim}) {
      Round(*time, granularity_ns);
    }
    return result;
  });
}

int ReadLink(const char* path, char* target, std::size_t size) {
  return Try("readlink", path, [&] {
    std::fill_n(target, size, '\0');
    return readlink(At(path), target, size - 1) < 0 ? -errno : 0;
  });
}

// Operations that make or take a name.

template <typename Perform>
int TryName(std::string_view operation, const char* path, Perform perform) {
  return Try(operation, path, [&] {
    Files().unsynced.BeforeName(At(path));
    return perform();
  });
}

int MakeNode(const char* path, mode_t mode, dev_t device) {
  return TryName("mknod", path, [&] { return Result(mknod(At(path), mode, device)); });
}

int MakeDirectory(const char* path, mode_t mode) {
  return TryName("mkdir", path, [&] { return Result(mkdir(At(path), mode)); });
}

int Unlink(const char* path) {
  return TryName("unlink", path, [&] { return Result(unlink(At(path))); });
}

int RemoveDirectory(const char* path) {
  return Try("rmdir", path, [&] { return Result(rmdir(At(path))); });
}

int MakeSymlink(const char* target, const char* path) {
  return TryName("symlink", path, [&] { return Result(symlink(target, At(path))); });
}

int Link(const char* from, const char* to) {
  return TryName("link", to,
                 [&] { return Result(linkat(AT_FDCWD, At(from), AT_FDCWD, At(to), 0)); });
}

int Rename(const char* from, const char* to, unsigned flags) {
  // Of what is removed and open: it is hidden until it is closed.
  const bool removes = IsHidden(NameOf(to));
  return Try(removes ? "unlink" : "rename", removes ? from : to, [&] {
    Files().unsynced.BeforeRename(At(from), At(to));
    return Result(renameat2(AT_FDCWD, At(from), AT_FDCWD, At(to), flags));
  });
}

int Create(const char* path, mode_t mode, fuse_file_info* info) {
  return TryName("create", path, [&] {
    const int file = open(At(path), (info->flags & ~O_DIRECT) | O_CLOEXEC, mode);
    if (file < 0) return -errno;
    Files().unsynced.AfterCreate(file);
    info->fh = static_cast<std::uint64_t>(file);
    return 0;
  });
}

// Operations on bytes.

int Open(const char* path, fuse_file_info* info) {
  return Try("open", path, [&] {
    const int flags = info->flags & ~(O_DIRECT | O_TRUNC);
    const int file = open(At(path), flags | O_CLOEXEC);
    if (file < 0) return -errno;
    if ((info->flags & O_TRUNC) != 0) {
      Files().unsynced.BeforeWrite(file);
      if (ftruncate(file, 0) != 0) return close(file), -errno;
    }
    info->fh = static_cast<std::uint64_t>(file);
    return 0;
  });
}

int Read(const char* path, char* buffer, std::size_t size, off_t offset, fuse_file_info* info) {
  const Outcome outcome = Ask("read", path);
  if (Fails(outcome)) return -outcome.error;
  if (outcome.action == Action::kShort) size = std::max<std::size_t>(1, size / 2);
  const int result = Result(pread(Handle(info), buffer, size, offset));
  if (result < 0) return result;
  if (outcome.action == Action::kLateError) return -outcome.error;
  const auto count = static_cast<std::size_t>(result);
  if (outcome.action == Action::kZeros) std::fill_n(buffer, count, '\0');
  if (outcome.action == Action::kFlip && count > 0) {
    buffer[count / 2] = static_cast<char>(buffer[count / 2] ^ 4);
  }
  return result;
}

int Write(const char* path, const char* bytes, std::size_t size, off_t offset,
          fuse_file_info* info) {
  const Outcome outcome = Ask("write", path);
  if (Fails(outcome)) return -outcome.error;
  if (outcome.action == Action::kShort) size = std::max<std::size_t>(1, size / 2);
  Files().unsynced.BeforeWrite(Handle(info));
  const int result = Result(pwrite(Handle(info), bytes, size, offset));
  Files().unflushed.Wrote(Handle(info), offset, result);
  return outcome.action == Action::kLateError && result >= 0 ? -outcome.error : result;
}

int Truncate(const char* path, off_t size, fuse_file_info* info) {
  return Try("truncate", path, [&] {
    const int file = info != nullptr ? dup(Handle(info)) : open(At(path), O_WRONLY | O_CLOEXEC);
    if (file < 0) return -errno;
    Files().unsynced.BeforeWrite(file);
    const int result = Result(ftruncate(file, size));
    close(file);
    return result;
  });
}

int Allocate(const char* path, int mode, off_t offset, off_t length, fuse_file_info* info) {
  return Try("fallocate", path, [&] {
    Files().unsynced.BeforeWrite(Handle(info));
    return Result(fallocate(Handle(info), mode, offset, length));
  });
}

off_t Seek(const char* path, off_t offset, int whence, fuse_file_info* info) {
  const Outcome outcome = Ask("lseek", path);
  if (Fails(outcome)) return -outcome.error;
  const off_t place = lseek(Handle(info), offset, whence);
  return place < 0 ? -errno : place;
}

// An operation behind which what was written stays, or is lost with its error.
template <typename Perform>
int TryToKeep(std::string_view operation, const char* path, int file, Perform perform) {
  const Outcome outcome = Ask(operation, path);
  if (outcome.action == Action::kDropError) Files().unflushed.Drop(file);
  if (Fails(outcome)) return -outcome.error;
  const int result = perform();
  if (result >= 0) Files().unflushed.Kept(file);
  return outcome.action == Action::kLateError && result >= 0 ? -outcome.error : result;
}

// close() answers what this does.
int Flush(const char* path, fuse_file_info* info) {
  return TryToKeep("flush", path, Handle(info), [&] { return Result(close(dup(Handle(info)))); });
}

int Release(const char* path, fuse_file_info* info) {
  static_cast<void>(path);
  Files().unflushed.Kept(Handle(info));
  close(Handle(info));
  return 0;
}

int Sync(const char* path, int data_only, fuse_file_info* info) {
  return TryToKeep("fsync", path, Handle(info), [&] {
    // The model of the disk is enough for what is under test; the machine's own is not asked.
    static_cast<void>(data_only);
    Files().unsynced.Synced(Handle(info));
    return 0;
  });
}

// Directories.

int OpenDirectory(const char* path, fuse_file_info* info) {
  return Try("opendir", path, [&] {
    const int directory = open(At(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return -errno;
    info->fh = static_cast<std::uint64_t>(directory);
    return 0;
  });
}

int ReadDirectory(const char* path, void* buffer, fuse_fill_dir_t fill, off_t offset,
                  fuse_file_info* info, fuse_readdir_flags flags) {
  static_cast<void>(offset);
  static_cast<void>(flags);
  return Try("readdir", path, [&] {
    DIR* const directory = fdopendir(dup(Handle(info)));
    if (directory == nullptr) return -errno;
    rewinddir(directory);
    int result = 0;
    do {
      errno = 0;
      const dirent* const entry = readdir(directory);
      if (entry == nullptr) {
        result = -errno;
        break;
      }
      if (IsHidden(entry->d_name)) continue;
      struct stat known{};
      known.st_ino = entry->d_ino;
      known.st_mode = DTTOIF(entry->d_type);
      result = fill(buffer, entry->d_name, &known, 0, static_cast<fuse_fill_dir_flags>(0));
    } while (result == 0);
    closedir(directory);
    return result > 0 ? -ENOMEM : result;
  });
}

int SyncDirectory(const char* path, int data_only, fuse_file_info* info) {
  static_cast<void>(data_only);
  return Try("fsyncdir", path, [&] {
    Files().unsynced.SyncedDirectory(Handle(info));
    return 0;
  });
}

// What else a node has.

int ChangeMode(const char* path, mode_t mode, fuse_file_info* info) {
  return Try("chmod", path, [&] {
    return Result(info != nullptr ? fchmod(Handle(info), mode) : chmod(At(path), mode));
  });
}

int ChangeOwner(const char* path, uid_t owner, gid_t group, fuse_file_info* info) {
  return Try("chown", path, [&] {
    return Result(info != nullptr ? fchown(Handle(info), owner, group)
                                  : lchown(At(path), owner, group));
  });
}

int ChangeTimes(const char* path, const timespec* times, fuse_file_info* info) {
  return Try("utimens", path, [&] {
    return Result(info != nullptr ? futimens(Handle(info), times)
                                  : utimensat(AT_FDCWD, At(path), times, AT_SYMLINK_NOFOLLOW));
  });
}

int SetAttribute(const char* path, const char* name, const char* value, std::size_t size,
                 int flags) {
  return Try("setxattr", path,
             [&] { return Result(lsetxattr(At(path), name, value, size, flags)); });
}

int GetAttribute(const char* path, const char* name, char* value, std::size_t size) {
  return Try("getxattr", path, [&] { return Result(lgetxattr(At(path), name, value, size)); });
}

int ListAttributes(const char* path, char* names, std::size_t size) {
  return Try("listxattr", path, [&] { return Result(llistxattr(At(path), names, size)); });
}

int RemoveAttribute(const char* path, const char* name) {
  return Try("removexattr", path, [&] { return Result(lremovexattr(At(path), name)); });
}

int StatFileSystem(const char* path, struct statvfs* found) {
  return Try("statfs", path, [&] { return Result(statvfs(At(path), found)); });
}

fuse_operations Operations() {
  fuse_operations operations{};
  operations.init = Init;
  operations.getattr = GetAttr;
  operations.readlink = ReadLink;
  operations.mknod = MakeNode;
  operations.mkdir = MakeDirectory;
  operations.unlink = Unlink;
  operations.rmdir = RemoveDirectory;
  operations.symlink = MakeSymlink;
  operations.rename = Rename;
  operations.link = Link;
  operations.chmod = ChangeMode;
  operations.chown = ChangeOwner;
  operations.truncate = Truncate;
  operations.open = Open;
  operations.create = Create;
  operations.read = Read;
  operations.write = Write;
  operations.statfs = StatFileSystem;
  operations.flush = Flush;
  operations.release = Release;
  operations.fsync = Sync;
  operations.setxattr = SetAttribute;
  operations.getxattr = GetAttribute;
  operations.listxattr = ListAttributes;
  operations.removexattr = RemoveAttribute;
  operations.opendir = OpenDirectory;
  operations.readdir = ReadDirectory;
  operations.releasedir = Release;
  operations.fsyncdir = SyncDirectory;
  operations.utimens = ChangeTimes;
  operations.fallocate = Allocate;
  operations.lseek = Seek;
  return operations;
}

}  // namespace

int Serve(FileSystem& files, const std::string& mount_point) {
  const fuse_operations operations = Operations();
  std::array<std::string, 3> words = {"fault_fs", "-o", "dev,suid,allow_other,fsname=fault_fs"};
  std::array<char*, 3> pointers = {words[0].data(), words[1].data(), words[2].data()};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(pointers.size()), pointers.data());
  fuse* const served = fuse_new(&arguments, &operations, sizeof operations, &files);
  fuse_opt_free_args(&arguments);
  if (served == nullptr || fuse_mount(served, mount_point.c_str()) != 0) return EXIT_FAILURE;
  fuse_session* const session = fuse_get_session(served);
  fuse_set_signal_handlers(session);
  fuse_loop_config* const config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_idle_threads(config, kIdleThreads);
  const int result = fuse_loop_mt(served, config);
  fuse_loop_cfg_destroy(config);
  fuse_remove_signal_handlers(session);
  fuse_unmount(served);
  fuse_destroy(served);
  return result < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace kerf::fault_fs
