#include "client/fs/file_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/node_stat.h"
#include "client/fs/testing/inode_reuse.h"
#include "client/fs/testing/memory_snapshot.h"
#include "client/fs/testing/settle.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

using testing::TemporaryDirectory;

class FileSourceTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, std::size_t size) {
    std::ofstream(directory_ / name) << std::string(size, 'a');
  }

  // Sets the mtime into the past, so that a later write moves it for certain.
  void Age(const std::string& name) {
    const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 5}};
    ASSERT_EQ(utimensat(AT_FDCWD, (directory_ / name).c_str(), times, 0), 0);
  }

  NodeIdentity Identity(const std::string& name) {
    struct stat status{};
    EXPECT_EQ(lstat((directory_ / name).c_str(), &status), 0);
    return {status.st_dev, status.st_ino, {}};
  }

  absl::StatusOr<FileSource> Open(const std::string& name) {
    return FileSource::Open(directory_.NodePath(name), Identity(name));
  }

  static std::size_t ReadAll(FileSource& source) {
    std::vector<std::uint8_t> buffer(1000);
    std::size_t total = 0;
    while (true) {
      const auto count = source.Read(buffer);
      EXPECT_TRUE(count.ok()) << count.status();
      if (!count.ok() || *count == 0) return total;
      total += *count;
    }
  }

  TemporaryDirectory directory_;
  // Of what was read without reading ahead.
  std::uint64_t sum_ = 0;
};

// With holes, at any position, and where the file has become shorter.
TEST_F(FileSourceTest, ReadingAheadChangesNothingOfWhatIsRead) {
  for (const bool shrinks : {false, true}) {
    Write("file", 3'000'000);
    std::filesystem::resize_file(directory_ / "file", 20'000'000);
    std::ofstream(directory_ / "file", std::ios::app) << std::string(2'500'000, 'b');
    for (const bool reads_ahead : {false, true}) {
      auto source = Open("file");
      ASSERT_TRUE(source.ok()) << source.status();
      std::vector<std::uint8_t> buffer(70'000);
      std::uint64_t total = 0;
      std::uint64_t sum = 0;
      while (true) {
        if (reads_ahead) source->ReadAhead(5'000'000);
        const auto count = source->Read(buffer);
        ASSERT_TRUE(count.ok()) << count.status();
        if (*count == 0) break;
        total += *count;
        for (std::size_t index = 0; index < *count; ++index) sum = sum * 31 + buffer[index];
        if (shrinks && reads_ahead) std::filesystem::resize_file(directory_ / "file", 1'000'000);
      }
      if (reads_ahead) source->ReadAhead(5'000'000);
      if (shrinks && reads_ahead) {
        EXPECT_EQ(total, 1'000'000u);
        EXPECT_TRUE(*source->Finish());
        continue;
      }
      EXPECT_EQ(total, source->content_bytes());
      if (!reads_ahead) sum_ = sum;
      EXPECT_EQ(sum, sum_);
      EXPECT_FALSE(*source->Finish());
    }
  }
}

TEST_F(FileSourceTest, ReadsAWholeFile) {
  Write("file", 12'345);
  auto source = Open("file");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->size_bytes(), 12'345u);
  EXPECT_EQ(source->content_bytes(), 12'345u);
  EXPECT_EQ(ReadAll(*source), 12'345u);
  const auto changed = source->Finish();
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
  Node node;
  NodeIdentity identity;
  source->Describe(node, identity);
  EXPECT_EQ(node.size_bytes, 12'345u);
  EXPECT_FALSE(node.sparse);
  EXPECT_TRUE(node.extents.empty());
  EXPECT_EQ(identity.inode, Identity("file").inode);
  // It was written just now.
  EXPECT_EQ(identity.changed, Timestamp());
}

TEST_F(FileSourceTest, AnEmptyFileHasNoContent) {
  Write("file", 0);
  auto source = Open("file");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(ReadAll(*source), 0u);
  EXPECT_FALSE(*source->Finish());
}

TEST_F(FileSourceTest, AFileThatGrowsIsReadUpToItsFirstSizeAndChanged) {
  Write("file", 5000);
  auto source = Open("file");
  ASSERT_TRUE(source.ok());
  std::ofstream(directory_ / "file", std::ios::app) << std::string(5000, 'b');
  EXPECT_EQ(ReadAll(*source), 5000u);
  EXPECT_TRUE(*source->Finish());
  Node node;
  NodeIdentity identity;
  source->Describe(node, identity);
  EXPECT_EQ(node.size_bytes, 5000u);
}

TEST_F(FileSourceTest, AFileThatShrinksEndsEarlyAndIsChanged) {
  Write("file", 5000);
  auto source = Open("file");
  ASSERT_TRUE(source.ok());
  std::vector<std::uint8_t> buffer(1000);
  EXPECT_EQ(*source->Read(buffer), 1000u);
  std::filesystem::resize_file(directory_ / "file", 3210);
  EXPECT_EQ(ReadAll(*source), 2210u);
  EXPECT_EQ(*source->Read(buffer), 0u);
  EXPECT_TRUE(*source->Finish());
  Node node;
  NodeIdentity identity;
  source->Describe(node, identity);
  EXPECT_EQ(node.size_bytes, 3210u);
  EXPECT_FALSE(node.sparse);
}

TEST_F(FileSourceTest, AFileRewrittenInPlaceIsChanged) {
  Write("file", 5000);
  Age("file");
  auto source = Open("file");
  ASSERT_TRUE(source.ok());
  ReadAll(*source);
  Write("file", 5000);
  EXPECT_TRUE(*source->Finish());
}

// A backup that takes long must not take what was written while it read for what it has read: the
// file that was changed just before may get the same ctime again.
TEST_F(FileSourceTest, AFileIsTrustedIfItWasQuietOnOpeningHoweverLongItIsRead) {
  Write("busy", 5000);
  Write("quiet", 5000);
  auto busy = Open("busy");
  ASSERT_TRUE(busy.ok()) << busy.status();
  std::vector<std::uint8_t> buffer(1000);
  EXPECT_EQ(*busy->Read(buffer), 1000u);
  {
    // Of the same size, and perhaps in the same tick: then nothing tells.
    const UniqueFd writer(open((directory_ / "busy").c_str(), O_WRONLY));
    ASSERT_EQ(pwrite(writer.get(), "b", 1, 0), 1);
  }
  testing::LetFilesSettle();
  EXPECT_EQ(ReadAll(*busy), 4000u);
  ASSERT_TRUE(busy->Finish().ok());
  Node node;
  NodeIdentity identity;
  busy->Describe(node, identity);
  EXPECT_EQ(identity.changed, Timestamp());

  auto quiet = Open("quiet");
  ASSERT_TRUE(quiet.ok()) << quiet.status();
  EXPECT_EQ(ReadAll(*quiet), 5000u);
  EXPECT_FALSE(*quiet->Finish());
  quiet->Describe(node, identity);
  struct stat status{};
  ASSERT_EQ(lstat((directory_ / "quiet").c_str(), &status), 0);
  EXPECT_EQ(identity, IdentityOf(status));
}

TEST_F(FileSourceTest, WhatHasTheNameNowIsOpenedAndDescribed) {
  Write("scanned", 10);
  Write("file", 20);
  ASSERT_EQ(chmod((directory_ / "file").c_str(), 0604), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown((directory_ / "file").c_str(), 4321, 8765), 0);
  }
  auto source = FileSource::Open(directory_.NodePath("file"), Identity("scanned"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_FALSE(source->IsAsScanned());
  EXPECT_EQ(ReadAll(*source), 20u);
  ASSERT_TRUE(source->Finish().ok());
  Node node;
  NodeIdentity identity;
  node.mode = 0777;
  node.user = "somebody";
  source->Describe(node, identity);
  EXPECT_EQ(identity.inode, Identity("file").inode);
  EXPECT_EQ(node.size_bytes, 20u);
  EXPECT_EQ(node.mode, 0604u);
  if (geteuid() != 0) return;
  EXPECT_EQ(node.uid, 4321u);
  EXPECT_EQ(node.gid, 8765u);
  EXPECT_NE(node.user, "somebody");
}

TEST_F(FileSourceTest, WhatIsNoFileIsRefused) {
  Write("file", 10);
  std::filesystem::create_symlink("file", directory_ / "link");
  EXPECT_EQ(Open("link").status().code(), absl::StatusCode::kFailedPrecondition);
  std::filesystem::create_directory(directory_ / "directory");
  EXPECT_EQ(Open("directory").status().code(), absl::StatusCode::kFailedPrecondition);
  // A fifo must not make it wait.
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(Open("fifo").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FileSource::Open(directory_.NodePath("none"), Identity("file")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FileSourceTest, NoSymlinkOnTheWayIsFollowed) {
  std::filesystem::create_directories(directory_ / "one/sub");
  std::filesystem::create_directories(directory_ / "two/sub");
  Write("one/sub/file", 10);
  Write("two/sub/file", 20);
  const NodeIdentity scanned = Identity("one/sub/file");
  std::filesystem::rename(directory_ / "one", directory_ / "away");
  std::filesystem::create_symlink("two", directory_ / "one");
  EXPECT_EQ(FileSource::Open(directory_.NodePath("one/sub/file"), scanned).status().code(),
            absl::StatusCode::kFailedPrecondition);
  // Not to the same file either: what it leads to is only known once something was opened.
  std::filesystem::remove(directory_ / "one");
  std::filesystem::create_symlink("away", directory_ / "one");
  EXPECT_EQ(FileSource::Open(directory_.NodePath("one/sub/file"), scanned).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(FileSourceTest, AFileThatGotTheNumberOfAnotherOneIsNotThatOne) {
  Write("file", 10);
  const Incarnation scanned = testing::Incarnate(directory_ / "file");
  {
    const auto source = FileSource::Open(directory_.NodePath("file"), scanned.identity);
    ASSERT_TRUE(source.ok());
    if (scanned.handle.empty()) GTEST_SKIP() << "this file system tells no files of a number apart";
    EXPECT_TRUE(source->IsSameFileAs(scanned));
  }
  // Another of its changes does not make it another file.
  Write("file", 20);
  {
    const auto source = FileSource::Open(directory_.NodePath("file"), scanned.identity);
    ASSERT_TRUE(source.ok());
    EXPECT_TRUE(source->IsSameFileAs(scanned));
  }
  std::filesystem::remove(directory_ / "file");
  if (!testing::MakeFileOfInode(directory_ / "file", scanned.identity.inode)) {
    GTEST_SKIP() << "this file system does not give numbers again";
  }
  const auto source = FileSource::Open(directory_.NodePath("file"), scanned.identity);
  ASSERT_TRUE(source.ok());
  EXPECT_FALSE(source->IsSameFileAs(scanned));
}

TEST_F(FileSourceTest, ALeaseIsWaitedFor) {
  Write("file", 10);
  sigset_t lease_break;
  sigset_t before;
  sigemptyset(&lease_break);
  sigaddset(&lease_break, SIGIO);
  // Blocked in the other thread too, so that the signal waits for sigtimedwait.
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &lease_break, &before), 0);
  const UniqueFd holder(open((directory_ / "file").c_str(), O_RDWR));
  if (fcntl(holder.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here";
  absl::Status status = absl::UnknownError("not opened");
  std::thread reader([&] {
    auto source = Open("file");
    status = source.status();
    if (!source.ok()) return;
    EXPECT_EQ(ReadAll(*source), 10u);
  });
  constexpr timespec kPatience = {30, 0};
  EXPECT_EQ(sigtimedwait(&lease_break, nullptr, &kPatience), SIGIO);
  EXPECT_EQ(fcntl(holder.get(), F_SETLEASE, F_UNLCK), 0);
  reader.join();
  EXPECT_TRUE(status.ok()) << status;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::string TextOf(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Of which the kernel says that they have no byte.
class SizelessFileTest : public ::testing::Test {
 protected:
  static absl::StatusOr<FileSource> Open(const std::string& path) {
    return FileSource::Open(path.substr(1), NodeIdentity());
  }

  static std::string Read(FileSource& source, std::size_t step_bytes) {
    std::string text;
    std::vector<std::uint8_t> buffer(step_bytes);
    while (true) {
      const auto count = source.Read(buffer);
      EXPECT_TRUE(count.ok()) << count.status();
      if (!count.ok() || *count == 0) return text;
      text.append(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*count));
    }
  }
};

TEST_F(SizelessFileTest, IsReadToItsEnd) {
  const std::string text = TextOf("/proc/filesystems");
  ASSERT_GT(text.size(), 7u);
  for (const bool is_asked_before : {false, true}) {
    for (const std::size_t step_bytes : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
      auto source = Open("/proc/filesystems");
      ASSERT_TRUE(source.ok()) << source.status();
      ASSERT_EQ(source->size_bytes(), 0u);
      if (is_asked_before) {
        EXPECT_TRUE(source->MayHaveContent());
      }
      EXPECT_EQ(Read(*source, step_bytes), text);
      EXPECT_TRUE(source->cut_short().ok()) << source->cut_short();
      EXPECT_FALSE(*source->Finish());
      Node node;
      NodeIdentity identity;
      source->Describe(node, identity);
      EXPECT_EQ(node.size_bytes, text.size());
      EXPECT_FALSE(node.sparse);
    }
  }
}

// Nothing lies where the address space of a program begins.
TEST_F(SizelessFileTest, ItIsSaidWhereItCannotBeRead) {
  auto source = Open(Cat("/proc/", getpid(), "/mem"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_FALSE(source->MayHaveContent());
  EXPECT_EQ(Read(*source, 100), "");
  EXPECT_FALSE(source->cut_short().ok());
  EXPECT_FALSE(*source->Finish());
}

// 256 GiB, and an entry for each program.
TEST_F(SizelessFileTest, WhatIsAsLongAsAnAddressSpaceIsCutAndItIsSaid) {
  auto source = Open(Cat("/proc/", getpid(), "/pagemap"));
  ASSERT_TRUE(source.ok()) << source.status();
  const std::size_t size = Read(*source, 1 << 20).size();
  EXPECT_GE(size, std::size_t{64} << 20);
  EXPECT_LT(size, std::size_t{66} << 20);
  EXPECT_TRUE(absl::IsOutOfRange(source->cut_short())) << source->cut_short();
}

TEST_F(FileSourceTest, AnEmptyFileThatGrowsMeanwhileIsReadUpToItsFirstSizeAndChanged) {
  Write("file", 0);
  auto source = Open("file");
  ASSERT_TRUE(source.ok());
  std::ofstream(directory_ / "file", std::ios::app) << "late";
  EXPECT_FALSE(source->MayHaveContent());
  EXPECT_EQ(ReadAll(*source), 0u);
  EXPECT_TRUE(source->cut_short().ok());
  EXPECT_TRUE(*source->Finish());
}

TEST_F(FileSourceTest, FindsHoles) {
  {
    const UniqueFd fd(open((directory_ / "file").c_str(), O_WRONLY | O_CREAT, 0600));
    const std::string data(8192, 'd');
    ASSERT_EQ(pwrite(fd.get(), data.data(), data.size(), 1 << 20), 8192);
    ASSERT_EQ(ftruncate(fd.get(), 4 << 20), 0);
  }
  auto source = Open("file");
  ASSERT_TRUE(source.ok());
  const std::size_t content = ReadAll(*source);
  EXPECT_EQ(content, source->content_bytes());
  ASSERT_TRUE(source->Finish().ok());
  Node node;
  NodeIdentity identity;
  source->Describe(node, identity);
  EXPECT_EQ(node.size_bytes, std::uint64_t{4} << 20);
  if (!node.sparse) GTEST_SKIP() << "this file system shows no holes";
  ASSERT_EQ(node.extents.size(), 1u);
  EXPECT_LE(node.extents[0].offset, 1u << 20);
  EXPECT_GE(node.extents[0].offset + node.extents[0].length_bytes, (1u << 20) + 8192u);
  EXPECT_EQ(node.extents[0].length_bytes, content);
}

}  // namespace
}  // namespace kerf::agent
