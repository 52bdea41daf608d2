#include "client/store/check/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
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
  for (int round = 0; round < 100; ++round) {
    const std::size_t position = random.Below(good.size());
    // Read by nobody: in the header behind the version, in the trailer the version and the bytes
    // before the magic.
    const std::size_t from_end = good.size() - position;
    if ((position >= 12 && position < 16) || (from_end > 8 && from_end <= 16) ||
        (from_end > 48 && from_end <= 52)) {
      continue;
    }
    Flip(content_path_, position);
    EXPECT_GT(Verify(true).finding_count, 0u) << "at " << position;
    WriteTestFile(content_path_, good);
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
