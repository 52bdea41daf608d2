#include "client/fs/testing/nasty_tree.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::agent::testing {
namespace {

constexpr off_t kMiB = 1 << 20;

class Builder {
 public:
  Builder(std::string root, std::uint64_t seed) : root_(std::move(root)), random_(seed) {}

  NastyTree Build() {
    Directory("");
    Files();
    Sparse();
    Links();
    Special();
    Modes();
    Xattrs();
    Acls();
    Names();
    DeepPath();
    Times();
    return std::move(tree_);
  }

 private:
  std::string Path(const std::string& name) const {
    return name.empty() ? root_ : root_ + "/" + name;
  }

  void Directory(const std::string& name) { KERF_CHECK(mkdir(Path(name).c_str(), 0755) == 0); }

  void LeaveOut(bool made, const std::string& what) {
    const bool known =
        std::find(tree_.left_out.begin(), tree_.left_out.end(), what) != tree_.left_out.end();
    if (made || known) return;
    tree_.left_out.push_back(what);
    std::printf("nasty tree: this machine or user cannot make %s\n", what.c_str());
  }

  std::string RandomBytes(std::size_t size) {
    std::string bytes(size, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }

  static void WriteAt(int fd, std::string_view bytes, off_t offset) {
    KERF_CHECK(pwrite(fd, bytes.data(), bytes.size(), offset) ==
               static_cast<ssize_t>(bytes.size()));
  }

  void File(const std::string& name, std::string_view bytes) {
    const UniqueFd fd(open(Path(name).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644));
    KERF_CHECK(fd.valid());
    WriteAt(fd.get(), bytes, 0);
  }

  void Files() {
    Directory("files");
    File("files/empty", "");
    File("files/one-byte", "x");
    File("files/random", RandomBytes(3 * kMiB + 17));
    File("files/zeros", std::string(kMiB + 1, '\0'));
    File("files/constant", std::string(700'000, 'a'));
    for (const std::size_t size : {2047, 2048, 2049, 4095, 4096, 8191, 8192, 32768, 65537}) {
      File(Cat("files/size-", size), RandomBytes(size));
    }
    for (int i = 0; i < 50; ++i) {
      File(Cat("files/small-", i), RandomBytes(random_.Below(3000)));
    }
    Directory("files/empty-directory");
  }

  // Data at each of `offsets`, holes elsewhere.
  void SparseFile(const std::string& name, off_t size, std::initializer_list<off_t> offsets) {
    const UniqueFd fd(open(Path(name).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644));
    KERF_CHECK(fd.valid());
    for (const off_t offset : offsets) WriteAt(fd.get(), RandomBytes(70'000), offset);
    LeaveOut(ftruncate(fd.get(), size) == 0, Cat("a sparse file of ", size, " bytes"));
  }

  void Sparse() {
    Directory("sparse");
    SparseFile("sparse/leading", 2 * kMiB + 70'000, {2 * kMiB});
    SparseFile("sparse/inner", 3 * kMiB + 70'000, {0, kMiB, 3 * kMiB});
    SparseFile("sparse/trailing", 5 * kMiB + 3, {0});
    SparseFile("sparse/only-a-hole", 7 * kMiB + 1, {});
    SparseFile("sparse/huge", off_t{1} << 40, {kMiB, off_t{1} << 39});
  }

  void Symlink(const std::string& target, const std::string& name) {
    KERF_CHECK(symlink(target.c_str(), Path(name).c_str()) == 0);
  }

  void Links() {
    Directory("links");
    Directory("links/other");
    File("links/a-first", RandomBytes(20'000));
    for (const char* name : {"links/b-second", "links/other/third", "files/fourth"}) {
      KERF_CHECK(link(Path("links/a-first").c_str(), Path(name).c_str()) == 0);
    }
    File("links/other/empty-1", "");
    KERF_CHECK(link(Path("links/other/empty-1").c_str(), Path("links/other/empty-2").c_str()) == 0);
    KERF_CHECK(link(Path("sparse/inner").c_str(), Path("links/sparse").c_str()) == 0);
    Symlink("nowhere", "links/dangling");
    Symlink("/etc/hostname", "links/absolute");
    Symlink("loop-b", "links/loop-a");
    Symlink("loop-a", "links/loop-b");
    Symlink("other", "links/to-directory");
    Symlink("../..", "links/upwards");
    Symlink(std::string(4000, 'x'), "links/long");
    Symlink("not\xffutf8\n", "links/odd-target");
    for (const char* name : {"links/b-symlink-2", "links/other/symlink-3"}) {
      KERF_CHECK(link(Path("links/upwards").c_str(), Path(name).c_str()) == 0);
    }
  }

  void Special() {
    Directory("special");
    KERF_CHECK(mkfifo(Path("special/fifo").c_str(), 0640) == 0);
    LeaveOut(mknod(Path("special/socket").c_str(), S_IFSOCK | 0755, 0) == 0, "a socket");
    // Only root may; in a container perhaps not even root.
    LeaveOut(mknod(Path("special/null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0 &&
                 mknod(Path("special/loop").c_str(), S_IFBLK | 0660, makedev(7, 200)) == 0,
             "device nodes");
    for (const char* name : {"fifo", "socket", "null", "loop"}) AnotherName(Cat("special/", name));
  }

  // Of what is there, in its folder, and for every kind before and behind it in a walk.
  void AnotherName(const std::string& name) {
    if (access(Path(name).c_str(), F_OK) != 0) return;
    KERF_CHECK(link(Path(name).c_str(), Path(name + "-2").c_str()) == 0);
    KERF_CHECK(link(Path(name).c_str(), Path("files/" + NameIn(name)).c_str()) == 0);
  }
  static std::string NameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  void Modes() {
    Directory("modes");
    for (const int mode : {0000, 0111, 0444, 0600, 0777, 01644, 02755, 04755, 06711}) {
      const std::string name = Cat("modes/file-", mode);
      File(name, "mode");
      KERF_CHECK(chmod(Path(name).c_str(), static_cast<mode_t>(mode)) == 0);
      if ((mode & S_IRUSR) == 0) tree_.unreadable.push_back(Path(name));
    }
    for (const int mode : {01777, 02775, 0700}) {
      const std::string name = Cat("modes/directory-", mode);
      Directory(name);
      File(name + "/inside", "x");
      KERF_CHECK(chmod(Path(name).c_str(), static_cast<mode_t>(mode)) == 0);
    }
    Directory("modes/read-only");
    Directory("modes/read-only/below");
    File("modes/read-only/below/file", "x");
    File("modes/read-only/file", "x");
    KERF_CHECK(chmod(Path("modes/read-only/below").c_str(), 0555) == 0);
    KERF_CHECK(chmod(Path("modes/read-only").c_str(), 0555) == 0);
    if (geteuid() != 0) return;
    File("modes/other-owner", "x");
    LeaveOut(chown(Path("modes/other-owner").c_str(), 1234, 5678) == 0 &&
                 lchown(Path("links/dangling").c_str(), 1235, 5679) == 0,
             "other owners");
    // Changing the owner removes set-id bits.
    File("modes/other-owner-set-id", "x");
    (void)!chown(Path("modes/other-owner-set-id").c_str(), 1234, 5678);
    KERF_CHECK(chmod(Path("modes/other-owner-set-id").c_str(), 06755) == 0);
  }

  bool SetXattr(const std::string& name, const std::string& key, std::string_view value) {
    return lsetxattr(Path(name).c_str(), key.c_str(), value.data(), value.size(), 0) == 0;
  }

  void Xattrs() {
    Directory("xattrs");
    Directory("xattrs/directory");
    File("xattrs/file", "x");
    File("xattrs/many", "x");
    File("xattrs/read-only", "x");
    bool made = SetXattr("xattrs/file", "user.empty", "") &&
                SetXattr("xattrs/file", "user.binary", std::string_view("\0\xff\n=", 4)) &&
                SetXattr("xattrs/file", "user.large", RandomBytes(2000)) &&
                SetXattr("xattrs/directory", "user.on-directory", "value") &&
                SetXattr("xattrs/read-only", "user.kept", "value");
    for (int i = 0; i < 40 && made; ++i) {
      made = SetXattr("xattrs/many", Cat("user.key-", i), Cat("value ", i));
    }
    LeaveOut(made, "user attributes");
    KERF_CHECK(chmod(Path("xattrs/read-only").c_str(), 0444) == 0);
    if (geteuid() != 0) return;
    File("xattrs/trusted", "x");
    LeaveOut(SetXattr("xattrs/trusted", "trusted.kerf", "value"), "trusted attributes");
    File("xattrs/capability", "x");
    // Version 2, CAP_NET_RAW permitted and effective.
    constexpr std::array<unsigned char, 20> kCapability = {1, 0, 0, 2, 0, 0x20};
    LeaveOut(SetXattr("xattrs/capability", "security.capability",
                      {reinterpret_cast<const char*>(kCapability.data()), kCapability.size()}),
             "capabilities");
  }

  // The binary form of a POSIX ACL: version 2, then tag, permission, id of each entry.
  static std::string Acl() {
    constexpr std::uint32_t kNoId = 0xFFFFFFFF;
    struct Entry {
      std::uint16_t tag, permission;
      std::uint32_t id;
    };
    constexpr std::array<Entry, 5> kEntries = {
        {{0x01, 6, kNoId}, {0x02, 4, 4321}, {0x04, 4, kNoId}, {0x10, 6, kNoId}, {0x20, 0, kNoId}}};
    std::string acl("\2\0\0\0", 4);
    for (const Entry& entry : kEntries) {
      acl.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    }
    return acl;
  }

  void Acls() {
    Directory("acls");
    Directory("acls/directory");
    File("acls/file", "x");
    const bool made = SetXattr("acls/file", "system.posix_acl_access", Acl()) &&
                      SetXattr("acls/directory", "system.posix_acl_access", Acl()) &&
                      SetXattr("acls/directory", "system.posix_acl_default", Acl());
    LeaveOut(made, "ACLs");
  }

  void Names() {
    Directory("names");
    int number = 0;
    for (const std::string& name :
         {std::string("\xff\xfe not utf-8"), std::string("line\nfeed"), std::string("tab\there"),
          std::string("\"double\" 'single' `back`"), std::string("-rf"), std::string("--help"),
          std::string(" leading and trailing "), std::string("back\\slash"), std::string("*?[a]"),
          std::string("$(reboot)"), std::string("\x1b[31mred"), std::string("..."),
          std::string(".hidden"), std::string("\xed\xa0\x80 surrogate"),
          std::string("gr\xc3\xbc\xc3\x9f"), std::string(255, 'n'), std::string(255, '\xfe')}) {
      File("names/" + name, Cat("file ", number++));
    }
    // Where byte order of whole paths and of names differ.
    Directory("names/order");
    File("names/order/inside", "x");
    File("names/order-", "x");
    File("names/order.txt", "x");
    File("names/order0", "x");
    File("names/order\x01", "x");
  }

  void DeepPath() {
    UniqueFd at(open(root_.c_str(), O_RDONLY | O_DIRECTORY));
    for (int level = 0; level < 24; ++level) {
      const std::string name = Cat("deep-", level, std::string(200, 'd'));
      KERF_CHECK(mkdirat(at.get(), name.c_str(), 0755) == 0);
      at = UniqueFd(openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY));
    }
    const UniqueFd fd(openat(at.get(), "bottom", O_WRONLY | O_CREAT, 0644));
    WriteAt(fd.get(), RandomBytes(5000), 0);
    KERF_CHECK(symlinkat("nowhere", at.get(), "bottom-link") == 0);
    // Many levels with short names: more than a process may have open files.
    at = UniqueFd(open(root_.c_str(), O_RDONLY | O_DIRECTORY));
    for (int level = 0; level < 300; ++level) {
      KERF_CHECK(mkdirat(at.get(), "s", 0755) == 0);
      at = UniqueFd(openat(at.get(), "s", O_RDONLY | O_DIRECTORY));
      if (level % 50 == 0) close(openat(at.get(), "t", O_WRONLY | O_CREAT, 0644));
    }
  }

  void SetTime(const std::string& name, std::int64_t seconds, std::int64_t nanoseconds) {
    std::array<timespec, 2> times{};
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = seconds;
    times[1].tv_nsec = nanoseconds;
    KERF_CHECK(utimensat(AT_FDCWD, Path(name).c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0);
  }

  // Last, because making something in a directory changes its time.
  void Times() {
    Directory("times");
    constexpr std::int64_t kYear2200 = 7'258'118'400;
    for (const auto& [name, seconds, nanoseconds] :
         {std::tuple("times/before-1970", std::int64_t{-1'000'000'000}, 123'456'789),
          std::tuple("times/epoch", std::int64_t{0}, 0),
          std::tuple("times/last-nanosecond", std::int64_t{1'600'000'000}, 999'999'999),
          std::tuple("times/first-nanosecond", std::int64_t{1'600'000'000}, 1),
          std::tuple("times/far-future", kYear2200, 5)}) {
      File(name, "x");
      SetTime(name, seconds, nanoseconds);
    }
    Symlink("nowhere", "times/link");
    SetTime("times/link", 1'234'567'890, 987'654'321);
    Directory("times/directory");
    File("times/directory/file", "x");
    SetTime("times/directory", 1'111'111'111, 111'111'111);
    SetTime("modes/read-only", 1'222'222'222, 222'222'222);
    SetTime("special/fifo", 1'333'333'333, 333'333'333);
    SetTime("times", 1, 1);
  }

  const std::string root_;
  Random random_;
  NastyTree tree_;
};

}  // namespace

NastyTree MakeNastyTree(const std::string& root, std::uint64_t seed) {
  const mode_t mask = umask(022);
  NastyTree tree = Builder(root, seed).Build();
  umask(mask);
  return tree;
}

void RemoveUnreadable(const NastyTree& tree) {
  if (geteuid() == 0) return;
  for (const std::string& path : tree.unreadable) unlink(path.c_str());
}

}  // namespace kerf::agent::testing
