#include "client/agent/backup/engine.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/agent/backup/late_commits.h"
#include "client/agent/backup/link_marks.h"
#include "client/agent/backup/parent_tree.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/cpp/shard_key.h"
#include "client/fs/path.h"
#include "client/fs/testing/inode_reuse.h"
#include "client/fs/testing/settle.h"
#include "client/store/format/file_hook.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/testing/test_store.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

using client::FakeServer;

// When the folders above that path were changed.
std::string TimesAbove(const std::filesystem::path& path) {
  std::string times;
  for (std::filesystem::path folder = path.parent_path();; folder = folder.parent_path()) {
    const auto since = std::filesystem::last_write_time(folder).time_since_epoch();
    times += Cat(folder.string(), " ", since.count(), "\n");
    if (folder == folder.root_path()) return times;
  }
}

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() {
    std::filesystem::create_directory(files());
    for (const char* name : {"one", "two", "three"}) {
      WriteTestFile(files() + "/" + name, std::string(5000, name[1]));
    }
  }

  std::string files() const { return folder_.path() + "/files"; }

  absl::StatusOr<BackupResult> Backup(FakeServer::Script script) {
    const FakeServer server(std::move(script));
    BackupOptions options;
    options.paths = {root_};
    options.excludes = excludes_;
    options.servers = {server.address()};
    options.retry = retry_;
    options.commit_late = commit_late_;
    options.host = "host";
    options.lane_count = lane_count_;
    options.cancelled = &cancelled_;
    options.answer_limit = answer_limit_;
    options.target_pack_bytes = target_pack_bytes_;
    options.max_kept_chunks = max_kept_chunks_;
    options.ignore_device = ignore_device_;
    BackupProgress progress;
    return RunBackup(*store_, options, progress);
  }

  // What the snapshot has of files(), by name.
  std::map<std::string, TreeEntry> Entries(const store::v1::Snapshot& snapshot) {
    ChunkIndex packs(store_->packs_directory());
    EXPECT_TRUE(packs.Refresh().ok());
    ChunkReader reader(packs, ChunkReader::Options());
    TreeReader tree(ReadRecipe(reader, *RecipeFromProto(snapshot.tree(), 32)), 32);
    std::map<std::string, TreeEntry> entries;
    TreeEntry entry;
    while (*tree.Next(entry)) {
      if (ParentOf(entry.node.path) == files().substr(1)) {
        entries[std::string(NameOf(entry.node.path))] = entry;
      }
    }
    return entries;
  }

  std::size_t SnapshotCount() { return store_->ListSnapshots()->snapshots.size(); }

  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = *Store::OpenOrCreate(
      folder_.path() + "/store", kDefaultProfileName, DigestAlgorithm::kBlake3);
  std::string root_ = files();
  ExcludePatterns excludes_;
  std::atomic<bool> cancelled_ = false;
  std::chrono::milliseconds answer_limit_ = kAnswerLimit;
  client::RetryLimits retry_;
  decltype(BackupOptions::commit_late) commit_late_;
  unsigned lane_count_ = 2;
  std::uint64_t target_pack_bytes_ = BackupOptions().target_pack_bytes;
  std::size_t max_kept_chunks_ = kMaxKeptChunks;
  bool ignore_device_ = false;
};

TEST_F(EngineTest, AnInterruptEndsTheWaitForASilentServer) {
  const auto result = Backup([this](grpc::ServerContext& context, FakeServer::Stream&) {
    cancelled_ = true;
    return FakeServer::StaySilent(context);
  });
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
  EXPECT_EQ(SnapshotCount(), 0u);
}

TEST_F(EngineTest, ASilentServerEndsTheRun) {
  answer_limit_ = std::chrono::milliseconds(300);
  const auto result = Backup([](grpc::ServerContext& context, FakeServer::Stream&) {
    return FakeServer::StaySilent(context);
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
  EXPECT_EQ(SnapshotCount(), 0u);
}

// With OK, before a word: nobody may wait for more.
TEST_F(EngineTest, AServerThatEndsEveryStreamAtOnceEndsTheRun) {
  const auto result =
      Backup([](grpc::ServerContext&, FakeServer::Stream&) { return grpc::Status::OK; });
  EXPECT_TRUE(absl::IsInternal(result.status())) << result.status();
  EXPECT_EQ(SnapshotCount(), 0u);
}

TEST_F(EngineTest, AnHonestServerLeavesNoWarning) {
  const auto result = Backup(CuttingServer());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warning_count, 0u);
  EXPECT_TRUE(result->index_warning.ok()) << result->index_warning;
  EXPECT_EQ(SnapshotCount(), 1u);
}

// Of the last chunk of all, too, which nobody asks for any more before the snapshot is written.
TEST_F(EngineTest, AChunkUnderTheNameOfAnotherOneMakesNoSnapshot) {
  lane_count_ = 1;
  bool is_last = false;
  CuttingServer server;
  server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    if (frame.has_file_begin()) is_last = frame.file_begin().file_key().ends_with("/two");
    if (!frame.has_file_end() || !is_last) return;
    // That of the first file is in a pack, or on its way there.
    const Digest other = RefOf(std::string(4096, 'n')).digest;
    v1::Chunk& chunk = *response.mutable_answers(0)->mutable_chunks()->mutable_chunks(0);
    chunk.set_digest(other.bytes.data(), DigestSizeBytes(DigestAlgorithm::kBlake3));
  };
  const auto result = Backup(server);
  EXPECT_TRUE(absl::IsDataLoss(result.status())) << result.status();
  EXPECT_EQ(SnapshotCount(), 0u);
}

TEST_F(EngineTest, TheSnapshotSaysWhatItLeftOut) {
  root_ = folder_.path();
  ASSERT_TRUE(excludes_.Add("tw?").ok());
  const auto result = Backup(CuttingServer());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Entries(result->snapshot).size(), 2u);
  const store::v1::LeftOut& left_out = result->snapshot.left_out();
  ASSERT_EQ(left_out.excludes_size(), 1);
  EXPECT_EQ(left_out.excludes(0), "tw?");
  EXPECT_FALSE(left_out.one_file_system());
  ASSERT_EQ(left_out.directories_size(), 1);
  EXPECT_EQ(left_out.directories(0), std::filesystem::canonical(store_->directory()));
}

// Takes commits and goes before it answers them; not told that its file is done, the agent waits
// for it only when all is durable.
CuttingServer ServerThatGoesAtCommit() {
  CuttingServer server;
  server.lie = [](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    if (frame.has_file_end()) response.mutable_answers()->RemoveLast();
    if (!frame.has_commit()) return;
    response.clear_answers();
    response.add_answers()->mutable_go_away();
  };
  return server;
}

// Every file is in the snapshot: that the index was not told of it concerns later backups only.
TEST_F(EngineTest, AServerThatFailsAtTheEndIsNoFaultOfTheSnapshot) {
  retry_.time = std::chrono::milliseconds(0);
  commit_late_ = [](std::uint64_t, std::span<const StoredChunk>, client::CallCancellation&) {
    return absl::UnavailableError("all are gone");
  };
  const auto result = Backup(ServerThatGoesAtCommit());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warning_count, 0u);
  EXPECT_EQ(result->snapshot.stats().error_count(), 0u);
  EXPECT_TRUE(absl::IsUnavailable(result->index_warning)) << result->index_warning;
  EXPECT_EQ(SnapshotCount(), 1u);
}

TEST_F(EngineTest, CommitsThatAStreamWasLostWithReachTheIndex) {
  retry_.first_wait = std::chrono::milliseconds(1);
  std::atomic<int> tries = 0;
  std::mutex mutex;
  std::set<std::string> told;
  commit_late_ = [&](std::uint64_t epoch, std::span<const StoredChunk> chunks,
                     client::CallCancellation&) {
    EXPECT_EQ(epoch, *store_->ReadEpoch());
    // Nobody is there at first.
    if (++tries == 1) return absl::UnavailableError("all are gone");
    std::lock_guard lock(mutex);
    for (const StoredChunk& chunk : chunks) {
      EXPECT_GT(chunk.length_bytes, 0u);
      told.insert(DigestToHex(chunk.digest, 32));
    }
    return absl::OkStatus();
  };
  const auto result = Backup(ServerThatGoesAtCommit());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->index_warning.ok()) << result->index_warning;
  EXPECT_EQ(told.size(), result->chunks.new_chunks);
  EXPECT_EQ(SnapshotCount(), 1u);
}

TEST_F(EngineTest, AnInterruptWhileOnlyTheLastWordIsMissingLeavesTheSnapshot) {
  CuttingServer server;
  server.on_half_close = [this] {
    cancelled_ = true;
    return false;
  };
  const auto result = Backup(server);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warning_count, 0u);
  EXPECT_TRUE(absl::IsCancelled(result->index_warning)) << result->index_warning;
  EXPECT_EQ(SnapshotCount(), 1u);
}

// It is durable by then: an agent that dies while it waits has it.
TEST_F(EngineTest, TheSnapshotIsThereBeforeTheServersLastWord) {
  std::atomic<std::size_t> early_count = 0;
  CuttingServer server;
  server.on_half_close = [&] {
    early_count = SnapshotCount();
    return true;
  };
  const auto result = Backup(server);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(early_count, 1u);
}

TEST_F(EngineTest, AllStreamsAreWaitedForAtOnce) {
  lane_count_ = 1;
  // That of the files and that of the metadata: neither is ended before both have said all.
  std::atomic<int> half_closed_count = 0;
  std::atomic<bool> were_together = true;
  CuttingServer server;
  server.on_half_close = [&] {
    ++half_closed_count;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (half_closed_count < 2 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (half_closed_count < 2) were_together = false;
    return true;
  };
  const auto result = Backup(server);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(half_closed_count, 2);
  EXPECT_TRUE(were_together);
}

TEST_F(EngineTest, AnInterruptEndsACallForLateCommits) {
  std::atomic<int> called_count = 0;
  commit_late_ = [&](std::uint64_t, std::span<const StoredChunk>,
                     client::CallCancellation& cancellation) {
    ++called_count;
    cancelled_ = true;
    while (!cancellation.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::CancelledError("so I was told");
  };
  const auto began = std::chrono::steady_clock::now();
  const auto result = Backup(ServerThatGoesAtCommit());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GE(called_count, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - began, LateCommits::kFinishLimit);
  EXPECT_TRUE(absl::IsCancelled(result->index_warning)) << result->index_warning;
  EXPECT_EQ(SnapshotCount(), 1u);
}

// A server without room for the streams of some lanes.
class FullServerTest : public EngineTest {
 protected:
  FullServerTest() {
    retry_.first_wait = std::chrono::milliseconds(1);
    retry_.longest_wait = std::chrono::milliseconds(10);
  }

  // Cuts, but refuses each stream of these names. `on_half_close` as of CuttingServer.
  FakeServer::Script Refuses(const std::set<std::string>& names,
                             const std::function<bool()>& on_half_close = {}) {
    std::set<std::string> keys;
    for (const std::string& name : names) {
      keys.insert(client::ShardKey(store_->config().id(), name));
    }
    return [this, keys, on_half_close](grpc::ServerContext& context, FakeServer::Stream& stream) {
      const auto key = context.client_metadata().find("kerf-shard-key");
      if (key == context.client_metadata().end()) return grpc::Status::CANCELLED;
      if (!keys.contains({key->second.data(), key->second.size()})) {
        CuttingServer server;
        if (on_half_close) server.on_half_close = on_half_close;
        return server(context, stream);
      }
      ++refused_count_;
      return FakeServer::Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS");
    };
  }

  std::atomic<int> refused_count_ = 0;
};

TEST_F(FullServerTest, ALaneWithoutAStreamIsDoneWithout) {
  // Both ends: tried for longer than the others work, and given up while they do.
  for (const auto time : {std::chrono::milliseconds(3'600'000), std::chrono::milliseconds(0)}) {
    SCOPED_TRACE(time.count());
    retry_.time = time;
    refused_count_ = 0;
    WriteTestFile(files() + "/more", std::string(5000, static_cast<char>('a' + time.count() % 7)));
    const auto result = Backup(Refuses({"lane 0"}));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->warning_count, 0u);
    EXPECT_TRUE(result->index_warning.ok()) << result->index_warning;
    EXPECT_EQ(result->snapshot.stats().file_count(), 4u);
  }
  EXPECT_EQ(SnapshotCount(), 2u);
}

TEST_F(FullServerTest, ALaneWithoutAStreamIsTriedNoMoreWhenAllFilesAreThere) {
  retry_.time = std::chrono::hours(1);
  // While the server owes its last words: otherwise it would be tried every 10 ms.
  std::atomic<bool> is_quiet = false;
  const auto script = Refuses({"lane 0"}, [&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_quiet && std::chrono::steady_clock::now() < deadline) {
      const int count = refused_count_;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      is_quiet = refused_count_ == count;
    }
    return true;
  });
  const auto result = Backup(script);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->index_warning.ok()) << result->index_warning;
  EXPECT_GT(refused_count_, 0);
  EXPECT_TRUE(is_quiet);
}

TEST_F(FullServerTest, WithoutAnyStreamForFilesTheRunEnds) {
  retry_.time = std::chrono::milliseconds(100);
  const auto result = Backup(Refuses({"lane 0", "lane 1"}));
  EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
  EXPECT_GT(refused_count_, 2);
  EXPECT_EQ(SnapshotCount(), 0u);
}

TEST_F(FullServerTest, WithoutAStreamForMetadataTheRunEnds) {
  retry_.time = std::chrono::milliseconds(100);
  const auto result = Backup(Refuses({"metadata"}));
  EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
  EXPECT_EQ(SnapshotCount(), 0u);
}

TEST_F(EngineTest, AFileOfALongRecipeThatHasNotChangedIsNotReadAgain) {
  // Files of two chunks.
  max_kept_chunks_ = 1;
  // The folders above are in a snapshot, and others may write there meanwhile.
  std::string before;
  absl::StatusOr<BackupResult> first = absl::UnknownError("none yet");
  // A file that was written a moment ago is read again, for it may change unseen.
  testing::LetFilesSettle();
  for (int round = 0; round < 30; ++round) {
    const std::string above = TimesAbove(files());
    const auto next = Backup(CuttingServer());
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(next->warning_count, 0u);
    if (TimesAbove(files()) != above) continue;
    if (before != above) {
      before = above;
      first = next;
      continue;
    }
    ASSERT_EQ(next->snapshot.tree_size(), first->snapshot.tree_size());
    for (int chunk = 0; chunk < next->snapshot.tree_size(); ++chunk) {
      EXPECT_EQ(next->snapshot.tree(chunk).digest(), first->snapshot.tree(chunk).digest());
    }
    if (next->snapshot.stats().unchanged_file_count() == 3) return;
  }
  FAIL() << "they are read again and again";
}

TEST(ParentTreeTest, WhatIsTheSameFileUnchanged) {
  const NodeIdentity before{1, 2, {1000, 5}};
  EXPECT_TRUE(IsUnchanged(before, before, false));
  EXPECT_FALSE(IsUnchanged(before, {1, 2, {1000, 6}}, true));
  EXPECT_FALSE(IsUnchanged(before, {1, 3, {1000, 5}}, true));
  EXPECT_FALSE(IsUnchanged(before, {7, 2, {1000, 5}}, false));
  EXPECT_TRUE(IsUnchanged(before, {7, 2, {1000, 5}}, true));
  // One that was too young to tell, or whose file system has no such time.
  const NodeIdentity untold{1, 2, {0, 0}};
  EXPECT_FALSE(IsUnchanged(untold, untold, false));
  EXPECT_FALSE(IsUnchanged(untold, untold, true));
}

// Where nothing tells whether a later name is that of the same file, and what it holds does.
TEST(LinkMarksTest, OnlyWhatIsTheSameInAllButItsNameIsLinked) {
  BackupEntry first;
  first.tree.node.path = "a";
  first.tree.node.size_bytes = 300;
  first.tree.node.xattrs = {{"user.a", "1"}};
  first.tree.recipe = {RefOf(std::string(300, 'x'))};
  first.identity = {1, 2, {}};
  LinkMarks marks;
  const BackupEntry before = first;
  marks.Add(first);
  EXPECT_EQ(first.tree, before.tree);
  const auto link = [&](const std::function<void(BackupEntry&)>& change) {
    BackupEntry entry = before;
    entry.tree.node.path = "b";
    change(entry);
    marks.LinkIfTheSame("a", entry);
    EXPECT_EQ(entry.tree.recipe.empty(), !entry.tree.node.hard_link_to.empty());
    return entry.tree.node.hard_link_to;
  };
  EXPECT_EQ(link([](BackupEntry&) {}), "a");
  EXPECT_EQ(link([](BackupEntry& b) { b.identity.changed = {5, 0}; }), "a") << "it was not read";
  EXPECT_EQ(link([](BackupEntry& b) { b.tree.recipe = {RefOf(std::string(300, 'y'))}; }), "");
  EXPECT_EQ(link([](BackupEntry& b) { b.tree.node.mode = 0600; }), "");
  EXPECT_EQ(link([](BackupEntry& b) { b.tree.node.modified.nanoseconds = 1; }), "");
  EXPECT_EQ(link([](BackupEntry& b) { b.tree.node.xattrs.clear(); }), "");
  EXPECT_EQ(link([](BackupEntry& b) { b.identity.inode = 3; }), "");
  BackupEntry other = before;
  marks.LinkIfTheSame("never added", other);
  EXPECT_EQ(other.tree, before.tree);
}

// A snapshot of a file system has another device number each time that it is mounted.
TEST_F(EngineTest, AnotherDeviceIsAnotherFileUnlessThatIsToBeIgnored) {
  testing::LetFilesSettle();
  const auto first = Backup(CuttingServer());
  ASSERT_TRUE(first.ok()) << first.status();
  store::v1::Snapshot moved = first->snapshot;
  {
    ChunkIndex packs(store_->packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    ChunkReader reader(packs, ChunkReader::Options());
    IdentityReader identities(ReadRecipe(reader, *RecipeFromProto(moved.identity(), 32)));
    std::string stream;
    std::vector<std::uint8_t> bytes;
    NodeIdentity identity;
    while (*identities.Next(identity)) {
      identity.device += 1;
      EncodeIdentity(identity, bytes);
    }
    stream.assign(bytes.begin(), bytes.end());
    PackWriterOptions options;
    options.packs_directory = store_->packs_directory();
    options.temporary_directory = store_->temporary_directory();
    options.digest_algorithm = DigestAlgorithm::kBlake3;
    options.on_sealed = [](const SealedPack&) {};
    PackWriter writer(std::move(options));
    ASSERT_TRUE(writer.Add(RefOf(stream).digest, bytes).ok());
    ASSERT_TRUE(writer.Flush().ok());
    moved.clear_identity();
    RecipeToProto({RefOf(stream)}, 32, *moved.mutable_identity());
  }
  moved.clear_id();
  moved.set_started_unix_ns(moved.started_unix_ns() + 1);
  ASSERT_TRUE(store_->WriteSnapshot(moved).ok());
  store::v1::Snapshot with_it = moved;
  const auto read = Backup(CuttingServer());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->snapshot.parent(), moved.id());
  EXPECT_EQ(read->snapshot.stats().unchanged_file_count(), 0u);

  with_it.clear_id();
  with_it.set_started_unix_ns(read->snapshot.started_unix_ns() + 1);
  ASSERT_TRUE(store_->WriteSnapshot(with_it).ok());
  ignore_device_ = true;
  const auto ignored = Backup(CuttingServer());
  ASSERT_TRUE(ignored.ok()) << ignored.status();
  EXPECT_EQ(ignored->snapshot.parent(), with_it.id());
  EXPECT_EQ(ignored->snapshot.stats().unchanged_file_count(), 3u);
}

// A server that opens no stream before `change` was done, so that what is in files() has been
// scanned and not opened.
class ChangedFilesTest : public EngineTest {
 protected:
  ChangedFilesTest() {
    for (const char* name : {"one", "two", "three"}) {
      std::filesystem::remove(files() + "/" + name);
    }
    WriteTestFile(files() + "/a1", old_);
    for (const char* name : {"a2", "a3"}) {
      std::filesystem::create_hard_link(files() + "/a1", files() + "/" + name);
    }
    lane_count_ = 1;
  }

  absl::StatusOr<BackupResult> BackupAndChange(const std::function<void()>& change) {
    std::once_flag once;
    return Backup([&](grpc::ServerContext& context, FakeServer::Stream& stream) {
      std::call_once(once, [&] {
        // The scan needs no server.
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        change();
      });
      return CuttingServer()(context, stream);
    });
  }

  void ExpectContent(const TreeEntry& entry, const std::string& content) {
    EXPECT_EQ(entry.node.hard_link_to, "");
    EXPECT_EQ(entry.node.size_bytes, content.size());
    std::uint64_t position = 0;
    for (const ChunkRef& chunk : entry.recipe) {
      EXPECT_EQ(chunk.digest, RefOf(content.substr(position, chunk.length_bytes)).digest);
      position += chunk.length_bytes;
    }
    EXPECT_EQ(position, content.size());
  }

  const std::string old_ = std::string(5000, 'o');
  const std::string new_ = std::string(6000, 'n');
};

TEST_F(ChangedFilesTest, WhereTheFirstNameIsGoneTheNextOneIsRead) {
  const auto result = BackupAndChange([this] { std::filesystem::remove(files() + "/a1"); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warning_count, 1u);
  std::map<std::string, TreeEntry> entries = Entries(result->snapshot);
  EXPECT_FALSE(entries.contains("a1"));
  ExpectContent(entries["a2"], old_);
  EXPECT_EQ(entries["a3"].node.hard_link_to, entries["a2"].node.path);
  EXPECT_EQ(result->snapshot.stats().file_count(), 2u);
  EXPECT_EQ(result->snapshot.stats().total_bytes(), old_.size());
}

TEST_F(ChangedFilesTest, WhereTheFirstNameIsAnotherFilesTheNextOneIsRead) {
  const auto result = BackupAndChange([this] {
    WriteTestFile(files() + "/new", new_);
    std::filesystem::rename(files() + "/new", files() + "/a1");
  });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warning_count, 0u);
  std::map<std::string, TreeEntry> entries = Entries(result->snapshot);
  ExpectContent(entries["a1"], new_);
  ExpectContent(entries["a2"], old_);
  EXPECT_EQ(entries["a3"].node.hard_link_to, entries["a2"].node.path);
}

TEST_F(ChangedFilesTest, WhereTheFirstNameIsAnotherFilesOfTheSameNumberNoneIsLinkedToIt) {
  bool was_made = false;
  const auto result = BackupAndChange([&] {
    struct stat status{};
    ASSERT_EQ(lstat((files() + "/a1").c_str(), &status), 0);
    for (const char* name : {"a1", "a2", "a3"}) std::filesystem::remove(files() + "/" + name);
    was_made = testing::MakeFileOfInode(files() + "/a1", status.st_ino);
    WriteTestFile(files() + "/a2", new_);
  });
  if (!was_made) GTEST_SKIP() << "this file system does not give numbers again";
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<std::string, TreeEntry> entries = Entries(result->snapshot);
  ExpectContent(entries["a1"], "another file");
  ExpectContent(entries["a2"], new_);
  EXPECT_FALSE(entries.contains("a3"));
  EXPECT_EQ(result->warning_count, 1u) << "a3 is gone";
}

TEST_F(ChangedFilesTest, WhatIsSaidOfAFileIsThatOfTheOneThatWasRead) {
  const auto result = BackupAndChange([this] {
    WriteTestFile(files() + "/new", new_);
    ASSERT_EQ(chmod((files() + "/new").c_str(), 0604), 0);
    ASSERT_EQ(setxattr((files() + "/new").c_str(), "user.kerf", "x", 1, 0), 0);
    std::filesystem::rename(files() + "/new", files() + "/a1");
  });
  ASSERT_TRUE(result.ok()) << result.status();
  const Node node = Entries(result->snapshot)["a1"].node;
  EXPECT_EQ(node.size_bytes, new_.size());
  EXPECT_EQ(node.mode, 0604u);
  ASSERT_EQ(node.xattrs.size(), 1u);
  EXPECT_EQ(node.xattrs[0].name, "user.kerf");
}

// Calls what it was given whenever a snapshot becomes pending, before.
class BeforePending final : public FileHook {
 public:
  explicit BeforePending(std::function<void()> act) : act_(std::move(act)) {
    SetFileHookForTest(this);
  }
  ~BeforePending() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    const bool publishes = operation.kind == FileOperation::Kind::kRename &&
                           operation.to.find("/pending/") != std::string_view::npos;
    if (publishes) act_();
    return absl::OkStatus();
  }

 private:
  const std::function<void()> act_;
};

// A collection that the snapshot was published too late for, in each round.
TEST_F(EngineTest, ASnapshotWhoseChunksACollectionTookIsWithdrawn) {
  const auto collect = [this] {
    ChunkIndex packs(store_->packs_directory());
    EXPECT_TRUE(packs.Refresh().ok());
    const auto place = packs.Locate(RefOf(std::string(4096, 'n')).digest);
    ASSERT_TRUE(place.has_value());
    std::filesystem::remove(packs.PackPath(place->pack->id));
    EXPECT_TRUE(store_->WriteEpoch(*store_->ReadEpoch() + 2).ok());
  };
  const BeforePending hook(collect);
  const auto result = Backup(CuttingServer());
  EXPECT_TRUE(absl::IsAborted(result.status())) << result.status();
  EXPECT_EQ(SnapshotCount(), 0u);
  EXPECT_TRUE(store_->ListPending()->snapshots.empty());
}

// Holds the first pack up on its way to its name until the streams of an interrupted run are gone.
class SlowRename final : public FileHook {
 public:
  SlowRename(std::atomic<bool>& cancelled, int stream_count)
      : cancelled_(cancelled), stream_count_(stream_count) {
    SetFileHookForTest(this);
  }
  ~SlowRename() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    if (operation.kind != FileOperation::Kind::kRename ||
        operation.to.find("/packs/") == std::string_view::npos) {
      return absl::OkStatus();
    }
    cancelled_ = true;
    while (ended_count < stream_count_) std::this_thread::yield();
    // For a run that does not wait for its packs: to be gone as well.
    for (int round = 0; round < 20'000; ++round) std::this_thread::yield();
    was_held_up = true;
    return absl::OkStatus();
  }

  std::atomic<int> ended_count = 0;
  std::atomic<bool> was_held_up = false;

 private:
  std::atomic<bool>& cancelled_;
  const int stream_count_;
};

// What is durable then is told to lanes, which must still be there.
TEST_F(EngineTest, AnInterruptWhileAPackIsSealedWaitsForIt) {
  target_pack_bytes_ = 1;
  std::string content(1'500'000, 0);
  Random(TestSeed())
      .Fill(std::span(reinterpret_cast<std::uint8_t*>(content.data()), content.size()));
  WriteTestFile(files() + "/large", content);
  SlowRename hook(cancelled_, 3);
  const auto result = Backup([&](grpc::ServerContext& context, FakeServer::Stream& stream) {
    // The last file is not answered: the run must not come to its end before.
    bool is_last = false;
    CuttingServer server;
    server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& response) {
      if (frame.has_file_begin()) is_last = frame.file_begin().file_key().ends_with("/two");
      if (frame.has_file_end() && is_last) response.clear_answers();
    };
    const grpc::Status status = server(context, stream);
    ++hook.ended_count;
    return status;
  });
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
  EXPECT_TRUE(hook.was_held_up);
  EXPECT_EQ(SnapshotCount(), 0u);
}

}  // namespace
}  // namespace kerf::agent
