// A pack with its parity on a disk that loses things.
#include "client/store/parity/mender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/little_endian.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"
#include "client/store/format/pack_files.h"
#include "client/store/parity/parity_maker.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/parity/reference_parity.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;

std::span<const std::uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

class MenderTest : public testing::Test {
 protected:
  static constexpr char kId[] = "00112233445566778899aabbccddeeff";

  MenderTest() {
    std::filesystem::create_directories(folder_.path() + "/packs/00");
    std::filesystem::create_directories(folder_.path() + "/tmp");
    EXPECT_TRUE(WriteParityPercent(folder_.path(), 5).ok());
  }

  // Any bytes: what a pack is does not matter to its parity.
  void MakePack(std::size_t size_bytes, unsigned percent) {
    pack_.resize(size_bytes);
    Random(7).Fill({reinterpret_cast<std::uint8_t*>(pack_.data()), pack_.size()});
    WriteTestFile(pack_path_, pack_);
    const absl::Status made = MakeParity(pack_path_, id_, SumsOfTestFile(pack_path_), percent);
    ASSERT_TRUE(made.ok()) << made;
    parity_bytes_ = ReadTestFile(parity_path_);
  }
  void Restore() {
    WriteTestFile(pack_path_, pack_);
    WriteTestFile(parity_path_, parity_bytes_);
  }

  // In place: files are large, and tests not optimized. Nothing behind the end.
  void Destroy(const std::string& path, std::uint64_t offset, std::uint64_t size_bytes) const {
    std::string bytes = (path == pack_path_ ? pack_ : parity_bytes_).substr(offset, size_bytes);
    for (char& byte : bytes) byte = static_cast<char>(byte ^ 0x5a);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(file.good());
  }

  // OK if it gives back exactly what the pack was, as a whole and in a piece.
  absl::Status Mend() {
    const absl::StatusOr<Mender> mender = Mender::Open(pack_path_, id_);
    if (!mender.ok()) return mender.status();
    std::string mended(pack_.size(), '\0');
    const absl::Status status =
        mender->ReadAll([&](std::uint64_t offset, std::span<const std::uint8_t> bytes) {
          std::memcpy(mended.data() + offset, bytes.data(), bytes.size());
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    EXPECT_TRUE(mended == pack_);
    const std::uint64_t offset = random_.Below(pack_.size());
    const std::uint64_t size_bytes = random_.Below(pack_.size() - offset + 1);
    const auto piece = mender->Read(offset, size_bytes);
    EXPECT_TRUE(piece.ok()) << piece.status();
    // Not with memcmp: of no bytes there may be no pointer.
    EXPECT_TRUE(std::string(piece->begin(), piece->end()) == pack_.substr(offset, size_bytes));
    EXPECT_TRUE(absl::IsDataLoss(mender->Read(offset, pack_.size() - offset + 1).status()));
    return absl::OkStatus();
  }
  absl::Status CheckParity() {
    const absl::StatusOr<ParityFile> parity = ParityFile::Open(parity_path_, id_);
    return parity.ok() ? parity->Check() : parity.status();
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_{folder_.path()};
  const PackId id_ = *ParsePackId(kId);
  const std::string pack_path_ = Cat(folder_.path(), "/packs/00/", kId, ".pack");
  const std::string parity_path_ = Cat(folder_.path(), "/parity/00/", kId, ".parity");
  std::string pack_;
  std::string parity_bytes_;
  Random random_{TestSeed()};
};

TEST_F(MenderTest, TheFileIsTheOneOfTheSpec) {
  EXPECT_EQ(ParityPathOf(pack_path_), parity_path_);
  EXPECT_EQ(ParityPath(folder_.path(), id_), parity_path_);
  const std::string id(id_.bytes.begin(), id_.bytes.end());
  const auto expect = [&](std::size_t size_bytes, unsigned percent, unsigned groups, unsigned data,
                          unsigned parity) {
    SCOPED_TRACE(Cat(size_bytes, " at ", percent));
    MakePack(size_bytes, percent);
    EXPECT_TRUE(parity_bytes_ == ReferenceParity(id, pack_, groups, data, parity));
    EXPECT_EQ(parity_bytes_.size(), ShapeFor(size_bytes, percent).file_bytes());
    EXPECT_TRUE(CheckParity().ok()) << CheckParity();
    EXPECT_TRUE(Mend().ok()) << Mend();
  };
  expect(1, 1, 1, 1, 2);
  expect(4096, 50, 1, 1, 2);
  expect(20'000, 5, 1, 5, 2);
  expect(100 * 4096, 100, 7, 15, 15);
  // More than a piece of its digest, and than a page of its table.
  expect(2'100'001, 5, 3, 171, 9);
}

// Fixed for ever: the BLAKE3 of the whole file, as the reference made it in 2026.
TEST_F(MenderTest, GoldenVector) {
  MakePack(20'000, 5);
  EXPECT_EQ(DigestToHex(Fingerprint(DigestAlgorithm::kBlake3, BytesOf(parity_bytes_)), 32),
            "829aa699a4baaee0ac60e321f22fc2761cd577f93a46cfb204792457a95b899a");
}

TEST_F(MenderTest, AnyBurstUpToTheParityIsMended) {
  MakePack(1'300'000, 10);
  const ParityShape shape = ShapeFor(pack_.size(), 10);
  ASSERT_EQ(shape, (ParityShape{1'300'000, 2, 159, 16}));
  for (int round = 0; round < 12; ++round) {
    // Unaligned, it touches one sector more.
    const std::uint64_t size_bytes =
        random_.Between(1, (shape.group_count * shape.parity_count - 1) * kSectorBytes);
    const std::uint64_t offset = random_.Below(pack_.size());
    Destroy(pack_path_, offset, size_bytes);
    EXPECT_TRUE(Mend().ok()) << offset << "+" << size_bytes << ": " << Mend();
    Restore();
  }
  Destroy(pack_path_, 4096, (shape.group_count * shape.parity_count + 1) * kSectorBytes);
  EXPECT_THAT(std::string(MessageOf(Mend())), HasSubstr("more than its parity can give back"));
}

// Sectors here and there, in pack and parity alike; said to be too much exactly where it is.
TEST_F(MenderTest, LossesAnywhereAreMendedAsLongAsAGroupHasEnough) {
  MakePack(1'300'000, 10);
  const ParityShape shape = ShapeFor(pack_.size(), 10);
  if (shape.group_count == 0) FAIL() << "no group";
  int mended_count = 0;
  int lost_count = 0;
  for (int round = 0; round < 24; ++round) {
    std::vector<bool> lost_data(shape.sector_count());
    std::vector<std::uint32_t> lost_of_group(shape.group_count);
    std::string pack = pack_;
    std::string parity = parity_bytes_;
    for (std::uint64_t left = random_.Between(20, 44); left > 0; --left) {
      const std::uint64_t row = random_.Below(shape.row_count());
      if (row < shape.sector_count()) {
        if (lost_data[row]) continue;
        lost_data[row] = true;
        pack[row * kSectorBytes] ^= 1;
        ++lost_of_group[row % shape.group_count];
      } else {
        const std::uint64_t index = row - shape.sector_count();
        char& byte = parity[shape.parity_sector_offset(index) + 9];
        if (byte == parity_bytes_[shape.parity_sector_offset(index) + 9]) {
          ++lost_of_group[index % shape.group_count];
        }
        byte ^= 1;
        if (byte == parity_bytes_[shape.parity_sector_offset(index) + 9]) {
          --lost_of_group[index % shape.group_count];
        }
      }
    }
    WriteTestFile(pack_path_, pack);
    WriteTestFile(parity_path_, parity);
    // A group that has lost parity alone needs none.
    std::vector<bool> needs(shape.group_count);
    for (std::size_t sector = 0; sector < lost_data.size(); ++sector) {
      if (lost_data[sector]) needs[sector % shape.group_count] = true;
    }
    bool too_much = false;
    for (std::uint32_t group = 0; group < shape.group_count; ++group) {
      too_much |= needs[group] && lost_of_group[group] > shape.parity_count;
    }
    const absl::Status status = Mend();
    EXPECT_EQ(status.ok(), !too_much) << status;
    too_much ? ++lost_count : ++mended_count;
    Restore();
  }
  EXPECT_GT(mended_count, 0);
  EXPECT_GT(lost_count, 0);
}

TEST_F(MenderTest, WhatTheDiskCannotReadAndWhatIsCutOffIsMended) {
  MakePack(300'000, 10);
  hook_.RefuseWith(RefuseReading(pack_path_, 50'000, 50'001));
  EXPECT_TRUE(Mend().ok()) << Mend();
  // A sector of the parity as well: of its front table, and of its first parity sector.
  for (const std::uint64_t at : {std::uint64_t{200}, ShapeFor(300'000, 10).parity_offset()}) {
    hook_.RefuseWith([&, at](const FileOperation& operation) {
      absl::Status status = RefuseReading(pack_path_, 50'000, 50'001)(operation);
      status.Update(RefuseReading(parity_path_, at, at + 1)(operation));
      return status;
    });
    EXPECT_TRUE(Mend().ok()) << at << ": " << Mend();
    EXPECT_FALSE(CheckParity().ok()) << at;
  }
  hook_.RefuseWith({});
  WriteTestFile(pack_path_, pack_.substr(0, pack_.size() - 20'000));
  EXPECT_TRUE(Mend().ok()) << Mend();
  WriteTestFile(pack_path_, pack_ + "and more");
  EXPECT_TRUE(Mend().ok()) << Mend();
  WriteTestFile(pack_path_, "");
  EXPECT_TRUE(absl::IsDataLoss(Mend())) << Mend();
}

// Nothing of it is there but once.
TEST_F(MenderTest, NoSectorOfTheParityFileIsNeeded) {
  MakePack(2'050'000, 5);
  const ParityShape shape = ShapeFor(pack_.size(), 5);
  ASSERT_GT(shape.page_count(), 1u);
  for (std::uint64_t at = 0; at < parity_bytes_.size(); at += kSectorBytes) {
    Destroy(parity_path_, at, kSectorBytes);
    Destroy(pack_path_, 100'000, 20'000);
    EXPECT_FALSE(CheckParity().ok()) << at;
    EXPECT_TRUE(Mend().ok()) << at << ": " << Mend();
    Restore();
  }
  // Cut off: head and table at the end are gone, and some parity.
  WriteTestFile(parity_path_, parity_bytes_.substr(0, shape.second_table_offset() - 5000));
  Destroy(pack_path_, 100'000, 8'000);
  EXPECT_TRUE(Mend().ok()) << Mend();
  EXPECT_FALSE(CheckParity().ok());
}

// The sectors whose checksum is lost count as lost, and are of different groups.
TEST_F(MenderTest, APageOfChecksumsThatIsLostTwiceIsMended) {
  MakePack(24'000'000, 10);
  const ParityShape shape = ShapeFor(pack_.size(), 10);
  Destroy(parity_path_, kParityHeadBytes + 8, 1);
  Destroy(parity_path_, shape.second_table_offset() + 8, 1);
  Destroy(parity_path_, shape.second_table_offset() + kPageBytes + 8, 1);
  EXPECT_TRUE(Mend().ok()) << Mend();
  Destroy(pack_path_, 4'000'000, 3 * kSectorBytes);
  EXPECT_TRUE(Mend().ok()) << Mend();
}

TEST_F(MenderTest, BothHeadsLostSaysSo) {
  MakePack(20'000, 5);
  Destroy(parity_path_, 3, 1);
  EXPECT_TRUE(Mend().ok());
  Destroy(parity_path_, parity_bytes_.size() - 1, 1);
  EXPECT_TRUE(absl::IsDataLoss(Mend()));
  for (const std::size_t size_bytes : {0, 1, 127, 128, 4096}) {
    WriteTestFile(parity_path_, parity_bytes_.substr(0, size_bytes));
    EXPECT_EQ(ParityFile::Open(parity_path_, id_).ok(), size_bytes >= kParityHeadBytes);
  }
  std::filesystem::remove(parity_path_);
  EXPECT_TRUE(absl::IsNotFound(Mend()));
}

TEST_F(MenderTest, ParityOfAnotherPackIsNotUsed) {
  MakePack(20'000, 5);
  const absl::Status status =
      ParityFile::Open(parity_path_, *ParsePackId("10112233445566778899aabbccddeeff")).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr(kId));
}

// Whole checksums, and yet not what the pack was: the digest of the whole says so.
TEST_F(MenderTest, WhatDoesNotBecomeThePackIsNotCalledMended) {
  MakePack(20'000, 5);
  std::string other = ReferenceParity(std::string(id_.bytes.begin(), id_.bytes.end()),
                                      pack_ + std::string(), 1, 5, 2);
  ASSERT_TRUE(other == parity_bytes_);
  absl::StatusOr<ParityHead> head = DecodeParityHead(BytesOf(other).first(kParityHeadBytes));
  ASSERT_TRUE(head.ok());
  head->pack_digest.bytes[0] ^= 1;
  const auto bytes = EncodeParityHead(*head);
  std::copy(bytes.begin(), bytes.end(), other.begin());
  std::copy(bytes.begin(), bytes.end(), other.end() - kParityHeadBytes);
  WriteTestFile(parity_path_, other);
  EXPECT_THAT(std::string(MessageOf(Mend())), HasSubstr("does not make of it what it was"));
}

// They were read wrong, or damaged between the look at them and this.
TEST_F(MenderTest, OfOtherBytesThanThePackHasNoParityIsMade) {
  MakePack(1'100'000, 5);
  const PackSums sums = SumsOfTestFile(pack_path_);
  const auto expect_none = [&](const std::string& what) {
    const absl::Status status = MakeParity(pack_path_, id_, sums, 5);
    EXPECT_TRUE(absl::IsDataLoss(status)) << what << status;
    EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("other bytes are read")) << what;
    EXPECT_TRUE(ReadTestFile(parity_path_) == parity_bytes_) << what << " replaced what was right";
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/tmp")) << what;
    Restore();
  };
  for (const std::uint64_t position : {0, 4095, 4096, 1'048'575, 1'048'576, 1'099'999}) {
    Destroy(pack_path_, position, 1);
    expect_none(Cat(position));
  }
  WriteTestFile(pack_path_, std::string(pack_.size(), '\0'));
  expect_none("zeros");
  WriteTestFile(pack_path_, pack_.substr(0, pack_.size() - 1));
  expect_none("cut");
  WriteTestFile(pack_path_, pack_.substr(0, 1'048'576));
  expect_none("cut at a piece");
  WriteTestFile(pack_path_, pack_ + '\0');
  expect_none("longer");
  EXPECT_TRUE(absl::IsDataLoss(MakeParity(pack_path_, id_, PackSums(), 5)));
  EXPECT_TRUE(MakeParity(pack_path_, id_, sums, 5).ok());
}

TEST_F(MenderTest, WhatCannotBeMadeLeavesNothing) {
  MakePack(20'000, 5);
  std::filesystem::remove(parity_path_);
  hook_.RefuseWith(RefuseReading(pack_path_, 10'000, 10'001));
  const PackSums sums = SumsOfTestFile(pack_path_);
  EXPECT_FALSE(MakeParity(pack_path_, id_, sums, 5).ok());
  hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kWrite, "/tmp/",
                               absl::ResourceExhaustedError("No space left on device")));
  EXPECT_TRUE(absl::IsResourceExhausted(MakeParity(pack_path_, id_, sums, 5)));
  hook_.RefuseWith({});
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/tmp"));
  EXPECT_FALSE(std::filesystem::exists(parity_path_));
  WriteTestFile(pack_path_, "");
  EXPECT_TRUE(absl::IsDataLoss(MakeParity(pack_path_, id_, sums, 5)));
}

TEST_F(MenderTest, TheSettingIsKeptAndDamageIsSaid) {
  EXPECT_EQ(*ReadParityPercent(folder_.path()), 5u);
  ASSERT_TRUE(WriteParityPercent(folder_.path(), 0).ok());
  EXPECT_EQ(*ReadParityPercent(folder_.path()), 0u);
  EXPECT_EQ(*ReadParityPercent(folder_.path() + "/elsewhere"), 0u);
  for (const std::string text : {"101", "-1", "five", ""}) {
    ASSERT_TRUE(WriteFileDurably(ParitySettingPath(folder_.path()), folder_.path() + "/tmp",
                                 EncodeFramed(kParitySettingMagic, text))
                    .ok());
    EXPECT_TRUE(absl::IsDataLoss(ReadParityPercent(folder_.path()).status())) << text;
  }
  WriteTestFile(ParitySettingPath(folder_.path()), "cut");
  const absl::Status status = ReadParityPercent(folder_.path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("--percent"));
}

}  // namespace
}  // namespace kerf::agent
