#include "client/store/check/verify.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/snapshots/pending.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() {
    std::vector<std::uint8_t> noise(300);
    Random(TestSeed()).Fill(noise);
    content_ = std::string(noise.begin(), noise.end());
    // The first pack has the metadata, the second the content.
    std::vector<std::string> metadata;
    snapshot_ = test_.Describe({{"file", {content_}}}, metadata);
    metadata_path_ = PathOf(test_.WritePack(metadata));
    content_pack_ = test_.WritePack({content_});
    content_path_ = PathOf(content_pack_);
    EXPECT_TRUE(test_.store().WriteSnapshot(snapshot_).ok());
  }

  std::string PathOf(const SealedPack& pack) {
    return ChunkIndex(test_.store().packs_directory()).PackPath(pack.id);
  }
  std::string SnapshotPath() {
    return Store::SnapshotPath(test_.store().snapshots_directory(), snapshot_.id());
  }

  VerifyReport Verify(bool read_data) {
    VerifyOptions options;
    options.read_data = read_data;
    auto report = VerifyStore(test_.store(), options);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }

  // One of the findings is about `path` of the snapshot and has `text` in it.
  static bool Found(const VerifyReport& report, std::string_view path, std::string_view text) {
    return std::any_of(report.findings.begin(), report.findings.end(),
                       [&](const VerifyFinding& finding) {
                         return finding.path == path &&
                                MessageOf(finding.status).find(text) != std::string_view::npos;
                       });
  }
  static void Flip(const std::string& path, std::size_t position) {
    std::string bytes = ReadTestFile(path);
    bytes[position] = static_cast<char>(bytes[position] ^ 1);
    WriteTestFile(path, bytes);
  }

  TestStore test_;
  std::string content_;
  store::v1::Snapshot snapshot_;
  SealedPack content_pack_;
  std::string metadata_path_;
  std::string content_path_;
};

TEST_F(VerifyTest, OfASoundStoreNothingIsFound) {
  for (const bool read_data : {false, true}) {
    const VerifyReport report = Verify(read_data);
    EXPECT_EQ(report.finding_count, 0u);
    EXPECT_EQ(report.entry_count, 1u);
    EXPECT_EQ(report.reference_count, 1u);
    EXPECT_EQ(report.done.packs_done, 2u);
    EXPECT_EQ(report.done.snapshots_done, 1u);
    EXPECT_EQ(report.done.bytes_done, report.done.bytes_total);
    EXPECT_EQ(report.done.bytes_done > 0, read_data);
  }
}

TEST_F(VerifyTest, AFlippedBitOfAChunkIsFoundByReadingTheData) {
  Flip(content_path_, content_pack_.footer.blocks.front().offset + 100);
  EXPECT_EQ(Verify(false).finding_count, 0u);
  const VerifyReport report = Verify(true);
  EXPECT_EQ(report.finding_count, 2u);
  EXPECT_TRUE(Found(report, "", content_path_));
  EXPECT_TRUE(Found(report, "file", "is damaged"));
  EXPECT_EQ(report.findings.back().snapshot_id, snapshot_.id());
  EXPECT_EQ(report.damaged_packs, std::set<std::string>{content_path_});
}

TEST_F(VerifyTest, ADamagedPackIsMendedAsItSays) {
  Flip(content_path_, content_pack_.footer.blocks.front().offset + 100);
  const std::string damaged = ReadTestFile(content_path_);
  std::filesystem::remove(content_path_);
  // What `backup --force` does with a chunk that no pack holds.
  test_.WritePack({content_});
  const VerifyReport mended = Verify(true);
  EXPECT_EQ(mended.finding_count, 0u);
  EXPECT_TRUE(mended.damaged_packs.empty());
  // Beside the new pack the damaged one does no harm.
  WriteTestFile(content_path_, damaged);
  const VerifyReport beside = Verify(true);
  EXPECT_EQ(beside.damaged_packs, std::set<std::string>{content_path_});
  EXPECT_FALSE(Found(beside, "file", ""));
  EXPECT_TRUE(test_.RestoreAll().ok());
}

TEST_F(VerifyTest, OfADamagedChunkWithASoundCopyNoFileIsLost) {
  test_.WritePack({content_});
  Flip(content_path_, content_pack_.footer.blocks.front().offset + 100);
  const VerifyReport report = Verify(true);
  EXPECT_EQ(report.finding_count, 1u);
  EXPECT_TRUE(Found(report, "", content_path_));
}

TEST_F(VerifyTest, EveryFlippedBitOfAPackIsFound) {
  Random random(TestSeed());
  const std::string good = ReadTestFile(content_path_);
  std::vector<std::size_t> positions;
  // What no checksum covers: in the header behind the version, and in the trailer the version and
  // the bytes before the magic.
  for (std::size_t position = 12; position < 16; ++position) positions.push_back(position);
  for (const std::size_t from_end : {16u, 12u, 9u, 52u, 51u, 49u}) {
    positions.push_back(good.size() - from_end);
  }
  for (int round = 0; round < 100; ++round) positions.push_back(random.Below(good.size()));
  for (const std::size_t position : positions) {
    Flip(content_path_, position);
    const VerifyReport report = Verify(true);
    EXPECT_GT(report.finding_count, 0u) << "at " << position;
    EXPECT_EQ(report.damaged_packs, std::set<std::string>{content_path_}) << "at " << position;
    WriteTestFile(content_path_, good);
  }
}

// They hold nothing up: what can be read is.
TEST_F(VerifyTest, ReservedBytesThatAreSetDoNotKeepAPackFromBeingRead) {
  Flip(content_path_, 13);
  EXPECT_TRUE(Found(Verify(false), "", "zero in every pack"));
  EXPECT_FALSE(Found(Verify(true), "file", ""));
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

// A pack of a newer kerf names its version at both ends.
TEST_F(VerifyTest, AVersionOfWhichABitFlippedDoesNotKeepAPackFromBeingRead) {
  const std::string good = ReadTestFile(content_path_);
  const std::size_t begin = 8;
  const std::size_t end = good.size() - kPackTrailerBytes + 12;
  for (const std::size_t position : {begin, begin + 2, end, end + 2}) {
    Flip(content_path_, position);
    EXPECT_TRUE(Found(Verify(false), "", "different versions")) << position;
    EXPECT_TRUE(test_.RestoreAll().ok()) << position << ": " << test_.RestoreAll();
    WriteTestFile(content_path_, good);
  }
  for (const std::size_t position : {begin, end}) {
    std::string newer = ReadTestFile(content_path_);
    newer[position] = 2;
    WriteTestFile(content_path_, newer);
  }
  EXPECT_TRUE(Found(Verify(false), "", "a newer kerf wrote it"));
}

TEST_F(VerifyTest, ADamagedCopyOfMetadataIsToldThoughAnotherOneWasRead) {
  std::vector<std::string> metadata;
  test_.Describe({{"file", {content_}}}, metadata);
  const SealedPack copy = test_.WritePack(metadata);
  ChunkIndex index(test_.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  const std::string read_first =
      index.PackPath(index.Locate(RefOf(metadata.front()).digest)->pack->id);
  Flip(read_first, kPackHeaderBytes + 20);
  const VerifyReport report = Verify(false);
  EXPECT_EQ(report.finding_count, 1u);
  EXPECT_TRUE(Found(report, "", read_first));
}

class VerifySubsetTest : public VerifyTest {
 protected:
  VerifySubsetTest() {
    for (int count = 0; count < 20; ++count) test_.WritePack({Cat("pack ", count)});
    ChunkIndex index(test_.store().packs_directory());
    EXPECT_TRUE(index.Refresh().ok());
    for (const auto& pack : index.packs()) ids_.push_back(pack->id);
    std::sort(ids_.begin(), ids_.end());
  }

  // The packs that were read, in order, by what their progress says.
  VerifyReport ReadSome(const ReadSubset& subset, std::vector<PackId>& read) {
    VerifyOptions options;
    options.read_data = true;
    options.subset = subset;
    options.thread_count = 1;
    options.on_read_up_to = [&](const PackId& id) { read.push_back(id); };
    auto report = VerifyStore(test_.store(), options);
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->read_pack_count, read.size());
    EXPECT_EQ(report->pack_count, ids_.size());
    return *std::move(report);
  }

  std::vector<PackId> ids_;
};

TEST_F(VerifySubsetTest, ThePartsAreTheWholeAndStayWhatTheyAre) {
  std::vector<PackId> all;
  std::vector<PackId> second;
  for (const std::uint64_t part : {1, 2, 3}) {
    std::vector<PackId> read;
    ReadSome({.part = part, .part_count = 3}, read);
    all.insert(all.end(), read.begin(), read.end());
    if (part == 2) second = read;
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, ids_);
  for (int count = 0; count < 20; ++count) test_.WritePack({Cat("later ", count)});
  ids_.resize(ids_.size() + 20);
  std::vector<PackId> read;
  ReadSome({.part = 2, .part_count = 3}, read);
  for (const PackId& id : second) EXPECT_NE(std::find(read.begin(), read.end(), id), read.end());
}

TEST_F(VerifySubsetTest, ASizeIsReadBehindWhatWasReadBeforeAndGoesRound) {
  ReadSubset subset{.max_bytes = 1};
  std::vector<PackId> read;
  ReadSome(subset, read);
  EXPECT_EQ(read, std::vector{ids_.front()}) << "one at least";
  std::vector<PackId> all;
  subset.max_bytes = 1000;
  while (all.size() < ids_.size()) {
    read.clear();
    ReadSome(subset, read);
    ASSERT_FALSE(read.empty());
    EXPECT_LT(read.size(), ids_.size());
    all.insert(all.end(), read.begin(), read.end());
    subset.after = read.back();
  }
  // Each once, and behind the last one the first ones again.
  for (std::size_t index = 0; index < all.size(); ++index) {
    EXPECT_EQ(all[index], ids_[index % ids_.size()]);
  }
  // A position in the middle of what is there: its pack was deleted.
  subset.after = ids_[7];
  std::filesystem::remove(ChunkIndex(test_.store().packs_directory()).PackPath(ids_[7]));
  ids_.erase(ids_.begin() + 7);
  subset.max_bytes = 1;
  read.clear();
  ReadSome(subset, read);
  EXPECT_EQ(read, std::vector{ids_[7]});
  // More than there is: everything once.
  subset.max_bytes = std::uint64_t{1} << 40;
  read.clear();
  ReadSome(subset, read);
  EXPECT_EQ(read.size(), ids_.size());
}

TEST_F(VerifySubsetTest, WhenTheTimeIsOverOneIsReadAtLeast) {
  std::vector<PackId> read;
  ReadSome({.max_time = std::chrono::hours(1), .after = ids_[2]}, read);
  EXPECT_EQ(read.size(), ids_.size());
  EXPECT_EQ(read.front(), ids_[3]);
  VerifyOptions options;
  options.read_data = true;
  options.thread_count = 1;
  options.subset = {.max_time = std::chrono::milliseconds(1), .after = ids_[2]};
  std::size_t count = 0;
  options.on_read_up_to = [&](const PackId& id) {
    ++count;
    EXPECT_EQ(id, ids_[3]);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  const auto report = VerifyStore(test_.store(), options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(report->read_pack_count, 1u);
  EXPECT_EQ(report->done.snapshots_done, 1u) << "the metadata is looked at all the same";
}

TEST_F(VerifySubsetTest, AnInterruptedOneHasToldHowFarItCame) {
  VerifyOptions options;
  options.read_data = true;
  options.thread_count = 1;
  std::vector<PackId> read;
  options.on_read_up_to = [&](const PackId& id) { read.push_back(id); };
  options.is_cancelled = [&] { return read.size() == 3; };
  EXPECT_TRUE(absl::IsCancelled(VerifyStore(test_.store(), options).status()));
  EXPECT_EQ(read, std::vector(ids_.begin(), ids_.begin() + 3));
}

TEST_F(VerifySubsetTest, TheListOfChunksIsNotReadToItsEndForNobody) {
  VerifyOptions options;
  options.is_cancelled = [] { return true; };
  const absl::Status status = VerifyStore(test_.store(), options).status();
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_NE(MessageOf(status).find("which chunks the store has"), std::string_view::npos) << status;
}

// Only one of the two packs is read: whether the other copy is sound is looked at for this chunk.
TEST_F(VerifySubsetTest, ADamagedChunkWhoseOtherCopyWasNotReadIsJudgedByIt) {
  const SealedPack copy = test_.WritePack({content_});
  Flip(content_path_, content_pack_.footer.blocks.front().offset + 100);
  ReadSubset only_damaged{.max_bytes = 1};
  const auto before = std::lower_bound(ids_.begin(), ids_.end(), content_pack_.id);
  only_damaged.after = before == ids_.begin() ? PackId() : *std::prev(before);
  VerifyOptions options;
  options.read_data = true;
  for (const bool copy_is_damaged : {false, true}) {
    if (copy_is_damaged) Flip(PathOf(copy), copy.footer.blocks.front().offset + 100);
    options.subset = only_damaged;
    if (copy.id < content_pack_.id && *only_damaged.after < copy.id) options.subset.after = copy.id;
    const auto report = VerifyStore(test_.store(), options);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->damaged_packs, std::set<std::string>{content_path_});
    EXPECT_EQ(Found(*report, "file", "is damaged"), copy_is_damaged);
  }
}

TEST_F(VerifyTest, AMissingPackIsNamedWithTheFilesThatNeedIt) {
  std::filesystem::remove(content_path_);
  const VerifyReport report = Verify(false);
  EXPECT_EQ(report.finding_count, 1u);
  EXPECT_TRUE(Found(report, "file", "no pack holds its chunk"));
  std::filesystem::remove(metadata_path_);
  EXPECT_EQ(Verify(false).finding_count, 1u);
  EXPECT_TRUE(Found(Verify(false), "", "no pack holds chunk"));
}

// Not by a collection.
TEST_F(VerifyTest, APackThatGoesMeanwhileIsMissed) {
  VerifyOptions options;
  options.read_data = true;
  options.on_progress = [&](const VerifyProgress& done) {
    if (done.packs_done == 0) std::filesystem::remove(content_path_);
  };
  const auto report = VerifyStore(test_.store(), options);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(Found(*report, "file", "no pack holds its chunk"));
}

// As many pages of the file as are in memory.
std::size_t CachedPages(const std::string& path) {
  const UniqueFd fd = *OpenRegularFile(path);
  const std::size_t size_bytes = std::filesystem::file_size(path);
  const std::size_t page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const map = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  EXPECT_NE(map, MAP_FAILED);
  std::vector<unsigned char> pages((size_bytes + page_bytes - 1) / page_bytes);
  EXPECT_EQ(mincore(map, size_bytes, pages.data()), 0);
  munmap(map, size_bytes);
  return static_cast<std::size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

// Else a page that was read before it rotted would be believed for as long as it stays in memory.
TEST(VerifyCacheTest, WhatIsReadIsReadFromTheDiskAndDoesNotStayInMemory) {
  // On a disk, where there is one: a file system in memory drops nothing.
  const TemporaryFolder folder;
  struct statfs info{};
  ASSERT_EQ(statfs(folder.path().c_str(), &info), 0);
  const bool is_memory = info.f_type == TMPFS_MAGIC;
  TestStore test(folder.path());
  std::string noise(300'000, '\0');
  Random random(TestSeed());
  for (char& byte : noise) byte = static_cast<char>(random.Below(256));
  const SealedPack pack = test.WritePack({noise});
  const std::string path = ChunkIndex(test.store().packs_directory()).PackPath(pack.id);
  EXPECT_GT(CachedPages(path), 60u);
  std::size_t cached_at_first_reading = 1000;
  {
    struct Watch final : FileHook {
      Watch() { SetFileHookForTest(this); }
      ~Watch() override { SetFileHookForTest(nullptr); }
      absl::Status Before(const FileOperation& operation) override {
        const bool is_block =
            operation.kind == FileOperation::Kind::kRead && operation.bytes.size() > 100'000;
        if (is_block) cached = CachedPages(std::string(operation.path));
        return absl::OkStatus();
      }
      std::size_t cached = 1000;
    } watch;
    VerifyOptions options;
    options.read_data = true;
    ASSERT_EQ(VerifyStore(test.store(), options)->finding_count, 0u);
    cached_at_first_reading = watch.cached;
  }
  if (is_memory) {
    EXPECT_GT(CachedPages(path), 60u);
  } else {
    // The footer was read before, and some pages around it ahead.
    EXPECT_LT(cached_at_first_reading, 40u);
    EXPECT_EQ(CachedPages(path), 0u);
  }
}

TEST_F(VerifyTest, APackThatWasCutShortIsNamed) {
  const std::string good = ReadTestFile(content_path_);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{50}, good.size() / 2, good.size() - 1}) {
    WriteTestFile(content_path_, good.substr(0, size));
    const VerifyReport report = Verify(false);
    EXPECT_EQ(report.finding_count, 2u) << size;
    EXPECT_EQ(report.damaged_packs, std::set<std::string>{content_path_}) << size;
    EXPECT_TRUE(Found(report, "", content_path_)) << size;
    EXPECT_TRUE(Found(report, "file", "no pack holds its chunk")) << size;
  }
}

TEST_F(VerifyTest, ADamagedSmallFileIsNamed) {
  Flip(test_.directory() + "/epoch", 30);
  EXPECT_TRUE(Found(Verify(false), "", "/epoch"));
  WriteTestFile(test_.store().plan_path(), "no plan");
  EXPECT_TRUE(Found(Verify(false), "", "/gc/plan"));
  store::v1::Snapshot pending;
  ASSERT_TRUE(PublishPending(test_.store(), pending).ok());
  const std::string pending_path =
      Store::SnapshotPath(test_.store().pending_directory(), pending.id());
  Flip(pending_path, 30);
  EXPECT_TRUE(Found(Verify(false), "", pending_path));
  Flip(SnapshotPath(), 30);
  EXPECT_TRUE(Found(Verify(false), "", SnapshotPath()));
}

TEST_F(VerifyTest, ASecondCopyThatIsGoneIsFoundAndMadeByWhoWrites) {
  for (const char* name : {"copies/config", "copies/epoch"}) {
    const std::string path = test_.directory() + "/" + name;
    std::filesystem::remove(path);
    const VerifyReport report = Verify(false);
    EXPECT_EQ(report.finding_count, 1u) << name;
    EXPECT_TRUE(Found(report, "", Cat(path, " is gone"))) << name;
    ASSERT_TRUE(Store::OpenForWriting(test_.directory()).ok());
    EXPECT_EQ(Verify(false).finding_count, 0u) << name;
  }
}

TEST_F(VerifyTest, AStoreOfAKerfThatMadeNoCopiesLacksNone) {
  for (const char* name : {"copies", "manifest"}) {
    std::filesystem::remove_all(test_.directory() + "/" + name);
  }
  EXPECT_EQ(Verify(false).finding_count, 0u);
}

TEST_F(VerifyTest, ASnapshotThatDoesNotFitItsStreamsIsFound) {
  snapshot_.mutable_stats()->set_entry_count(2);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot_).ok());
  EXPECT_TRUE(Found(Verify(false), "", "its tree has 1 entries; 2 were written"));
  snapshot_.mutable_stats()->set_entry_count(1);
  snapshot_.clear_identity();
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot_).ok());
  EXPECT_TRUE(Found(Verify(false), "", "its identity stream"));
}

TEST_F(VerifyTest, ASnapshotThatIsRemovedMeanwhileDoesNotCount) {
  VerifyOptions options;
  options.thread_count = 1;
  options.on_progress = [&](const VerifyProgress& done) {
    if (done.packs_done == done.packs_total) std::filesystem::remove(SnapshotPath());
  };
  std::filesystem::remove(content_path_);
  const auto report = VerifyStore(test_.store(), options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->finding_count, 0u);
}

}  // namespace
}  // namespace kerf::agent
