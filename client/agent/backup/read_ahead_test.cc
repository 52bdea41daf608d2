// That reading ahead of the lanes changes nothing of a snapshot.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/unique_fd.h"
#include "client/agent/backup/cache_warmer.h"
#include "client/agent/backup/engine.h"
#include "client/agent/backup/file_queue.h"
#include "client/agent/backup/slow_reads.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/fs/path.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/testing/test_store.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

using client::FakeServer;

constexpr int kFileCount = 200;

class ReadAheadOfLanesTest : public testing::Test {
 protected:
  ReadAheadOfLanesTest() {
    Random random(TestSeed());
    for (int number = 0; number < kFileCount; ++number) {
      const std::string directory = Cat(files(), "/", random.Below(7));
      std::filesystem::create_directories(directory);
      // One in ten is empty.
      std::vector<std::uint8_t> bytes(random.OneIn(10) ? 0 : random.Between(1, 20'000));
      random.Fill(bytes);
      WriteTestFile(Cat(directory, "/", number), std::string(bytes.begin(), bytes.end()));
    }
    WriteTestFile(files() + "/large", std::string(3'000'000, 'l'));
  }

  std::string files() const { return folder_.path() + "/files"; }

  absl::StatusOr<BackupResult> Backup(FakeServer::Script script) {
    const FakeServer server(std::move(script));
    options_.paths = {files()};
    options_.servers = {server.address()};
    options_.host = "host";
    options_.force = true;
    options_.cancelled = &cancelled_;
    options_.on_warning = [this](const std::string& path, const absl::Status&) {
      const std::lock_guard lock(mutex_);
      warned_.push_back(std::string(NameOf(path)));
    };
    return RunBackup(*store_, options_, progress_);
  }

  // Once a stream for files is asked for, all are scanned and some read ahead: no lane has had any
  // yet.
  CuttingServer ServerThatFirst(std::function<void()> act) {
    CuttingServer server;
    const auto acted = std::make_shared<std::once_flag>();
    server.lie = [this, acted, act = std::move(act)](const v1::UploadFrame& frame,
                                                     v1::UploadResponse&) {
      if (frame.open().profile() != store_->config().profile()) return;
      std::call_once(*acted, [&] {
        while (!progress_.scan_done || progress_.read_ahead_files < kMinAheadFiles) {
          std::this_thread::yield();
        }
        act();
      });
    };
    return server;
  }

  std::map<std::string, TreeEntry> Entries(const store::v1::Snapshot& snapshot) {
    ChunkIndex packs(store_->packs_directory());
    EXPECT_TRUE(packs.Refresh().ok());
    ChunkReader reader(packs, ChunkReader::Options());
    TreeReader tree(ReadRecipe(reader, *RecipeFromProto(snapshot.tree(), 32)), 32);
    std::map<std::string, TreeEntry> entries;
    TreeEntry entry;
    std::string before;
    while (*tree.Next(entry)) {
      EXPECT_LT(ComparePaths(before, entry.node.path), 0) << before << ", " << entry.node.path;
      before = entry.node.path;
      if (IsAtOrBelow(entry.node.path, files().substr(1))) entries[entry.node.path] = entry;
    }
    return entries;
  }

  // The paths of some files that are not empty, and where they lie in a snapshot.
  std::vector<std::string> SomeFiles(std::size_t count) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(files())) {
      if (entry.is_regular_file() && entry.file_size() > 0 && entry.file_size() < 100'000) {
        paths.push_back(entry.path());
      }
    }
    std::ranges::sort(paths);
    paths.resize(count);
    return paths;
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = *Store::OpenOrCreate(
      folder_.path() + "/store", kDefaultProfileName, DigestAlgorithm::kBlake3);
  BackupOptions options_;
  BackupProgress progress_;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::vector<std::string> warned_;
};

TEST_F(ReadAheadOfLanesTest, OrderAndReadersChangeNothingOfTheSnapshot) {
  options_.reader_count = 0;
  options_.lane_count = 1;
  const auto first = Backup(CuttingServer());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(progress_.read_ahead_files, 0u);
  const auto entries = Entries(first->snapshot);
  EXPECT_EQ(entries.size(), kFileCount + 1u + 1u + 7u);
  for (const ReadOrder order : {ReadOrder::kPath, ReadOrder::kInode, ReadOrder::kPhysical}) {
    for (const unsigned reader_count : {1u, 2u, 30u}) {
      options_.read_order = order;
      options_.reader_count = reader_count;
      options_.lane_count = 1 + reader_count % 3;
      const auto result = Backup(ServerThatFirst([] {}));
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->chunks.new_chunks, result->chunks.new_metadata_chunks);
      const auto again = Entries(result->snapshot);
      ASSERT_EQ(again.size(), entries.size());
      for (const auto& [path, entry] : entries) {
        EXPECT_EQ(again.at(path).node, entry.node) << path;
        EXPECT_EQ(again.at(path).recipe, entry.recipe) << path;
      }
    }
  }
  EXPECT_TRUE(warned_.empty());
}

TEST_F(ReadAheadOfLanesTest, WhatChangesBehindItIsReadAsItIsThen) {
  const std::vector<std::string> some = SomeFiles(5);
  const auto result = Backup(ServerThatFirst([&some] {
    std::filesystem::remove(some[0]);
    std::filesystem::resize_file(some[1], 1);
    WriteTestFile(some[2], std::string(123'456, 'n'));
    std::filesystem::remove(some[3]);
    std::filesystem::create_directory(some[3]);
    // Replaced, as editors do.
    WriteTestFile(some[4] + ".new", "other content");
    std::filesystem::rename(some[4] + ".new", some[4]);
  }));
  ASSERT_TRUE(result.ok()) << result.status();
  const auto entries = Entries(result->snapshot);
  EXPECT_FALSE(entries.contains(some[0].substr(1)));
  EXPECT_EQ(entries.at(some[1].substr(1)).node.size_bytes, 1u);
  EXPECT_EQ(entries.at(some[2].substr(1)).node.size_bytes, 123'456u);
  EXPECT_FALSE(entries.contains(some[3].substr(1)));
  EXPECT_EQ(entries.at(some[4].substr(1)).node.size_bytes, 13u);
  EXPECT_EQ(entries.at(some[4].substr(1)).recipe.front(), RefOf("other content"));
  // The two that are missing: the others were not touched while they were read.
  std::ranges::sort(warned_);
  EXPECT_EQ(warned_.size(), 2u);
}

TEST_F(ReadAheadOfLanesTest, AnInterruptEndsIt) {
  const auto result = Backup(ServerThatFirst([this] { cancelled_ = true; }));
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
  EXPECT_TRUE(store_->ListSnapshots()->snapshots.empty());
}

// As one whose file system is silent: whoever opens it waits, and nobody else does.
TEST_F(ReadAheadOfLanesTest, AFileThatDoesNotAnswerIsToldOfAndHoldsUpNoOthers) {
  // What tells the holder that somebody waits.
  ASSERT_NE(signal(SIGIO, SIG_IGN), SIG_ERR);
  const std::string path = SomeFiles(1).front();
  UniqueFd holder(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fcntl(holder.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here";
  std::vector<std::string> told;
  options_.lane_count = 2;
  options_.slow_file_after = std::chrono::milliseconds(200);
  options_.on_slow_file = [&](const std::string& slow) {
    // On a machine with more to do others may be slow as well.
    if (slow != path) return;
    told.push_back(slow);
    // But those that its lane has taken with it.
    while (progress_.done_files + 2 * kBatchFiles < kFileCount) std::this_thread::yield();
    holder.Reset();
  };
  const auto result = Backup(CuttingServer());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(told, std::vector<std::string>{path});
  EXPECT_TRUE(warned_.empty());
  EXPECT_TRUE(Entries(result->snapshot).contains(path.substr(1)));
}

// Once for each wait, and only while it lasts.
TEST(SlowReads, AreToldOfOnce) {
  SlowReads reads;
  const std::string quick = "quick";
  const std::string slow = "slow";
  using std::chrono::hours;
  EXPECT_TRUE(reads.Take(hours(0)).empty());
  {
    const SlowReads::Wait first(reads, slow);
    EXPECT_TRUE(reads.Take(hours(1)).empty());
    EXPECT_EQ(reads.Take(hours(0)), std::vector<std::string>{slow});
    {
      const SlowReads::Wait second(reads, quick);
    }
    EXPECT_TRUE(reads.Take(hours(0)).empty());
  }
  const SlowReads::Wait again(reads, slow);
  EXPECT_EQ(reads.Take(hours(0)), std::vector<std::string>{slow});
}

// What the backup itself needs is never taken from it.
TEST_F(ReadAheadOfLanesTest, WithFewDescriptorsLessIsReadAhead) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct {
    rlim_t limit;
    bool is_read_ahead;
  } cases[] = {{150, false}, {193, false}, {194, true}, {256, true}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.limit);
    rlimit low = before;
    low.rlim_cur = one.limit;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    options_.reader_count = kMaxReaders;
    const auto result =
        one.is_read_ahead ? Backup(ServerThatFirst([] {})) : Backup(CuttingServer());
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->warning_count, 0u);
    EXPECT_EQ(progress_.read_ahead_files > 0, one.is_read_ahead);
  }
}

}  // namespace
}  // namespace kerf::agent
