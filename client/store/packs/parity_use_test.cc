// Parity where packs are written and read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_check.h"
#include "client/store/parity/parity_maker.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ParityUseTest : public testing::Test {
 protected:
  ParityUseTest() { EXPECT_TRUE(WriteParityPercent(test_.directory(), 5).ok()); }

  std::string Noise(std::size_t size_bytes = 300) {
    std::string text(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return text;
  }
  std::string PathOf(const SealedPack& pack) { return index_.PackPath(pack.id); }
  static void Flip(const std::string& path, std::uint64_t position) {
    std::string bytes = ReadTestFile(path);
    bytes[position] = static_cast<char>(bytes[position] ^ 1);
    WriteTestFile(path, bytes);
  }
  // Its first chunk.
  void Damage(const SealedPack& pack) {
    Flip(PathOf(pack), pack.footer.blocks.front().offset + 10);
  }
  absl::StatusOr<std::string> Read(const std::string& chunk) {
    const absl::StatusOr<ChunkBytes> bytes = reader_.Read(RefOf(chunk));
    if (!bytes.ok()) return bytes.status();
    return std::string(bytes->bytes().begin(), bytes->bytes().end());
  }
  std::string SteppedOver() {
    const std::vector<absl::Status> statuses = reader_.stepped_over();
    return statuses.empty() ? "" : std::string(MessageOf(statuses.front()));
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_{folder_.path()};
  TestStore test_{folder_.path()};
  Random random_{TestSeed()};
  ChunkIndex index_{test_.store().packs_directory()};
  ChunkReader reader_{index_, ChunkReader::Options()};
};

TEST_F(ParityUseTest, ASealedPackHasParityThatSurvivesThePowerCut) {
  PackWriterOptions options = test_.writer_options();
  int sealed_count = 0;
  options.on_sealed = [&](const SealedPack& pack) {
    ++sealed_count;
    const TemporaryFolder after(TemporaryFolder::Place::kMemory);
    hook_.CutPower(after.path());
    const std::string path = ParityPath(after.path() + "/store", pack.id);
    ASSERT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(ReadTestFile(path) == ReadTestFile(ParityPathOf(PathOf(pack))));
  };
  PackWriter writer(std::move(options));
  const std::string chunk = Noise();
  ASSERT_TRUE(writer
                  .Add(RefOf(chunk).digest,
                       {reinterpret_cast<const std::uint8_t*>(chunk.data()), chunk.size()})
                  .ok());
  ASSERT_TRUE(writer.Flush().ok());
  EXPECT_EQ(sealed_count, 1);
}

TEST_F(ParityUseTest, WithoutASettingThereIsNone) {
  ASSERT_TRUE(WriteParityPercent(test_.directory(), 0).ok());
  EXPECT_FALSE(std::filesystem::exists(ParityPathOf(PathOf(test_.WritePack({Noise()})))));
  std::filesystem::remove_all(ParityDirectory(test_.directory()));
  test_.WritePack({Noise()});
  EXPECT_FALSE(std::filesystem::exists(ParityDirectory(test_.directory())));
}

TEST_F(ParityUseTest, WhatKeepsParityFromBeingMadeIsToldAndThePackCounts) {
  const auto write = [&](const std::string& chunk) {
    PackWriterOptions options = test_.writer_options();
    std::vector<absl::Status> failures;
    options.on_parity_failed = [&](const absl::Status& status) { failures.push_back(status); };
    PackWriter writer(std::move(options));
    EXPECT_TRUE(writer
                    .Add(RefOf(chunk).digest,
                         {reinterpret_cast<const std::uint8_t*>(chunk.data()), chunk.size()})
                    .ok());
    EXPECT_TRUE(writer.Flush().ok());
    EXPECT_EQ(*Read(chunk), chunk);
    return failures;
  };
  EXPECT_THAT(write(Noise()), IsEmpty());
  hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kWrite, ".parity",
                               absl::ResourceExhaustedError("No space left on device")));
  std::vector<absl::Status> failures = write(Noise());
  hook_.RefuseWith({});
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_TRUE(absl::IsResourceExhausted(failures[0]));
  EXPECT_THAT(std::string(MessageOf(failures[0])), HasSubstr("`kerf parity --store "));
  WriteTestFile(ParitySettingPath(test_.directory()), "damaged");
  failures = write(Noise());
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_TRUE(absl::IsDataLoss(failures[0]));
}

// Nobody is told to make it later: there is no pack any more.
TEST_F(ParityUseTest, APackThatACollectionTakesMeanwhileNeedsNone) {
  PackWriterOptions options = test_.writer_options();
  std::vector<absl::Status> failures;
  options.on_parity_failed = [&](const absl::Status& status) { failures.push_back(status); };
  std::string taken;
  hook_.RefuseWith([&](const FileOperation& operation) {
    if (operation.kind == FileOperation::Kind::kOpen && operation.path.ends_with(".pack")) {
      taken = operation.path;
      std::filesystem::remove(taken);
    }
    return absl::OkStatus();
  });
  const std::string chunk = Noise();
  PackWriter writer(std::move(options));
  ASSERT_TRUE(writer
                  .Add(RefOf(chunk).digest,
                       {reinterpret_cast<const std::uint8_t*>(chunk.data()), chunk.size()})
                  .ok());
  ASSERT_TRUE(writer.Flush().ok());
  hook_.RefuseWith({});
  EXPECT_FALSE(taken.empty()) << "it was not read again";
  EXPECT_THAT(failures, IsEmpty());
}

// As a file system does whose reads go wrong without an error: of each part of the pack, and of
// all.
TEST_F(ParityUseTest, OfWhatIsReadWrongBehindTheWritingNoParityIsMade) {
  const std::string chunk = Noise();
  const std::size_t pack_bytes = test_.WritePack({chunk}).file_bytes;
  std::vector<std::uint64_t> positions = {
      0,         kPackHeaderBytes, kPackHeaderBytes + 299, kPackHeaderBytes + 300, pack_bytes - 1,
      pack_bytes};
  for (int more = 0; more < 10; ++more) positions.push_back(random_.Below(pack_bytes));
  for (const std::uint64_t position : positions) {
    PackWriterOptions options = test_.writer_options();
    std::vector<absl::Status> failures;
    options.on_parity_failed = [&](const absl::Status& status) { failures.push_back(status); };
    SealedPack pack;
    options.on_sealed = [&](SealedPack sealed) { pack = std::move(sealed); };
    std::string path;
    std::string sound;
    hook_.RefuseWith([&](const FileOperation& operation) {
      if (operation.kind == FileOperation::Kind::kOpen && operation.path.ends_with(".pack") &&
          path.empty()) {
        path = operation.path;
        sound = ReadTestFile(path);
        if (position < pack_bytes) Flip(path, position);
        if (position == pack_bytes) WriteTestFile(path, std::string(pack_bytes, '\0'));
      }
      return absl::OkStatus();
    });
    const std::string other = Noise();
    PackWriter writer(std::move(options));
    ASSERT_TRUE(writer
                    .Add(RefOf(other).digest,
                         {reinterpret_cast<const std::uint8_t*>(other.data()), other.size()})
                    .ok());
    ASSERT_TRUE(writer.Flush().ok());
    hook_.RefuseWith({});
    ASSERT_EQ(path, PathOf(pack)) << "it was not read again";
    WriteTestFile(path, sound);
    ASSERT_THAT(failures, SizeIs(1)) << position << ": a parity of other bytes, in silence";
    EXPECT_TRUE(absl::IsDataLoss(failures[0]));
    EXPECT_THAT(std::string(MessageOf(failures[0])), HasSubstr("other bytes are read"));
    EXPECT_THAT(std::string(MessageOf(failures[0])), HasSubstr("`kerf parity --store "));
    EXPECT_FALSE(std::filesystem::exists(ParityPathOf(path))) << position;
    EXPECT_EQ(*Read(other), other);
  }
}

TEST_F(ParityUseTest, WhatIsDamagedOrCannotBeReadIsReadWithParity) {
  const std::string rotted = Noise();
  const std::string text(1000, 'a');
  const std::string unreadable = Noise();
  for (const std::string& chunk : {rotted, text}) Damage(test_.WritePack({chunk}));
  const SealedPack pack = test_.WritePack({unreadable});
  hook_.RefuseWith(RefuseReading(PathOf(pack), pack.footer.blocks[0].offset, kPackHeaderBytes + 1));
  for (const std::string& chunk : {rotted, text, unreadable}) {
    EXPECT_EQ(*Read(chunk), chunk);
    EXPECT_FALSE(reader_.ReadAt(*index_.Locate(RefOf(chunk).digest), RefOf(chunk)).ok())
        << "as it is it is damaged";
  }
  EXPECT_THAT(reader_.stepped_over(), SizeIs(3));
  EXPECT_THAT(SteppedOver(), HasSubstr("its parity gave back what is lost"));
}

TEST_F(ParityUseTest, ASoundCopyIsReadBeforeParityIsAsked) {
  const std::string chunk = Noise();
  test_.WritePack({chunk});
  ASSERT_TRUE(index_.Refresh().ok());
  Damage(test_.WritePack({chunk}));
  EXPECT_EQ(*Read(chunk), chunk);
  EXPECT_THAT(SteppedOver(), Not(HasSubstr("parity")));
}

// Header, footer, trailer, and a file that was cut short.
TEST_F(ParityUseTest, AFooterThatIsLostIsReadWithParity) {
  for (int part = 0; part < 4; ++part) {
    const std::string chunk = Noise();
    const SealedPack pack = test_.WritePack({chunk});
    const std::string path = PathOf(pack);
    const std::uint64_t positions[] = {3, pack.file_bytes - kPackTrailerBytes - 5,
                                       pack.file_bytes - 1};
    if (part < 3) {
      Flip(path, positions[part]);
    } else {
      WriteTestFile(path, ReadTestFile(path).substr(0, 100));
    }
    EXPECT_FALSE(ReadPackFooter(path, pack.id).ok()) << part;
    EXPECT_EQ(*Read(chunk), chunk) << part;
    EXPECT_THAT(index_.damaged(), IsEmpty()) << part;
    EXPECT_THAT(index_.packs().back()->flaw, HasSubstr("read with its parity")) << part;
    EXPECT_EQ(index_.packs().back()->file_bytes, pack.file_bytes);
  }
}

TEST_F(ParityUseTest, TooMuchDamageSaysBoth) {
  const std::string chunk = Noise();
  const SealedPack pack = test_.WritePack({chunk});
  ASSERT_TRUE(index_.Refresh().ok());
  Damage(pack);
  // Both of its parity sectors.
  Flip(ParityPathOf(PathOf(pack)), 4096);
  Flip(ParityPathOf(PathOf(pack)), 8192);
  const absl::Status status = Read(chunk).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("is damaged"));
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("more than its parity can give back"));
  Flip(PathOf(pack), 3);
  ChunkIndex again(test_.store().packs_directory());
  ASSERT_TRUE(again.Refresh().ok());
  ASSERT_THAT(again.damaged(), SizeIs(1));
  EXPECT_THAT(std::string(MessageOf(again.damaged()[0].status)),
              HasSubstr("more than its parity can give back"));
}

TEST_F(ParityUseTest, ParityOfWhatWasDamagedBeforeIsOfNoUse) {
  const std::string chunk(1000, 'a');
  const SealedPack pack = test_.WritePack({chunk});
  Damage(pack);
  ASSERT_TRUE(MakeParity(PathOf(pack), pack.id, SumsOfTestFile(PathOf(pack)), 5).ok());
  const absl::Status status = Read(chunk).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("before its parity was made"));
}

TEST_F(ParityUseTest, OnlyASoundPackPassesTheCheck) {
  const SealedPack pack = test_.WritePack({Noise(), Noise()});
  const std::string path = PathOf(pack);
  EXPECT_TRUE(CheckPack(path, pack.id).ok());
  // Each sector of it is part of something.
  for (std::uint64_t position = 0; position < pack.file_bytes; position += 7) {
    Flip(path, position);
    EXPECT_FALSE(CheckPack(path, pack.id).ok()) << position;
    Flip(path, position);
  }
}

// Parity is to be made of what was looked at: each byte of it.
TEST_F(ParityUseTest, TheSumsOfASoundPackAreThoseOfItsFile) {
  const SealedPack pack = test_.WritePack({Noise(), std::string(1000, 'a'), Noise()});
  const absl::StatusOr<PackSums> sums = SumSoundPack(PathOf(pack), pack.id);
  ASSERT_TRUE(sums.ok()) << sums.status();
  std::string bytes = ReadTestFile(PathOf(pack));
  const std::span<std::uint8_t> all(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size());
  EXPECT_EQ(sums->end(), bytes.size());
  EXPECT_TRUE(sums->Match(0, all));
  for (std::uint8_t& byte : all) {
    byte ^= 1;
    EXPECT_FALSE(sums->Match(0, all)) << &byte - all.data();
    byte ^= 1;
  }
  Damage(pack);
  EXPECT_TRUE(absl::IsDataLoss(SumSoundPack(PathOf(pack), pack.id).status()));
}

}  // namespace
}  // namespace kerf::agent
