#include "client/agent/backup/file_queue.h"

#include <gtest/gtest.h>

#include <atomic>
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
