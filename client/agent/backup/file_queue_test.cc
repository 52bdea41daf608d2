#include "client/agent/backup/file_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "base/strings.h"

namespace kerf::agent {
namespace {

class FileQueueTest : public testing::Test {
 protected:
  EntryWindow::Slot* Slot(const std::string& path, std::uint64_t size_bytes) {
    BackupEntry entry;
    entry.tree.node.path = path;
    entry.tree.node.size_bytes = size_bytes;
    return window_.Push(std::move(entry), 1);
  }
  static std::vector<std::string> Paths(const FileQueue::Batch& batch) {
    std::vector<std::string> paths;
    for (const EntryWindow::Slot* slot : batch) paths.push_back(slot->entry.tree.node.path);
    return paths;
  }
  // Of two, the lane that has a file of this name at home.
  static std::string NameAt(std::size_t lane, std::uint64_t size_bytes) {
    for (int number = 0;; ++number) {
      std::string path = Cat("folder-", number, "/file");
      if (HomeHash(path, size_bytes) % 2 == lane) return path;
    }
  }
  static void Never() { FAIL() << "there is work"; }

  EntryWindow window_;
  FileQueue queue_{100};
};

TEST_F(FileQueueTest, SmallFilesStayWithTheirFolder) {
  EXPECT_EQ(HomeHash("a/b/one", 10), HomeHash("a/b/two", kBatchBytes - 1));
  EXPECT_NE(HomeHash("a/b/one", 10), HomeHash("a/c/one", 10));
  EXPECT_NE(HomeHash("a/b/one", kBatchBytes), HomeHash("a/b/two", kBatchBytes));
  EXPECT_EQ(HomeHash("one", 10), HomeHash("two", 10));
}

TEST_F(FileQueueTest, ALaneHasItsOwnFilesFirst) {
  queue_.SetLaneCount(2);
  const std::string left = NameAt(0, 1);
  const std::string right = NameAt(1, 1);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(queue_.Push(Slot(left, 1)));
    ASSERT_TRUE(queue_.Push(Slot(right, 1)));
  }
  queue_.Close();
  EXPECT_EQ(Paths(queue_.Pop(1, Never)), std::vector<std::string>(3, right));
  // Then it helps the other one.
  EXPECT_EQ(Paths(queue_.Pop(1, Never)), std::vector<std::string>(3, left));
  EXPECT_TRUE(queue_.Pop(1, Never).empty());
  EXPECT_TRUE(queue_.Pop(0, Never).empty());
}

TEST_F(FileQueueTest, BatchesAreBounded) {
  queue_.SetLaneCount(1);
  for (int number = 0; number < 3; ++number) queue_.Push(Slot("large", kBatchBytes));
  for (std::size_t number = 0; number <= kBatchFiles; ++number) queue_.Push(Slot("small", 1));
  queue_.Close();
  for (int number = 0; number < 3; ++number) EXPECT_EQ(queue_.Pop(0, Never).size(), 1u);
  EXPECT_EQ(queue_.Pop(0, Never).size(), kBatchFiles);
  EXPECT_EQ(queue_.Pop(0, Never).size(), 1u);
  EXPECT_TRUE(queue_.Pop(0, Never).empty());
}

TEST_F(FileQueueTest, WaitsWhileItIsFullOrEmpty) {
  FileQueue queue(1);
  queue.SetLaneCount(2);
  std::atomic<int> idle_count{0};
  std::atomic<int> taken_count{0};
  std::thread lane([&] {
    while (true) {
      const FileQueue::Batch batch = queue.Pop(0, [&] { ++idle_count; });
      if (batch.empty()) return;
      taken_count += static_cast<int>(batch.size());
    }
  });
  for (int number = 0; number < 200; ++number) EXPECT_TRUE(queue.Push(Slot("file", 1)));
  queue.Close();
  lane.join();
  EXPECT_EQ(taken_count, 200);
  EXPECT_GT(idle_count, 0);
}

std::vector<std::string> AheadPaths(const std::vector<AheadFile>& files) {
  std::vector<std::string> paths;
  paths.reserve(files.size());
  for (const AheadFile& file : files) paths.push_back(file.path);
  return paths;
}

TEST_F(FileQueueTest, WhatIsReadAheadIsWhatLanesTakeNextAndEachOnce) {
  FileQueue queue(1000);
  queue.SetLaneCount(2);
  const std::string left = NameAt(0, 1);
  const std::string right = NameAt(1, 1);
  for (int number = 0; number < 100; ++number) {
    ASSERT_TRUE(queue.Push(Slot(Cat(number < 70 ? left : right, number), 1)));
  }
  std::vector<std::string> ahead = AheadPaths(queue.TakeAhead());
  EXPECT_EQ(ahead.size(), 100u);
  // By turns.
  EXPECT_EQ(ahead[0], Cat(left, 0));
  EXPECT_EQ(ahead[1], Cat(right, 70));
  EXPECT_EQ(ahead[2], Cat(left, 1));
  EXPECT_EQ(std::set<std::string>(ahead.begin(), ahead.end()).size(), 100u);
  // Lanes take them as if nobody had looked.
  EXPECT_EQ(Paths(queue.Pop(0, Never)).front(), Cat(left, 0));
  for (int number = 100; number < 170; ++number) {
    ASSERT_TRUE(queue.Push(Slot(Cat(left, number), 1)));
  }
  ahead = AheadPaths(queue.TakeAhead());
  EXPECT_EQ(ahead.size(), 70u);
  EXPECT_EQ(ahead.front(), Cat(left, 100));
  queue.Close();
  EXPECT_TRUE(queue.TakeAhead().empty());
}

TEST_F(FileQueueTest, WhatIsReadAheadIsBounded) {
  FileQueue queue(10'000);
  queue.SetLaneCount(3);
  for (int number = 0; number < 200; ++number) {
    ASSERT_TRUE(queue.Push(Slot(Cat("large/", number), std::uint64_t{1} << 40)));
  }
  std::uint64_t bytes = 0;
  for (const AheadFile& file : queue.TakeAhead()) {
    EXPECT_EQ(file.size_bytes, kAheadFileBytes);
    bytes += file.size_bytes;
  }
  EXPECT_GE(bytes, kAheadBytes);
  EXPECT_LT(bytes, kAheadBytes + 3 * kAheadFileBytes);
  queue.Close();
  // Half of them must have been taken before there are more.
  std::atomic<bool> has_more = false;
  std::thread reader([&] {
    EXPECT_FALSE(queue.TakeAhead().empty());
    has_more = true;
  });
  EXPECT_EQ(queue.Pop(0, Never).size(), 1u);
  EXPECT_FALSE(has_more);
  for (std::size_t number = 0; number < 40; ++number) {
    EXPECT_EQ(queue.Pop(number % 3, Never).size(), 1u);
  }
  reader.join();
}

TEST_F(FileQueueTest, EmptyFilesAreNotReadAheadAndEndNothing) {
  FileQueue queue(1000);
  for (int number = 0; number < 100; ++number) ASSERT_TRUE(queue.Push(Slot("empty", 0)));
  std::thread reader([&] { EXPECT_FALSE(queue.TakeAhead().empty()); });
  for (int number = 0; number < 64; ++number) ASSERT_TRUE(queue.Push(Slot("file", 1)));
  reader.join();
}

// Whoever takes the last file, a lane or who reads ahead: nobody waits any more.
TEST_F(FileQueueTest, ReadingAheadEndsWithTheQueue) {
  for (const bool is_aborted : {false, true}) {
    FileQueue queue(10'000);
    queue.SetLaneCount(2);
    // More than are read ahead at once.
    for (std::size_t number = 0; number < 3 * kAheadFiles; ++number) {
      ASSERT_TRUE(queue.Push(Slot(Cat("folder-", number % 5, "/", number), 1)));
    }
    std::thread reader([&] {
      while (!queue.TakeAhead().empty()) {
      }
    });
    if (is_aborted) {
      queue.Abort();
    } else {
      queue.Close();
      while (!queue.Pop(0, [] {}).empty()) {
      }
    }
    reader.join();
  }
}

// While more is read ahead than lets anything be given.
TEST_F(FileQueueTest, ReadingAheadEndsWhenALaneTakesTheLastThatWasNotReadAhead) {
  FileQueue queue(10'000);
  queue.SetLaneCount(3);
  std::array<std::string, 3> folders;
  for (int number = 0; std::ranges::any_of(folders, &std::string::empty); ++number) {
    const std::string folder = Cat("folder-", number, "/");
    folders[HomeHash(folder, 1) % 3] = folder;
  }
  constexpr std::size_t kShare = (kAheadFiles + 2) / 3;
  for (std::size_t lane = 0; lane < 3; ++lane) {
    const std::size_t count = lane == 0 ? kShare + 100 : kShare;
    for (std::size_t number = 0; number < count; ++number) {
      ASSERT_TRUE(queue.Push(Slot(Cat(folders[lane], number), 1)));
    }
  }
  EXPECT_GE(queue.TakeAhead().size(), kAheadFiles);
  queue.Close();
  std::thread reader([&] { EXPECT_TRUE(queue.TakeAhead().empty()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::size_t taken_count = 0;
  while (taken_count < kShare + 100) taken_count += queue.Pop(0, Never).size();
  reader.join();
}

TEST_F(FileQueueTest, AnAbortEndsAllWaiting) {
  FileQueue queue(1);
  ASSERT_TRUE(queue.Push(Slot("one", 1)));
  std::thread scan([&] { EXPECT_FALSE(queue.Push(Slot("two", 1))); });
  queue.Abort();
  scan.join();
  EXPECT_TRUE(queue.Pop(0, Never).empty());
}

}  // namespace
}  // namespace kerf::agent
