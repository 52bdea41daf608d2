#include "client/store/repair/pack_repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/collect/epoch_round.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PackRepairTest : public testing::Test {
 protected:
  PackRepairReport Repair(bool dry_run = false) {
    PackRepairOptions options;
    options.dry_run = dry_run;
    options.thread_count = 1;
    auto report = RepairPacks(test_.store(), options);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }
  std::string PathOf(const SealedPack& pack) {
    return ChunkIndex(test_.store().packs_directory()).PackPath(pack.id);
  }
  static void Flip(const std::string& path, std::uint64_t position) {
    std::string bytes = ReadTestFile(path);
    bytes[position] = static_cast<char>(bytes[position] ^ 1);
    WriteTestFile(path, bytes);
  }
  // Each has a block of its own, and does not compress.
  std::string Noise() {
    std::string text(300, '\0');
    for (char& byte : text) byte = static_cast<char>(random_.Below(256));
    return text;
  }
  // Several have a block together, and it compresses.
  static std::string Text(int number) { return Cat(std::string(60, 'x'), " text ", number); }
  void WriteSnapshotOf(const FileChunks& files) {
    std::vector<std::string> metadata;
    store::v1::Snapshot snapshot = test_.Describe(files, metadata);
    metadata_ = test_.WritePack(metadata);
    ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  }
  bool Holds(const std::string& chunk) {
    ChunkIndex index(test_.store().packs_directory());
    EXPECT_TRUE(index.Refresh().ok());
    return index.Contains(RefOf(chunk).digest);
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_{folder_.path()};
  TestStore test_{folder_.path()};
  Random random_{TestSeed()};
  SealedPack metadata_;
};

TEST_F(PackRepairTest, OfASoundStoreNothingIsDone) {
  test_.WriteSnapshot({{"a", {Noise()}}});
  const std::vector<std::string> before = test_.PackFiles();
  EXPECT_THAT(Repair().packs, IsEmpty());
  EXPECT_EQ(test_.PackFiles(), before);
  EXPECT_EQ(*test_.store().ReadEpoch(), 1u);
  EXPECT_FALSE(std::filesystem::exists(test_.directory() + "/quarantine"));
}

TEST_F(PackRepairTest, WhatIsSoundInADamagedPackIsSavedAndTheRestIsNamed) {
  const std::string first = Noise();
  const std::string lost = Noise();
  const std::string last = Noise();
  const SealedPack pack = test_.WritePack({first, lost, last});
  WriteSnapshotOf({{"a", {first, last}}, {"b", {lost, first}}, {"c", {last}}});
  const std::string path = PathOf(pack);
  Flip(path, pack.footer.blocks[1].offset + 100);
  const std::string damaged = ReadTestFile(path);

  PackRepairReport report = Repair(/*dry_run=*/true);
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_EQ(report.packs[0].path, path);
  EXPECT_EQ(report.packs[0].lost_chunk_count, 1u);
  EXPECT_EQ(report.packs[0].quarantine_path, "");
  EXPECT_EQ(ReadTestFile(path), damaged);

  report = Repair();
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_THAT(std::string(MessageOf(report.packs[0].damage)), HasSubstr(path));
  EXPECT_EQ(report.packs[0].saved_chunk_count, 2u);
  EXPECT_EQ(report.packs[0].lost_chunk_count, 1u);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(ReadTestFile(report.packs[0].quarantine_path), damaged);
  EXPECT_TRUE(Holds(first) && Holds(last));
  EXPECT_FALSE(Holds(lost));
  ASSERT_THAT(report.lost, SizeIs(1));
  EXPECT_EQ(report.lost[0].path, "b");
  EXPECT_THAT(Repair().packs, IsEmpty());

  // A backup that still has it brings it back.
  test_.WritePack({lost});
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// One damaged block of several chunks: those before the damage are there.
TEST_F(PackRepairTest, OfADamagedFrameTheBeginningIsSaved) {
  // More than one block of zstd's own, 128 KiB, in one frame.
  std::vector<std::string> chunks;
  FileChunks files;
  for (int number = 0; number < 8; ++number) {
    std::string chunk;
    while (chunk.size() < 50'000) chunk += Cat(random_.Below(1000), " ");
    files[Cat("f", number)] = {chunk};
    chunks.push_back(std::move(chunk));
  }
  SealedPack pack;
  PackWriterOptions options = test_.writer_options();
  options.compression.block_bytes = 1 << 20;
  options.on_sealed = [&](SealedPack sealed) { pack = std::move(sealed); };
  {
    PackWriter writer(std::move(options));
    for (const std::string& chunk : chunks) {
      ASSERT_TRUE(writer
                      .Add(RefOf(chunk).digest,
                           {reinterpret_cast<const std::uint8_t*>(chunk.data()), chunk.size()})
                      .ok());
    }
    ASSERT_TRUE(writer.Flush().ok());
  }
  ASSERT_THAT(pack.footer.blocks, SizeIs(1));
  WriteSnapshotOf(files);
  // Cut out of the last part.
  std::string bytes = ReadTestFile(PathOf(pack));
  const PackBlock& block = pack.footer.blocks[0];
  for (std::uint64_t at = block.stored_bytes - 20'000; at < block.stored_bytes; ++at) {
    bytes[block.offset + at] = 0;
  }
  WriteTestFile(PathOf(pack), bytes);
  const PackRepairReport report = Repair();
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_GE(report.packs[0].saved_chunk_count, 4u);
  EXPECT_GE(report.packs[0].lost_chunk_count, 1u);
  EXPECT_EQ(report.packs[0].saved_chunk_count + report.packs[0].lost_chunk_count, 8u);
  EXPECT_TRUE(Holds(chunks.front()));
}

TEST_F(PackRepairTest, ACopyElsewhereIsNotWrittenAgain) {
  const std::string content = Noise();
  const SealedPack pack = test_.WritePack({content});
  test_.WritePack({content});
  WriteSnapshotOf({{"a", {content}}});
  Flip(PathOf(pack), pack.footer.blocks[0].offset + 100);
  const PackRepairReport report = Repair();
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_EQ(report.packs[0].saved_chunk_count, 0u);
  EXPECT_EQ(report.packs[0].lost_chunk_count, 0u);
  EXPECT_THAT(report.lost, IsEmpty());
  EXPECT_EQ(test_.PackFiles().size(), 2u);
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// Header, trailer, footer, reserved bytes: everything is saved, whatever of these is damaged, of
// packs with data and with metadata, whether their blocks compress or not.
TEST_F(PackRepairTest, APackWithoutItsFooterIsMadeAgainOfWhatSnapshotsNeed) {
  for (const bool is_metadata : {false, true}) {
    for (const bool footer : {false, true}) {
      std::vector<std::string> content;
      FileChunks files;
      for (int number = 0; number < 12; ++number) {
        content.push_back(number % 3 == 0 ? Noise() : Text(static_cast<int>(random_.Next() >> 40)));
        files[Cat("f", number)] = {content.back()};
      }
      // Nobody needs it; it lies between what is needed, with a frame behind it.
      content.insert(content.begin() + 7, Noise());
      const SealedPack data = test_.WritePack(content);
      WriteSnapshotOf(files);
      const SealedPack& pack = is_metadata ? metadata_ : data;
      if (footer) {
        // Cut short, as well.
        const std::string bytes = ReadTestFile(PathOf(pack));
        WriteTestFile(PathOf(pack), bytes.substr(0, pack.footer.blocks.back().offset +
                                                        pack.footer.blocks.back().stored_bytes));
      } else {
        // No footer is needed where that is damaged.
        Flip(PathOf(pack), 3);
      }
      EXPECT_FALSE(test_.RestoreAll().ok());
      const PackRepairReport report = Repair();
      ASSERT_THAT(report.packs, SizeIs(1));
      EXPECT_EQ(report.packs[0].footer_is_lost, footer);
      EXPECT_THAT(report.lost, IsEmpty());
      EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
      EXPECT_TRUE(std::filesystem::exists(report.packs[0].quarantine_path));
    }
  }
}

// Tomorrow it may be read, so it is not taken away from those who need it.
TEST_F(PackRepairTest, AnErrorOfTheDiskTakesNothingAway) {
  const std::string sound = Noise();
  const std::string unreadable = Noise();
  const SealedPack pack = test_.WritePack({sound, unreadable});
  WriteSnapshotOf({{"a", {sound, unreadable}}});
  const std::uint64_t offset = pack.footer.blocks[1].offset;
  hook_.RefuseWith(RefuseReading(PathOf(pack), offset + 10, offset + 11));
  PackRepairReport report = Repair();
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_EQ(report.packs[0].lost_chunk_count, 1u);
  EXPECT_EQ(report.packs[0].saved_chunk_count, 1u);
  EXPECT_EQ(report.packs[0].quarantine_path, "");
  hook_.RefuseWith({});
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  EXPECT_THAT(Repair().packs, IsEmpty());
}

TEST_F(PackRepairTest, WithoutRoomNothingIsMoved) {
  const std::string sound = Noise();
  const SealedPack pack = test_.WritePack({sound, Noise()});
  WriteSnapshotOf({{"a", {sound}}});
  Flip(PathOf(pack), pack.footer.blocks[1].offset + 100);
  hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kWrite, "/tmp/",
                               absl::ResourceExhaustedError("No space left on device")));
  EXPECT_TRUE(absl::IsResourceExhausted(RepairPacks(test_.store(), {}).status()));
  hook_.RefuseWith({});
  EXPECT_TRUE(std::filesystem::exists(PathOf(pack)));
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// Both sides as in docs/adr/0005: what an agent found before is looked at again, and the index is
// not believed until a collection has told it.
TEST_F(PackRepairTest, BackupsAndTheIndexNoticeIt) {
  const std::string sound = Noise();
  const std::string lost = Noise();
  const SealedPack pack = test_.WritePack({sound, lost});
  WriteSnapshotOf({{"a", {sound}}});
  PlainIndex server;
  CollectionOptions options;
  options.thread_count = 1;
  options.max_waste_ratio = 1;
  ASSERT_TRUE(CollectGarbage(test_.store(), server, options).ok());
  server.CommitAll(test_.store());
  const CollectionGuard guard = *CollectionGuard::Begin(test_.store());
  ChunkIndex index(test_.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  ASSERT_TRUE(index.Contains(RefOf(lost).digest));
  Flip(PathOf(pack), pack.footer.blocks[1].offset + 100);
  Repair();
  const auto check = guard.Check(test_.store(), index, [&](const ChunkVisitor& visit) {
    visit(RefOf(sound));
    visit(RefOf(lost));
    return absl::OkStatus();
  });
  ASSERT_TRUE(check.ok());
  ASSERT_THAT(check->lost, SizeIs(1));
  EXPECT_EQ(check->lost[0].digest, RefOf(lost).digest);
  EXPECT_LT(server.epoch, *test_.store().ReadEpoch());
  ASSERT_TRUE(server.locators.contains(RefOf(lost).digest));
  ASSERT_TRUE(CollectGarbage(test_.store(), server, options).ok());
  EXPECT_FALSE(server.locators.contains(RefOf(lost).digest));
  EXPECT_TRUE(server.locators.contains(RefOf(sound).digest));
}

// An agent in memory has the footer of a pack that has lost it. No plan can name that pack, so
// until it is moved the agent takes its chunks for stored, and may tell the index so. Whatever
// epoch its session has, no session behind the repair believes it.
TEST_F(PackRepairTest, WhatTheIndexIsToldBeforeAPackIsMovedIsNotBelieved) {
  const std::string path = PathOf(test_.WritePack({Noise()}));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::uint64_t session_epoch = 0;
  PackRepairOptions options;
  options.thread_count = 1;
  options.on_step = [&](CollectionStep step) {
    if (step == CollectionStep::kEpochRaised) {
      EXPECT_TRUE(std::filesystem::exists(path));
      session_epoch = *test_.store().ReadEpoch();
    }
    return absl::OkStatus();
  };
  const auto report = RepairPacks(test_.store(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_GT(session_epoch, 1u);
  EXPECT_LT(session_epoch, *test_.store().ReadEpoch());
}

// Stops the thread of `Meet` where it is about to read the plan, until it is let go.
class StopAtPlan final : public FileHook {
 public:
  StopAtPlan() { SetFileHookForTest(this); }
  ~StopAtPlan() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    std::unique_lock lock(mutex_);
    if (operation.kind != FileOperation::Kind::kOpen || !operation.path.ends_with("/gc/plan") ||
        std::this_thread::get_id() != stopped_) {
      return absl::OkStatus();
    }
    is_there_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return may_go_; });
    return absl::OkStatus();
  }

  void Stop(std::thread::id thread) {
    const std::lock_guard lock(mutex_);
    stopped_ = thread;
  }
  void WaitUntilThere() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_there_; });
  }
  void LetGo() {
    const std::lock_guard lock(mutex_);
    may_go_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread::id stopped_;
  bool is_there_ = false;
  bool may_go_ = false;
};

// An agent publishes its snapshot when the pack is gone, reads the epoch, and stands still until
// the plan is gone, too: the epoch that it has read tells it that there was one.
TEST_F(PackRepairTest, WhoReadsTheEpochWhenThePackIsGoneLooksAtItsChunks) {
  const std::string lost = Noise();
  const SealedPack pack = test_.WritePack({lost});
  const CollectionGuard guard = *CollectionGuard::Begin(test_.store());
  ChunkIndex index(test_.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  Flip(PathOf(pack), pack.footer.blocks[0].offset + 100);
  StopAtPlan disk;
  std::thread agent;
  std::optional<absl::StatusOr<FinishCheck>> check;
  PackRepairOptions options;
  options.thread_count = 1;
  options.on_step = [&](CollectionStep step) {
    if (step != CollectionStep::kDeleted) return absl::OkStatus();
    agent = std::thread([&] {
      disk.Stop(std::this_thread::get_id());
      check = guard.Check(test_.store(), index, [&](const ChunkVisitor& visit) {
        visit(RefOf(lost));
        return absl::OkStatus();
      });
    });
    disk.WaitUntilThere();
    return absl::OkStatus();
  };
  const auto report = RepairPacks(test_.store(), options);
  disk.LetGo();
  if (agent.joinable()) agent.join();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(check.has_value() && check->ok());
  EXPECT_THAT((*check)->lost, SizeIs(1));
}

// The power goes at any moment: all that was needed and sound is still there.
TEST(PackRepairPowerCutTest, NothingThatIsSoundIsLost) {
  Random random(TestSeed());
  int cut_count = 0;
  for (bool is_done = false; !is_done; ++cut_count) {
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    DiskHook hook(folder.path());
    TestStore test(folder.path());
    const std::string sound(300, 's');
    const SealedPack pack = test.WritePack({sound, std::string(300, 'l')});
    std::vector<std::string> metadata;
    store::v1::Snapshot snapshot = test.Describe({{"a", {sound}}}, metadata);
    test.WritePack(metadata);
    ASSERT_TRUE(test.store().WriteSnapshot(snapshot).ok());
    // Through the hook, so that it is damaged on the disk that survives.
    const std::string path = ChunkIndex(test.store().packs_directory()).PackPath(pack.id);
    std::string bytes = ReadTestFile(path);
    bytes[pack.footer.blocks[1].offset + 5] ^= 1;
    ASSERT_TRUE(
        WriteFileDurably(path, test.store().temporary_directory(),
                         {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()})
            .ok());
    std::atomic<int> left = cut_count;
    hook.RefuseWith([&left](const FileOperation& operation) {
      return !operation.changes_something() || left-- > 0 ? absl::OkStatus()
                                                          : absl::UnavailableError("no power");
    });
    PackRepairOptions options;
    options.thread_count = 1;
    is_done = RepairPacks(test.store(), options).ok();
    hook.RefuseWith({});
    const TemporaryFolder after(TemporaryFolder::Place::kMemory);
    hook.CutPower(after.path(), DiskModel::Survival::kSome, random);
    TestStore survivor(after.path());
    EXPECT_TRUE(survivor.RestoreAll().ok()) << "cut " << cut_count << survivor.RestoreAll();
    ASSERT_LT(cut_count, 200);
  }
  EXPECT_GT(cut_count, 10);
}

}  // namespace
}  // namespace kerf::agent
