// Where there is no /proc, as in a chroot, or none that may be entered, as in some containers: what
// the kernel can do without it is done, and what it cannot is said so that its reader can help it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/restore_metadata.h"
#include "client/fs/testing/memory_nodes.h"
#include "client/fs/testing/memory_snapshot.h"
#include "client/fs/testing/temporary_directory.h"
#include "client/fs/xattrs.h"

namespace kerf::agent {
namespace {

using testing::Directory;
using testing::File;
using testing::MemoryNode;
using testing::RestoreAll;
using testing::Symlink;
using testing::TemporaryDirectory;
using testing::TextOf;

constexpr char kAnAttribute[] = "user.kerf";
constexpr char kNeedsProc[] = "that needs /proc";

bool Says(const std::string& error, const std::string& text) {
  return error.find("FAILED_PRECONDITION: ") != std::string::npos &&
         error.find(text) != std::string::npos;
}
bool Says(const absl::Status& status, const std::string& text) {
  return Says(status.ToString(), text);
}

MemoryNode Fifo(const std::string& path) {
  MemoryNode fifo = Directory(path, 0624);
  fifo.node.kind = NodeKind::kFifo;
  return fifo;
}

// What is wrong, in a process of its own whose root is a folder of the test; empty: nothing.
using Inside = std::function<std::string()>;

class WithoutProcTest : public ::testing::TestWithParam<bool> {
 protected:
  void Expect(const Inside& inside) {
    if (geteuid() != 0) GTEST_SKIP() << "only root may change its root";
    const std::string root = directory_ / "root";
    ASSERT_EQ(mkdir(root.c_str(), 0755), 0);
    // As a container masks it; a folder that may not be entered is one to root.
    if (GetParam()) {
      ASSERT_EQ(mknod((root + "/proc").c_str(), S_IFREG | 0600, 0), 0);
    }
    const pid_t child = fork();
    if (child == 0) {
      if (chroot(root.c_str()) != 0 || chdir("/") != 0) _exit(77);
      std::ofstream("said") << inside();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "the root may not be changed here";
    ASSERT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(TextOf(root + "/said"), "");
  }

  TemporaryDirectory directory_;
};

// Linux 6.6 can set the mode of what only has a handle (fchmodat2).
bool CanChangeModes() {
  constexpr long kFchmodat2 = 452;
  if (mkfifo("probe", 0600) != 0) return false;
  const UniqueFd handle(open("probe", O_PATH | O_CLOEXEC));
  return syscall(kFchmodat2, handle.get(), "", 0640, AT_EMPTY_PATH) == 0;
}

TEST_P(WithoutProcTest, NodesThatAreNoFilesAreRestored) {
  Expect([]() -> std::string {
    const bool is_new = CanChangeModes();
    if (mkdir("out", 0755) != 0) return "no folder";
    const auto report =
        RestoreAll({Fifo("fifo"), Symlink("link", "to"), File("file", "text")}, "/out");
    struct stat fifo{};
    struct stat link{};
    if (lstat("out/fifo", &fifo) != 0 || lstat("out/link", &link) != 0) return "not there";
    if (TextOf("out/file") != "text") return "another text";
    if (link.st_mtim.tv_sec != 1'500'000'000 || link.st_mtim.tv_nsec != 123) return "link's time";
    if (!is_new) {
      const bool is_said = report.errors.size() == 1 && Says(report.errors[0], kNeedsProc);
      return is_said ? "" : "an older kernel's silence";
    }
    if (!report.errors.empty()) return report.errors[0];
    if ((fifo.st_mode & 07777) != 0624) return "fifo's mode";
    if (fifo.st_mtim.tv_sec != 1'500'000'000 || fifo.st_mtim.tv_nsec != 123) return "fifo's time";
    return "";
  });
}

TEST_P(WithoutProcTest, AttributesThatCannotBeSetAreSaid) {
  Expect([]() -> std::string {
    if (mkdir("out", 0755) != 0) return "no folder";
    MemoryNode fifo = Fifo("fifo");
    fifo.node.xattrs = {{"trusted.kerf", "value"}};
    const auto report = RestoreAll({fifo}, "/out");
    if (report.errors.size() != 1) return "no error";
    if (!Says(report.errors[0], kNeedsProc)) {
      return report.errors[0];
    }
    struct stat status{};
    if (lstat("out/fifo", &status) != 0) return "not there";
    return status.st_mtim.tv_sec == 1'500'000'000 ? "it looks as if it were complete" : "";
  });
}

// Else it would let in whom the directory names.
TEST_P(WithoutProcTest, NorAreInheritedAclsLeftInSilence) {
  Expect([]() -> std::string {
    if (mkdir("out", 0755) != 0) return "no folder";
    // The owner, his group, the user 12345 and all others may all.
    const std::string acl(
        "\2\0\0\0\1\0\7\0\xff\xff\xff\xff\2\0\7\0\x39\x30\0\0\4\0\7\0\xff\xff\xff\xff"
        "\x10\0\7\0\xff\xff\xff\xff\x20\0\7\0\xff\xff\xff\xff",
        44);
    if (setxattr("out", "system.posix_acl_default", acl.data(), acl.size(), 0) != 0) {
      return errno == ENOTSUP ? "" : "no ACL";
    }
    const UniqueFd out(open("out", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (mknodat(out.get(), "fifo", S_IFIFO | 0600, 0) != 0) return "no fifo";
    const MetadataResult result = ApplyMetadataAt(out.get(), "fifo", Fifo("fifo").node);
    return Says(result.status, kNeedsProc) ? "" : "silence";
  });
}

TEST_P(WithoutProcTest, ADirectoryThatItsOwnerMayNotUseIsEntered) {
  Expect([]() -> std::string {
    if (mkdir("out", 0755) != 0 || mkdir("out/a", 0755) != 0) return "no folder";
    if (chmod("out/a", 0500) != 0) return "no mode";
    const auto report =
        RestoreAll({Directory("a", 0750), File("a/f", "x")}, "/out", OverwritePolicy::kAlways);
    if (!report.errors.empty()) return report.errors[0];
    struct stat status{};
    if (stat("out/a", &status) != 0 || (status.st_mode & 07777) != 0750) return "mode";
    return TextOf("out/a/f") == "x" ? "" : "another text";
  });
}

std::string AttributeOf(const std::string& path, absl::Status& status) {
  const UniqueFd handle(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  std::vector<Xattr> xattrs;
  status = ReadXattrsOfHandle(handle, path, xattrs);
  for (const Xattr& xattr : xattrs) {
    if (xattr.name == kAnAttribute) return xattr.value;
  }
  return "none";
}

TEST_P(WithoutProcTest, AttributesOfFilesAndDirectoriesAreRead) {
  Expect([]() -> std::string {
    if (mkdir("/folder", 0755) != 0) return "no folder";
    std::ofstream("/folder/file") << "text";
    for (const char* path : {"/folder", "/folder/file"}) {
      if (setxattr(path, kAnAttribute, path, 4, 0) != 0) return errno == ENOTSUP ? "" : "no xattr";
      absl::Status status;
      const std::string value = AttributeOf(path, status);
      if (!status.ok() || value != "/fol") return Cat(path, ": ", value, " ", status.message());
    }
    return "";
  });
}

TEST_P(WithoutProcTest, WhereTheyCannotBeReadThatIsSaid) {
  Expect([]() -> std::string {
    if (symlink("somewhere", "/link") != 0 || mkfifo("/fifo", 0600) != 0) return "none made";
    for (const char* path : {"/link", "/fifo"}) {
      absl::Status status;
      AttributeOf(path, status);
      if (!Says(status, kNeedsProc) || !Says(status, path)) return std::string(status.message());
    }
    return "";
  });
}

// What came to have its name a moment ago has attributes of its own.
TEST_P(WithoutProcTest, AttributesOfAnotherFileAreNotTaken) {
  Expect([]() -> std::string {
    std::ofstream("/file") << "text";
    const UniqueFd handle(open("/file", O_PATH | O_NOFOLLOW | O_CLOEXEC));
    std::ofstream("/another") << "text";
    if (setxattr("/another", kAnAttribute, "a", 1, 0) != 0) return errno == ENOTSUP ? "" : "none";
    if (rename("/another", "/file") != 0) return "not renamed";
    std::vector<Xattr> xattrs;
    const absl::Status status = ReadXattrsOfHandle(handle, "/file", xattrs);
    return Says(status, kNeedsProc) && xattrs.empty() ? "" : "taken";
  });
}

INSTANTIATE_TEST_SUITE_P(IsMasked, WithoutProcTest, ::testing::Bool());

}  // namespace
}  // namespace kerf::agent
