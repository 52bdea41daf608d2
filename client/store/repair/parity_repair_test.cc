// Packs that get their bytes again, parity that is made anew, and stores that begin with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/durable_file.h"
#include "client/store/parity/parity_file.h"
#include "client/store/parity/parity_layout.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/repair/pack_repair.h"
#include "client/store/repair/parity_run.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void Flip(const std::string& path, std::uint64_t position) {
  std::string bytes = ReadTestFile(path);
  bytes[position] = static_cast<char>(bytes[position] ^ 1);
  WriteTestFile(path, bytes);
}

class ParityRepairTest : public testing::Test {
 protected:
  ParityRepairTest() { EXPECT_TRUE(WriteParityPercent(test_.directory(), 5).ok()); }

  PackRepairReport Repair(bool dry_run = false) {
    PackRepairOptions options;
    options.dry_run = dry_run;
    options.thread_count = 1;
    auto report = RepairPacks(test_.store(), options);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }
  absl::StatusOr<ParityReport> Follow() {
    ParityRunOptions options;
    options.thread_count = 1;
    return FollowParitySetting(test_.store(), options);
  }
  std::string PathOf(const SealedPack& pack) {
    return ChunkIndex(test_.store().packs_directory()).PackPath(pack.id);
  }
  std::string Noise() {
    std::string text(300, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return text;
  }
  // A pack with content, and one with its metadata.
  SealedPack WriteFile() {
    const std::string content = Noise();
    const SealedPack pack = test_.WritePack({content, Noise()});
    std::vector<std::string> metadata;
    store::v1::Snapshot snapshot = test_.Describe({{"file", {content}}}, metadata);
    test_.WritePack(metadata);
    EXPECT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
    return pack;
  }
  // From the moment on at which its parity is begun.
  void ReadWrongWhileParityIsMade(const SealedPack& pack) {
    hook_.RefuseWith(
        [path = PathOf(pack), opened = std::string()](const FileOperation& operation) mutable {
          if (operation.kind == FileOperation::Kind::kOpen && operation.path.ends_with(".pack")) {
            opened = operation.path;
          }
          if (operation.kind == FileOperation::Kind::kCreate &&
              operation.path.ends_with(".parity") && opened == path) {
            WriteTestFile(path, std::string(std::filesystem::file_size(path), '\0'));
          }
          return absl::OkStatus();
        });
  }
  bool HasSoundParity(const SealedPack& pack) {
    const auto parity = ParityFile::Open(ParityPathOf(PathOf(pack)), pack.id);
    return parity.ok() && parity->Check().ok() && parity->CheckFits(PathOf(pack)).ok();
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_{folder_.path()};
  TestStore test_{folder_.path()};
  Random random_{TestSeed()};
};

// A block, header, footer, trailer, and the end cut off.
TEST_F(ParityRepairTest, ADamagedPackGetsItsBytesAgain) {
  const SealedPack pack = WriteFile();
  const std::string path = PathOf(pack);
  const std::string sound = ReadTestFile(path);
  const std::uint64_t positions[] = {pack.footer.blocks[0].offset, 3,
                                     pack.file_bytes - kPackTrailerBytes - 5, pack.file_bytes - 1};
  for (int part = 0; part < 5; ++part) {
    SCOPED_TRACE(part);
    if (part < 4) {
      Flip(path, positions[part]);
    } else {
      WriteTestFile(path, sound.substr(0, 50));
    }
    const std::string damaged = ReadTestFile(path);
    PackRepairReport report = Repair(/*dry_run=*/true);
    ASSERT_THAT(report.packs, SizeIs(1));
    EXPECT_TRUE(report.packs[0].is_mended);
    EXPECT_EQ(report.packs[0].quarantine_path, "");
    EXPECT_TRUE(ReadTestFile(path) == damaged);
    report = Repair();
    ASSERT_THAT(report.packs, SizeIs(1));
    EXPECT_TRUE(report.packs[0].is_mended);
    EXPECT_TRUE(ReadTestFile(path) == sound);
    EXPECT_TRUE(ReadTestFile(report.packs[0].quarantine_path) == damaged);
    EXPECT_THAT(report.lost, IsEmpty());
    EXPECT_THAT(report.parity, IsEmpty());
    EXPECT_THAT(Repair().packs, IsEmpty());
  }
  EXPECT_EQ(*test_.store().ReadEpoch(), 1u) << "nobody need be told";
  EXPECT_TRUE(std::filesystem::is_empty(test_.store().temporary_directory()));
  EXPECT_TRUE(test_.RestoreAll().ok());
}

TEST_F(ParityRepairTest, WhatTheDiskCannotReadIsMended) {
  const SealedPack pack = WriteFile();
  const std::string path = PathOf(pack);
  const std::string sound = ReadTestFile(path);
  hook_.RefuseWith(RefuseReading(path, 40, 41));
  PackRepairOptions options;
  options.thread_count = 1;
  const auto report = RepairPacks(test_.store(), options);
  hook_.RefuseWith({});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->packs, SizeIs(1));
  EXPECT_TRUE(report->packs[0].is_mended) << report->packs[0].parity_failure;
  EXPECT_NE(report->packs[0].quarantine_path, "");
  EXPECT_TRUE(ReadTestFile(path) == sound);
}

// As on FAT: the name is never without a file.
TEST_F(ParityRepairTest, WithoutHardLinksTheDamagedFileIsReplaced) {
  const SealedPack pack = WriteFile();
  const std::string sound = ReadTestFile(PathOf(pack));
  Flip(PathOf(pack), 40);
  hook_.RefuseWith([](const FileOperation& operation) {
    return operation.kind == FileOperation::Kind::kLink ? absl::PermissionDeniedError("no links")
                                                        : absl::OkStatus();
  });
  const PackRepairReport report = Repair();
  hook_.RefuseWith({});
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_TRUE(report.packs[0].is_mended);
  EXPECT_EQ(report.packs[0].quarantine_path, "");
  EXPECT_TRUE(ReadTestFile(PathOf(pack)) == sound);
}

TEST_F(ParityRepairTest, OfTooMuchDamageWhatIsSoundIsSaved) {
  const SealedPack pack = WriteFile();
  const std::string path = PathOf(pack);
  // The file needs the first of the two.
  Flip(path, pack.footer.blocks[1].offset);
  Flip(ParityPathOf(path), 4096);
  Flip(ParityPathOf(path), 8192);
  const PackRepairReport report = Repair();
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_FALSE(report.packs[0].is_mended);
  EXPECT_THAT(std::string(MessageOf(report.packs[0].parity_failure)),
              HasSubstr("more than its parity can give back"));
  EXPECT_EQ(report.packs[0].saved_chunk_count, 1u);
  EXPECT_TRUE(std::filesystem::exists(report.packs[0].quarantine_path));
  EXPECT_FALSE(std::filesystem::exists(ParityPathOf(path))) << "it is beside its pack";
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  for (const std::string& file : test_.PackFiles()) {
    EXPECT_TRUE(std::filesystem::exists(ParityPathOf(file))) << "new packs have it, too";
  }
}

// On a machine where parity cannot be used today, or with a disk that does not give it: nothing
// that it could give back is given up.
TEST_F(ParityRepairTest, APackWhoseParityCannotBeReadTodayStays) {
  const SealedPack pack = WriteFile();
  const std::string path = PathOf(pack);
  const std::string sound = ReadTestFile(path);
  Flip(path, pack.footer.blocks[0].offset);
  const std::string damaged = ReadTestFile(path);
  hook_.RefuseWith(
      RefuseEvery(FileOperation::Kind::kOpen, ".parity", absl::UnknownError("Input/output error")));
  PackRepairOptions options;
  options.thread_count = 1;
  options.dry_run = true;
  auto report = RepairPacks(test_.store(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->packs, SizeIs(1));
  EXPECT_TRUE(report->packs[0].may_come_back);
  EXPECT_FALSE(report->packs[0].parity_failure.ok());
  options.dry_run = false;
  report = RepairPacks(test_.store(), options);
  hook_.RefuseWith({});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->packs, SizeIs(1));
  EXPECT_FALSE(report->packs[0].is_mended);
  EXPECT_EQ(report->packs[0].quarantine_path, "");
  EXPECT_TRUE(ReadTestFile(path) == damaged);
  report = Repair();
  ASSERT_THAT(report->packs, SizeIs(1));
  EXPECT_TRUE(report->packs[0].is_mended);
  EXPECT_TRUE(ReadTestFile(path) == sound);
}

// Of two groups one has lost more than its parity gives back. What the other one has lost, a
// restore reads: it must not be less after a repair.
TEST_F(ParityRepairTest, WhatParityGivesBackOfAPackThatCannotBeWholeIsSaved) {
  std::string wanted(100'000, '\0');
  std::string lost(2'000'000, '\0');
  for (std::string* text : {&wanted, &lost}) {
    random_.Fill({reinterpret_cast<std::uint8_t*>(text->data()), text->size()});
  }
  const SealedPack pack = test_.WritePack({wanted, lost});
  const std::string path = PathOf(pack);
  const std::string parity_path = ParityPathOf(path);
  const ParityShape shape = ParityFile::Open(parity_path, pack.id)->shape();
  ASSERT_GE(shape.group_count, 2u);
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"file", {wanted}}}, metadata);
  test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  // A sector of group 0, in the first chunk, and all of another group in the second one.
  ASSERT_LT(shape.group_count * kSectorBytes, wanted.size());
  Flip(path, shape.group_count * kSectorBytes);
  const std::uint64_t behind_rows = wanted.size() / (shape.group_count * kSectorBytes) + 2;
  for (std::uint64_t row = behind_rows; row < behind_rows + shape.parity_count + 1; ++row) {
    Flip(path, (row * shape.group_count + 1) * kSectorBytes);
  }
  ASSERT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  const PackRepairReport report = Repair();
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_FALSE(report.packs[0].is_mended);
  EXPECT_EQ(report.packs[0].saved_chunk_count, 1u);
  EXPECT_EQ(report.packs[0].lost_chunk_count, 1u);
  EXPECT_NE(report.packs[0].quarantine_path, "");
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

TEST_F(ParityRepairTest, OfAPackAndItsParityThatAreBothDamagedBothAreMended) {
  const SealedPack pack = WriteFile();
  const std::string sound = ReadTestFile(PathOf(pack));
  Flip(PathOf(pack), 40);
  Flip(ParityPathOf(PathOf(pack)), 4096);
  const PackRepairReport report = Repair();
  ASSERT_THAT(report.packs, SizeIs(1));
  EXPECT_TRUE(report.packs[0].is_mended);
  ASSERT_THAT(report.parity, SizeIs(1));
  EXPECT_TRUE(report.parity[0].failure.ok()) << report.parity[0].failure;
  EXPECT_TRUE(ReadTestFile(PathOf(pack)) == sound);
  EXPECT_TRUE(HasSoundParity(pack));
}

TEST_F(ParityRepairTest, DamagedParityIsMadeAnew) {
  const SealedPack pack = WriteFile();
  const std::string parity_path = ParityPathOf(PathOf(pack));
  for (const std::uint64_t position : {0, 4096, 130}) {
    Flip(parity_path, position);
    EXPECT_THAT(Repair(/*dry_run=*/true).parity, SizeIs(1));
    EXPECT_FALSE(HasSoundParity(pack));
    const PackRepairReport report = Repair();
    ASSERT_THAT(report.parity, SizeIs(1));
    EXPECT_EQ(report.parity[0].path, parity_path);
    EXPECT_TRUE(report.parity[0].failure.ok());
    EXPECT_TRUE(HasSoundParity(pack)) << position;
    EXPECT_THAT(Repair().parity, IsEmpty());
  }
  // Of a store that keeps none any more it goes away.
  Flip(parity_path, 4096);
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  EXPECT_THAT(Repair().parity, SizeIs(1));
  EXPECT_FALSE(std::filesystem::exists(parity_path));
  EXPECT_FALSE(std::filesystem::is_empty(test_.directory() + "/quarantine"));
}

// The power goes at any moment: the pack has its damaged or its right bytes, and parity all the
// time.
TEST_F(ParityRepairTest, APowerCutTakesNothing) {
  const SealedPack pack = WriteFile();
  const std::string path = PathOf(pack);
  const std::string sound = ReadTestFile(path);
  int cut_count = 0;
  for (bool is_done = false; !is_done; ++cut_count) {
    std::string bytes = sound;
    bytes[40] ^= 1;
    ASSERT_TRUE(
        WriteFileDurably(path, test_.store().temporary_directory(),
                         {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()})
            .ok());
    std::atomic<int> left = cut_count;
    hook_.RefuseWith([&left](const FileOperation& operation) {
      return !operation.changes_something() || left-- > 0 ? absl::OkStatus()
                                                          : absl::UnavailableError("no power");
    });
    PackRepairOptions options;
    options.thread_count = 1;
    const auto report = RepairPacks(test_.store(), options);
    is_done = report.ok() && report->packs.size() == 1 && report->packs[0].is_mended;
    hook_.RefuseWith({});
    const TemporaryFolder after(TemporaryFolder::Place::kMemory);
    hook_.CutPower(after.path(), DiskModel::Survival::kSome, random_);
    TestStore survivor(after.path());
    EXPECT_TRUE(survivor.RestoreAll().ok()) << "cut " << cut_count << survivor.RestoreAll();
    const std::string left_path = ChunkIndex(survivor.store().packs_directory()).PackPath(pack.id);
    if (is_done) {
      EXPECT_TRUE(ReadTestFile(left_path) == sound);
    }
    ASSERT_LT(cut_count, 100);
  }
  EXPECT_GT(cut_count, 3);
}

TEST_F(ParityRepairTest, AStoreThatExistsGetsParityAndGoesOnWhereItEnded) {
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  const SealedPack first = WriteFile();
  const SealedPack second = WriteFile();
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 5).ok());
  // After the first of four the disk is full.
  std::atomic<int> left = 1;
  hook_.RefuseWith([&left](const FileOperation& operation) {
    const bool hit = operation.kind == FileOperation::Kind::kCreate && left-- <= 0;
    return hit ? absl::ResourceExhaustedError("No space left on device") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(Follow().status()));
  hook_.RefuseWith({});
  auto report = Follow();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->pack_count, 4u);
  EXPECT_EQ(report->present_count, 1u);
  EXPECT_EQ(report->made_count, 3u);
  EXPECT_TRUE(HasSoundParity(first) && HasSoundParity(second));
  report = Follow();
  EXPECT_EQ(report->present_count, 4u);
  std::uint64_t file_bytes = 0;
  for (const std::string& path : test_.PackFiles()) {
    file_bytes += std::filesystem::file_size(ParityPathOf(path));
  }
  EXPECT_EQ(report->parity_bytes, file_bytes);
  // More of it: tiny packs have two sectors whatever is asked for, and a damaged head is no parity.
  Flip(ParityPathOf(PathOf(first)), 20);
  std::filesystem::resize_file(ParityPathOf(PathOf(first)), 100);
  report = Follow();
  EXPECT_EQ(report->made_count, 1u);
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  report = Follow();
  EXPECT_EQ(report->removed_count, 4u);
  EXPECT_FALSE(std::filesystem::exists(ParityPathOf(PathOf(first))));
}

// Nobody knows of the damage, and without its parity the pack would be lost.
TEST_F(ParityRepairTest, TheParityOfADamagedPackIsNotRemoved) {
  const SealedPack sound = WriteFile();
  const SealedPack pack = WriteFile();
  for (const std::uint64_t position : {pack.footer.blocks[0].offset, pack.file_bytes - 1}) {
    Flip(PathOf(pack), position);
    ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
    auto report = Follow();
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_THAT(report->failures, SizeIs(1));
    EXPECT_TRUE(absl::IsDataLoss(report->failures[0])) << report->failures[0];
    EXPECT_EQ(report->removed_count, 3u);
    EXPECT_FALSE(std::filesystem::exists(ParityPathOf(PathOf(sound))));
    EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
    ASSERT_THAT(Repair().packs, SizeIs(1));
    report = Follow();
    EXPECT_EQ(report->removed_count, 1u);
    EXPECT_THAT(report->failures, IsEmpty());
    ASSERT_TRUE(WriteParityPercent(test_.directory(), 5).ok());
    EXPECT_EQ(Follow()->made_count, 4u);
  }
  // Of packs that a collection of kerf 0.1.0 has deleted.
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  std::filesystem::remove(PathOf(sound));
  EXPECT_EQ(Follow()->removed_count, 4u);
}

TEST_F(ParityRepairTest, AnotherPercentageIsAnotherParity) {
  std::string content(300'000, '\0');
  random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  const SealedPack pack = test_.WritePack({content});
  const std::uint64_t before = std::filesystem::file_size(ParityPathOf(PathOf(pack)));
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 20).ok());
  const auto report = Follow();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->made_count, 1u);
  EXPECT_GT(std::filesystem::file_size(ParityPathOf(PathOf(pack))), before + 40'000);
}

// Parity would keep the damage for good.
TEST_F(ParityRepairTest, ADamagedPackGetsNoParity) {
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  const SealedPack pack = WriteFile();
  const SealedPack footerless = WriteFile();
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 5).ok());
  Flip(PathOf(pack), pack.footer.blocks[1].offset);
  Flip(PathOf(footerless), footerless.file_bytes - 1);
  const auto report = Follow();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->made_count, 2u);
  ASSERT_THAT(report->failures, SizeIs(2));
  for (const absl::Status& failure : report->failures) EXPECT_TRUE(absl::IsDataLoss(failure));
  EXPECT_FALSE(std::filesystem::exists(ParityPathOf(PathOf(pack))));
}

// It was sound when it was looked at, and is read once more to make parity of.
TEST_F(ParityRepairTest, WhatIsReadWrongTheSecondTimeGetsNoParity) {
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  const SealedPack pack = WriteFile();
  const std::string sound = ReadTestFile(PathOf(pack));
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 5).ok());
  ReadWrongWhileParityIsMade(pack);
  auto report = Follow();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->made_count, 1u) << "of the other pack";
  ASSERT_THAT(report->failures, SizeIs(1)) << "a parity of other bytes, in silence";
  EXPECT_THAT(std::string(MessageOf(report->failures[0])), HasSubstr("other bytes are read"));
  EXPECT_FALSE(std::filesystem::exists(ParityPathOf(PathOf(pack))));
  EXPECT_TRUE(std::filesystem::is_empty(test_.store().temporary_directory()));
  hook_.RefuseWith({});
  WriteTestFile(PathOf(pack), sound);
  report = Follow();
  EXPECT_THAT(report->failures, IsEmpty());
  EXPECT_TRUE(HasSoundParity(pack));
  // A repair that makes it anew.
  Flip(ParityPathOf(PathOf(pack)), 4096);
  const std::string damaged = ReadTestFile(ParityPathOf(PathOf(pack)));
  ReadWrongWhileParityIsMade(pack);
  const PackRepairReport repair = Repair();
  ASSERT_THAT(repair.parity, SizeIs(1));
  EXPECT_TRUE(absl::IsDataLoss(repair.parity[0].failure)) << repair.parity[0].failure;
  EXPECT_TRUE(ReadTestFile(ParityPathOf(PathOf(pack))) == damaged);
  hook_.RefuseWith({});
  // Nor of what went bad between the look at it and this.
  EXPECT_THAT(Repair().packs, SizeIs(1)) << "the file is as it was read, and its parity mends it";
  EXPECT_TRUE(ReadTestFile(PathOf(pack)) == sound);
  EXPECT_TRUE(HasSoundParity(pack));
}

}  // namespace
}  // namespace kerf::agent
