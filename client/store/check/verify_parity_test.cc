// What verify says of parity.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/strings.h"
#include "client/store/check/verify.h"
#include "client/store/parity/parity_maker.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class VerifyParityTest : public testing::Test {
 protected:
  VerifyParityTest() {
    EXPECT_TRUE(WriteParityPercent(test_.directory(), 5).ok());
    std::vector<std::string> metadata;
    store::v1::Snapshot snapshot = test_.Describe({{"file", {content_}}}, metadata);
    test_.WritePack(metadata);
    pack_ = test_.WritePack({content_});
    path_ = ChunkIndex(test_.store().packs_directory()).PackPath(pack_.id);
    EXPECT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  }

  VerifyReport Verify(bool read_data = true) {
    VerifyOptions options;
    options.read_data = read_data;
    auto report = VerifyStore(test_.store(), options);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }
  static void Flip(const std::string& path, std::uint64_t position) {
    std::string bytes = ReadTestFile(path);
    bytes[position] = static_cast<char>(bytes[position] ^ 1);
    WriteTestFile(path, bytes);
  }

  TestStore test_;
  const std::string content_ = std::string(500, 'c');
  SealedPack pack_;
  std::string path_;
};

TEST_F(VerifyParityTest, OfSoundPacksAndParityNothingIsFound) {
  const VerifyReport report = Verify();
  EXPECT_EQ(report.finding_count, 0u);
  EXPECT_EQ(report.packs_without_parity, 0u);
}

// The pack is a finding; the file can be restored, and is none.
TEST_F(VerifyParityTest, OfADamagedPackItSaysThatParityCanMendIt) {
  for (const std::uint64_t position : {pack_.footer.blocks[0].offset + 5, pack_.file_bytes - 1}) {
    Flip(path_, position);
    const VerifyReport report = Verify();
    EXPECT_GT(report.finding_count, 0u);
    for (const VerifyFinding& finding : report.findings) EXPECT_EQ(finding.path, "");
    EXPECT_THAT(report.damaged_packs, ElementsAre(path_));
    EXPECT_THAT(report.mendable_packs, ElementsAre(path_));
    EXPECT_TRUE(test_.RestoreAll().ok());
    Flip(path_, position);
  }
}

// As where ISA-L is not installed: what parity has is not to be given up for lost.
TEST_F(VerifyParityTest, OfParityThatCannotBeUsedNowItSaysWhy) {
  DiskHook hook(test_.directory());
  hook.RefuseWith(
      RefuseEvery(FileOperation::Kind::kOpen, ".parity", absl::UnknownError("Input/output error")));
  for (const std::uint64_t position : {pack_.footer.blocks[0].offset + 5, pack_.file_bytes - 1}) {
    Flip(path_, position);
    const VerifyReport report = Verify();
    EXPECT_THAT(report.damaged_packs, ElementsAre(path_));
    EXPECT_THAT(report.mendable_packs, IsEmpty());
    EXPECT_THAT(std::string(report.parity_failure.message()), HasSubstr("Input/output error"));
    Flip(path_, position);
  }
  hook.RefuseWith({});
  EXPECT_TRUE(Verify().parity_failure.ok());
}

TEST_F(VerifyParityTest, OfTooMuchDamageItNamesTheFiles) {
  Flip(path_, pack_.footer.blocks[0].offset + 5);
  Flip(ParityPathOf(path_), 4096);
  Flip(ParityPathOf(path_), 8192);
  const VerifyReport report = Verify();
  EXPECT_THAT(report.damaged_packs, ElementsAre(path_));
  EXPECT_THAT(report.mendable_packs, IsEmpty());
  EXPECT_EQ(report.findings.back().path, "file");
}

TEST_F(VerifyParityTest, DamagedParityIsAFinding) {
  Flip(ParityPathOf(path_), 4096);
  const VerifyReport report = Verify();
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_THAT(std::string(MessageOf(report.findings[0].status)), HasSubstr(ParityPathOf(path_)));
  EXPECT_THAT(std::string(MessageOf(report.findings[0].status)), HasSubstr("kerf repair --packs"));
  EXPECT_THAT(report.damaged_packs, IsEmpty());
}

// As of a pack that was damaged when its parity was made, and has been mended since.
TEST_F(VerifyParityTest, ParityOfOtherBytesIsAFinding) {
  Flip(path_, pack_.footer.blocks[0].offset + 5);
  ASSERT_TRUE(MakeParity(path_, pack_.id, SumsOfTestFile(path_), 5).ok());
  Flip(path_, pack_.footer.blocks[0].offset + 5);
  const VerifyReport report = Verify();
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_THAT(std::string(MessageOf(report.findings[0].status)),
              HasSubstr("not made of the pack as it is"));
}

TEST_F(VerifyParityTest, PacksWithoutParityAreCounted) {
  std::filesystem::remove(ParityPathOf(path_));
  EXPECT_EQ(Verify().packs_without_parity, 1u);
  EXPECT_EQ(Verify(/*read_data=*/false).packs_without_parity, 1u);
  EXPECT_EQ(Verify().finding_count, 0u);
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  EXPECT_EQ(Verify().packs_without_parity, 0u);
}

TEST_F(VerifyParityTest, ADamagedSettingIsAFinding) {
  WriteTestFile(ParitySettingPath(test_.directory()), "damaged");
  const VerifyReport report = Verify();
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_THAT(std::string(MessageOf(report.findings[0].status)), HasSubstr("kerf parity"));
}

}  // namespace
}  // namespace kerf::agent
