// What is restored has the snapshot's rights and attributes, and nothing that the target adds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/restore_metadata.h"
#include "client/fs/restorer.h"
#include "client/fs/testing/memory_nodes.h"
#include "client/fs/testing/memory_snapshot.h"
#include "client/fs/testing/temporary_directory.h"
#include "client/fs/xattrs.h"
#include "gmock/gmock.h"

namespace kerf::agent {
namespace {

using testing::Directory;
using testing::File;
using ::testing::IsEmpty;
using testing::MemoryNode;
using testing::RestoreAll;
using testing::TemporaryDirectory;

// Of the calls below: fail, and leave the file with the time that it would have in the end, as on a
// file system with a coarse clock.
std::atomic<int> chmod_error = 0;
std::atomic<int> chown_error = 0;
constexpr timespec kSnapshotTime = {1'000'000'000, 5};

int FailWith(int error, int fd) {
  const timespec times[2] = {{0, UTIME_OMIT}, kSnapshotTime};
  EXPECT_EQ(futimens(fd, times), 0);
  errno = error;
  return -1;
}

constexpr char kAccess[] = "system.posix_acl_access";
constexpr char kDefault[] = "system.posix_acl_default";

// The binary form of acl(5) in Linux: the owner may all, the owning group `group`, the user 12345
// `other_user`; the mask lets both have it.
std::string Acl(std::uint16_t group, std::uint16_t other_user) {
  struct Entry {
    std::uint16_t tag;
    std::uint16_t permission;
    std::uint32_t id;
  };
  constexpr std::uint32_t kNobody = 0xffffffff;
  std::string acl("\2\0\0\0", 4);
  for (const Entry entry :
       {Entry{0x01, 7, kNobody}, Entry{0x02, other_user, 12345}, Entry{0x04, group, kNobody},
        Entry{0x10, static_cast<std::uint16_t>(group | other_user), kNobody},
        Entry{0x20, 0, kNobody}}) {
    acl.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  return acl;
}

bool SetXattr(const std::string& path, const char* name, const std::string& value) {
  return setxattr(path.c_str(), name, value.data(), value.size(), 0) == 0;
}

std::vector<Xattr> XattrsOf(const std::string& path) {
  const UniqueFd handle(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  std::vector<Xattr> xattrs;
  EXPECT_TRUE(ReadXattrsOfHandle(handle, path, xattrs).ok());
  return xattrs;
}

std::vector<std::string> XattrNames(const std::string& path) {
  const std::vector<Xattr> xattrs = XattrsOf(path);
  std::vector<std::string> names;
  for (const Xattr& xattr : xattrs) {
    if (!xattr.name.starts_with("security.")) names.push_back(xattr.name);
  }
  return names;
}

mode_t ModeOf(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

class RestoreRightsTest : public ::testing::Test {
 protected:
  RestoreRightsTest() {
    mkdir(target_.c_str(), 0755);
    // Every file system that kerf is tested on has them.
    EXPECT_TRUE(SetXattr(target_, kDefault, Acl(7, 7)));
  }

  TemporaryDirectory directory_;
  const std::string target_ = directory_ / "target";
};

TEST_F(RestoreRightsTest, NothingInheritsADefaultAclOfTheTarget) {
  MemoryNode fifo = File("a/fifo", "");
  fifo.node.kind = NodeKind::kFifo;
  const std::vector<MemoryNode> nodes = {Directory("a", 0750), File("a/f", "secret"), fifo,
                                         File("g", "secret")};
  for (const OverwritePolicy policy : {OverwritePolicy::kRefuse, OverwritePolicy::kAlways}) {
    ASSERT_THAT(RestoreAll(nodes, target_, policy).errors, IsEmpty());
    for (const char* name : {"/a", "/a/f", "/a/fifo", "/g"}) {
      EXPECT_THAT(XattrNames(target_ + name), IsEmpty()) << name;
    }
    EXPECT_EQ(ModeOf(target_ + "/a"), 0750u);
    EXPECT_EQ(ModeOf(target_ + "/g"), 0640u);
  }
}

TEST_F(RestoreRightsTest, ADirectoryThatIsThereKeepsNoAclAndNoAttributeOfItsOwn) {
  MemoryNode node = Directory("a", 0750);
  node.node.xattrs = {{"user.kept", "new"}};
  ASSERT_EQ(mkdir((target_ + "/a").c_str(), 0777), 0);
  ASSERT_TRUE(SetXattr(target_ + "/a", kAccess, Acl(7, 7)));
  ASSERT_TRUE(SetXattr(target_ + "/a", kDefault, Acl(7, 7)));
  ASSERT_TRUE(SetXattr(target_ + "/a", "user.kept", "old"));
  ASSERT_TRUE(SetXattr(target_ + "/a", "user.other", "old"));
  ASSERT_THAT(RestoreAll({node, File("a/f", "x")}, target_, OverwritePolicy::kAlways).errors,
              IsEmpty());
  EXPECT_THAT(XattrNames(target_ + "/a"), ::testing::ElementsAre("user.kept"));
  EXPECT_THAT(XattrNames(target_ + "/a/f"), IsEmpty());
  EXPECT_EQ(ModeOf(target_ + "/a"), 0750u);
}

TEST_F(RestoreRightsTest, AnAclOfTheSnapshotIsThereExactly) {
  MemoryNode file = File("f", "x");
  file.node.mode = 0740;
  file.node.xattrs = {{kAccess, Acl(0, 4)}};
  MemoryNode folder = Directory("g", 0740);
  folder.node.xattrs = {{kAccess, Acl(0, 4)}, {kDefault, Acl(1, 1)}};
  ASSERT_THAT(RestoreAll({file, folder}, target_).errors, IsEmpty());
  std::vector<Xattr> xattrs = XattrsOf(target_ + "/f");
  std::erase_if(xattrs, [](const Xattr& xattr) { return xattr.name.starts_with("security."); });
  EXPECT_EQ(xattrs, file.node.xattrs);
  EXPECT_EQ(ModeOf(target_ + "/f"), 0740u);
  xattrs = XattrsOf(target_ + "/g");
  std::erase_if(xattrs, [](const Xattr& xattr) { return xattr.name.starts_with("security."); });
  EXPECT_EQ(xattrs, folder.node.xattrs);
}

// Looks around while the content of a file comes.
class LookingContent final : public FileContent {
 public:
  explicit LookingContent(std::function<void()> look) : look_(std::move(look)) {}
  absl::StatusOr<std::span<const std::uint8_t>> Next() override {
    look_();
    return std::span<const std::uint8_t>();
  }

 private:
  const std::function<void()> look_;
};

TEST_F(RestoreRightsTest, NobodyElseIsLetInBeforeAllIsThere) {
  // A directory that lets everybody in, where the snapshot's lets in nobody but its owner.
  ASSERT_EQ(mkdir((target_ + "/a").c_str(), 0700), 0);
  ASSERT_TRUE(SetXattr(target_ + "/a", kAccess, Acl(7, 7)));
  ASSERT_TRUE(SetXattr(target_ + "/a", kDefault, Acl(7, 7)));
  ASSERT_EQ(mkdir((target_ + "/open").c_str(), 0777), 0);
  ASSERT_EQ(removexattr((target_ + "/open").c_str(), kAccess), 0);
  ASSERT_EQ(chmod((target_ + "/open").c_str(), 0777), 0);
  RestoreOptions options;
  options.sync = false;
  auto restorer = MakeRestorer(target_, options);
  ASSERT_TRUE(restorer.ok());
  MemoryNode acl = Directory("a", 0740);
  acl.node.xattrs = {{kAccess, Acl(0, 4)}};
  (*restorer)->Add(acl.node, nullptr);
  int looked_count = 0;
  const auto look = [&](const std::string& name) {
    return std::make_unique<LookingContent>([&, name] {
      ++looked_count;
      EXPECT_EQ(ModeOf(target_ + "/a"), 0700u) << "the group has less than the mask";
      EXPECT_THAT(XattrNames(target_ + "/a"), IsEmpty());
      EXPECT_EQ(ModeOf(target_ + name), 0600u);
    });
  };
  (*restorer)->Add(File("a/f", "").node, look("/a/f"));
  (*restorer)->Add(Directory("open", 0750).node, nullptr);
  (*restorer)->Add(File("open/f", "").node, std::make_unique<LookingContent>([&] {
                     ++looked_count;
                     EXPECT_EQ(ModeOf(target_ + "/open"), 0750u);
                     EXPECT_EQ(ModeOf(target_ + "/open/f"), 0600u);
                   }));
  EXPECT_EQ((*restorer)->Finish(false).error_count, 0u);
  EXPECT_EQ(looked_count, 2);
}

bool HasSnapshotTime(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mtim.tv_sec == File("", "").node.modified.seconds;
}

// By its time a file counts as the snapshot's: a later restore would pass over it without a word.
TEST_F(RestoreRightsTest, WhatLacksAnAttributeNeverHasItsTime) {
  // Longer than the kernel takes from anybody.
  const std::vector<Xattr> impossible = {{Cat("user.", std::string(300, 'x')), "value"}};
  MemoryNode file = File("a/f", "text");
  MemoryNode fifo = File("a/fifo", "");
  fifo.node.kind = NodeKind::kFifo;
  MemoryNode folder = Directory("b", 0750);
  for (MemoryNode* node : {&file, &fifo, &folder}) node->node.xattrs = impossible;
  const std::vector<MemoryNode> nodes = {Directory("a"),      file,   fifo,
                                         File("a/g", "text"), folder, File("b/h", "text")};
  for (const OverwritePolicy policy :
       {OverwritePolicy::kRefuse, OverwritePolicy::kIfChanged, OverwritePolicy::kIfChanged}) {
    const testing::RestoreReport report = RestoreAll(nodes, target_, policy);
    EXPECT_EQ(report.errors.size(), 3u) << "each time";
    EXPECT_EQ(report.summary.skipped_count, policy == OverwritePolicy::kRefuse ? 0u : 2u);
    for (const char* name : {"/a/f", "/a/fifo", "/b"}) {
      EXPECT_FALSE(HasSnapshotTime(target_ + name)) << name;
    }
    for (const char* name : {"/a", "/a/g", "/b/h"}) EXPECT_TRUE(HasSnapshotTime(target_ + name));
    EXPECT_EQ(testing::TextOf(target_ + "/a/f"), "text");
  }
  // Once nothing is in the way any more.
  for (MemoryNode* node : {&file, &fifo, &folder}) node->node.xattrs = {};
  ASSERT_THAT(
      RestoreAll({Directory("a"), file, fifo, folder}, target_, OverwritePolicy::kIfChanged).errors,
      IsEmpty());
  for (const char* name : {"/a/f", "/a/fifo", "/b"}) EXPECT_TRUE(HasSnapshotTime(target_ + name));
}

// Also where the clock is no help: a disk that is full, or a file that may not be changed.
TEST_F(RestoreRightsTest, WhatLacksItsModeOrOwnerIsNeverTakenForUnchanged) {
  MemoryNode file = File("f", "text");
  file.node.modified = {kSnapshotTime.tv_sec, static_cast<std::uint32_t>(kSnapshotTime.tv_nsec)};
  for (std::atomic<int>* error : {&chmod_error, &chown_error}) {
    // Of others no file can have another owner, which is no failure.
    if (error == &chown_error && geteuid() != 0) continue;
    OverwritePolicy policy = OverwritePolicy::kRefuse;
    for (const int number : {ENOSPC, EPERM}) {
      *error = number;
      const testing::RestoreReport report = RestoreAll({file}, target_, policy);
      *error = 0;
      EXPECT_EQ(report.errors.size(), 1u);
      EXPECT_EQ(report.summary.skipped_count, 0u) << "it is tried again";
      EXPECT_EQ(testing::TextOf(target_ + "/f"), "text");
      policy = OverwritePolicy::kIfChanged;
    }
    EXPECT_EQ(RestoreAll({file}, target_, policy).summary.skipped_count, 0u);
    EXPECT_EQ(RestoreAll({file}, target_, policy).summary.skipped_count, 1u);
    unlink((target_ + "/f").c_str());
  }
}

// Who may write in the directory gives the name of what was just made to a file that is not his.
TEST_F(RestoreRightsTest, WhatHasTheNameOfANewNodeByNowKeepsItsOwnerAndMode) {
  const std::string secret = target_ + "/secret";
  close(open(secret.c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(mkfifo((target_ + "/linked").c_str(), 0600), 0);
  ASSERT_EQ(link((target_ + "/linked").c_str(), (target_ + "/linked too").c_str()), 0);
  ASSERT_EQ(link(secret.c_str(), (target_ + "/fifo").c_str()), 0);
  ASSERT_EQ(symlink("secret", (target_ + "/device").c_str()), 0);
  const UniqueFd directory(open(target_.c_str(), O_RDONLY | O_DIRECTORY));
  const struct {
    const char* name;
    NodeKind kind;
  } cases[] = {{"fifo", NodeKind::kFifo},
               {"device", NodeKind::kCharDevice},
               {"linked", NodeKind::kFifo},
               {"fifo", NodeKind::kSymlink}};
  for (const auto& one : cases) {
    Node node;
    node.path = one.name;
    node.kind = one.kind;
    node.mode = 0777;
    node.uid = node.gid = 12345;
    node.modified = {1, 0};
    EXPECT_EQ(ApplyMetadataAt(directory.get(), one.name, node).status.code(),
              absl::StatusCode::kFailedPrecondition)
        << one.name;
    for (const std::string& path : {secret, target_ + "/linked too"}) {
      struct stat status{};
      ASSERT_EQ(lstat(path.c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 07777, 0600u) << path;
      EXPECT_EQ(status.st_uid, geteuid()) << path;
      EXPECT_NE(status.st_mtim.tv_sec, 1) << path;
    }
  }
}

}  // namespace
}  // namespace kerf::agent

// In place of those of the C library.
extern "C" {

int fchmod(int fd, mode_t mode) noexcept {
  const int error = kerf::agent::chmod_error;
  if (error != 0) return kerf::agent::FailWith(error, fd);
  return static_cast<int>(syscall(SYS_fchmod, fd, mode));
}

int fchown(int fd, uid_t owner, gid_t group) noexcept {
  const int error = kerf::agent::chown_error;
  if (error != 0) return kerf::agent::FailWith(error, fd);
  return static_cast<int>(syscall(SYS_fchown, fd, owner, group));
}

}  // extern "C"
