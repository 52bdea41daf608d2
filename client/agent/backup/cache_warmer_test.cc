#include "client/agent/backup/cache_warmer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "client/agent/backup/entry_window.h"
#include "client/fs/page_cache.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

constexpr std::uint64_t kFileBytes = 200'000;

class CacheWarmerTest : public testing::Test {
 protected:
  AheadFile Make(const std::string& name) {
    const std::string path = folder_.path() + "/" + name;
    WriteTestFile(path, std::string(kFileBytes, 'x'));
    return FileAt(path);
  }

  static AheadFile FileAt(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(lstat(path.c_str(), &status), 0);
    return {path.substr(1), {status.st_dev, status.st_ino, {}}, kFileBytes};
  }

  // Writes the file back and has it forgotten; false if the file system does not do that.
  static bool Cool(const AheadFile& file) {
    const int fd = open(("/" + file.path).c_str(), O_RDONLY);
    EXPECT_EQ(fsync(fd), 0);
    EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
    return !IsInMemory(file);
  }

  static bool IsInMemory(const AheadFile& file) {
    const int fd = open(("/" + file.path).c_str(), O_RDONLY);
    void* const memory = mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(memory, MAP_FAILED);
    std::vector<unsigned char> pages(kFileBytes / 4096 + 1);
    EXPECT_EQ(mincore(memory, kFileBytes, pages.data()), 0);
    munmap(memory, kFileBytes);
    close(fd);
    return std::ranges::all_of(pages, [](unsigned char page) { return (page & 1) != 0; });
  }

  void Push(FileQueue& queue, const AheadFile& file) {
    BackupEntry entry;
    entry.tree.node.path = file.path;
    entry.tree.node.size_bytes = file.size_bytes;
    entry.identity = file.identity;
    ASSERT_TRUE(queue.Push(window_.Push(std::move(entry), 1)));
  }

  const TemporaryFolder folder_;
  EntryWindow window_;
  BackupProgress progress_;
};

TEST_F(CacheWarmerTest, BringsFilesIntoMemory) {
  FileQueue queue(1000);
  std::vector<AheadFile> files;
  files.reserve(70);
  for (int number = 0; number < 70; ++number) files.push_back(Make(Cat("file ", number)));
  const bool is_cold = std::ranges::all_of(files, [](const auto& file) { return Cool(file); });
  for (const AheadFile& file : files) Push(queue, file);
  {
    const CacheWarmer warmer(queue, 3, ReadOrder::kInode, progress_);
    while (progress_.read_ahead_files < files.size()) std::this_thread::yield();
    queue.Abort();
  }
  if (!is_cold) GTEST_SKIP() << "this file system keeps files in memory";
  for (const AheadFile& file : files) {
    for (int wait = 0; !IsInMemory(file) && wait < 5000; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(IsInMemory(file)) << file.path;
  }
}

TEST_F(CacheWarmerTest, TellsWhatWasInMemory) {
  const AheadFile file = Make("file");
  if (!Cool(file)) GTEST_SKIP() << "this file system keeps files in memory";
  EXPECT_TRUE(BeginReadingFile(file.path, file.identity, kFileBytes));
  while (!IsInMemory(file)) std::this_thread::yield();
  const bool is_told = access("/proc/self/io", F_OK) == 0 && major(file.identity.device) != 0;
  EXPECT_EQ(BeginReadingFile(file.path, file.identity, kFileBytes), !is_told);
}

TEST_F(CacheWarmerTest, WhatIsGoneOrAnotherThingByNowIsPassedOver) {
  FileQueue queue(1000);
  for (int number = 0; number < 80; ++number) {
    const AheadFile file = Make(Cat("file ", number));
    const std::string path = "/" + file.path;
    if (number % 5 == 0) std::filesystem::remove(path);
    if (number % 5 == 1) std::filesystem::resize_file(path, 10);
    if (number % 5 >= 2) std::filesystem::remove(path);
    if (number % 5 == 2) std::filesystem::create_directory(path);
    if (number % 5 == 3) {
      ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    }
    if (number % 5 == 4) std::filesystem::create_symlink("/etc/passwd", path);
    Push(queue, file);
  }
  std::size_t taken_count = 0;
  {
    const CacheWarmer warmer(queue, 4, ReadOrder::kPhysical, progress_);
    while (progress_.read_ahead_files < 80) std::this_thread::yield();
    queue.Close();
    for (auto batch = queue.Pop(0, [] {}); !batch.empty(); batch = queue.Pop(0, [] {})) {
      taken_count += batch.size();
    }
  }
  EXPECT_EQ(taken_count, 80u);
}

TEST_F(CacheWarmerTest, EndsWithTheQueueWhateverTheLanesDo) {
  for (const unsigned reader_count : {1u, 2u, 20u}) {
    FileQueue queue(500);
    queue.SetLaneCount(2);
    const CacheWarmer warmer(queue, reader_count, ReadOrder::kPath, progress_);
    std::vector<std::thread> lanes;
    lanes.reserve(2);
    for (std::size_t lane = 0; lane < 2; ++lane) {
      lanes.emplace_back([&queue, lane] {
        while (!queue.Pop(lane, [] {}).empty()) {
        }
      });
    }
    for (int number = 0; number < 5000; ++number) {
      Push(queue, {Cat("nowhere/", number % 40, "/", number), {}, 10});
    }
    queue.Close();
    for (std::thread& lane : lanes) lane.join();
  }
}

// An interrupt must not wait for what nobody will send any more.
TEST_F(CacheWarmerTest, ReadsNothingMoreOnceTheQueueIsAborted) {
  constexpr std::size_t kCount = 2000;
  bool ended_early = false;
  // A quick warmer may have read everything in one of them.
  for (int round = 0; round < 100 && !ended_early; ++round) {
    EntryWindow window;
    BackupProgress progress;
    FileQueue queue(kCount);
    for (std::size_t number = 0; number < kCount; ++number) {
      BackupEntry entry;
      entry.tree.node.path = Cat("nowhere/", number);
      entry.tree.node.size_bytes = 10;
      ASSERT_TRUE(queue.Push(window.Push(std::move(entry), 1)));
    }
    {
      const CacheWarmer warmer(queue, 1, ReadOrder::kPath, progress);
      while (progress.read_ahead_files == 0) std::this_thread::yield();
      queue.Abort();
    }
    ended_early = progress.read_ahead_files < kCount;
  }
  EXPECT_TRUE(ended_early);
}

// Nor for the places of files on the disk.
TEST_F(CacheWarmerTest, AsksForNoMorePlacesOnceItIsOver) {
  std::vector<AheadFile> files;
  files.reserve(10);
  for (int number = 0; number < 10; ++number) files.push_back(Make(Cat(number)));
  int asked = 0;
  const auto ordered = InOrder(files, ReadOrder::kPhysical, [&asked] { return ++asked > 3; });
  EXPECT_EQ(ordered.size(), files.size());
  EXPECT_EQ(asked, 10);
}

TEST_F(CacheWarmerTest, PutsFilesInTheOrderOfTheDisk) {
  std::vector<AheadFile> files;
  files.reserve(30);
  for (int number = 0; number < 30; ++number) files.push_back(Make(Cat(97 * number % 31)));
  const auto paths = [](const std::vector<AheadFile>& some) {
    std::vector<std::string> all;
    all.reserve(some.size());
    for (const AheadFile& file : some) all.push_back(file.path);
    return all;
  };
  EXPECT_EQ(paths(InOrder(files, ReadOrder::kPath)), paths(files));
  std::ranges::reverse(files);
  const std::vector<AheadFile> by_inode = InOrder(files, ReadOrder::kInode);
  EXPECT_TRUE(std::ranges::is_sorted(by_inode, {},
                                     [](const AheadFile& file) { return file.identity.inode; }));
  std::vector<AheadFile> by_place = InOrder(files, ReadOrder::kPhysical);
  EXPECT_TRUE(std::ranges::is_sorted(
      by_place, {}, [](const AheadFile& file) { return PhysicalPlace(file.path, file.identity); }));
  // None is lost and none comes twice.
  EXPECT_EQ(by_place.size(), files.size());
  std::ranges::sort(by_place, {}, &AheadFile::path);
  std::ranges::sort(files, {}, &AheadFile::path);
  EXPECT_EQ(paths(by_place), paths(files));
  EXPECT_EQ(PhysicalPlace("nowhere", {}), 0u);
}

// A backup must not end for what was but a hint.
TEST(Readers, WithoutThreadsNothingIsReadAhead) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    // Root has no limit.
    const bool is_user = geteuid() != 0 || setresuid(65534, 65534, 65534) == 0;
    if (!is_user || setrlimit(RLIMIT_NPROC, &none) != 0) _exit(77);
    FileQueue queue(10);
    BackupProgress progress;
    const CacheWarmer warmer(queue, 4, ReadOrder::kPath, progress);
    queue.Close();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "nobody can be without threads here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Readers, AreNoMoreThanThereAreDescriptorsToSpare) {
  EXPECT_EQ(AffordableReaders(8, 1024), 8u);
  EXPECT_EQ(AffordableReaders(8, ~std::uint64_t{0}), 8u);
  EXPECT_EQ(AffordableReaders(8, 200), 4u);
  EXPECT_EQ(AffordableReaders(8, 193), 0u);
  EXPECT_EQ(AffordableReaders(8, 192), 0u);
  EXPECT_EQ(AffordableReaders(8, 64), 0u);
  EXPECT_EQ(AffordableReaders(0, 1024), 0u);
}

TEST(ReadOrderText, IsOneOfThree) {
  EXPECT_EQ(*ParseReadOrder("path"), ReadOrder::kPath);
  EXPECT_EQ(*ParseReadOrder("inode"), ReadOrder::kInode);
  EXPECT_EQ(*ParseReadOrder("physical"), ReadOrder::kPhysical);
  EXPECT_FALSE(ParseReadOrder("").ok());
  EXPECT_FALSE(ParseReadOrder("random").ok());
}

// How many of `count` files are looked at.
unsigned Looked(Warmth& warmth, unsigned count, bool is_cold) {
  unsigned looked = 0;
  for (unsigned number = 0; number < count; ++number) {
    if (!warmth.Wants()) continue;
    ++looked;
    warmth.Saw(is_cold);
  }
  return looked;
}

TEST(Warmth, ColdFilesAreAllLookedAt) {
  Warmth warmth;
  EXPECT_EQ(Looked(warmth, 5000, true), 5000u);
}

TEST(Warmth, OfWarmFilesFewAre) {
  Warmth warmth;
  EXPECT_LT(Looked(warmth, 66'000, false), 66'000u / 40);
}

TEST(Warmth, AColdFileIsNoticedSoonAndEndsThePassing) {
  Warmth warmth;
  Looked(warmth, 10'000, false);
  EXPECT_GE(Looked(warmth, 2 * Warmth::kMaxPassed, true), Warmth::kMaxPassed);
  EXPECT_EQ(Looked(warmth, 1000, true), 1000u);
}

}  // namespace
}  // namespace kerf::agent
