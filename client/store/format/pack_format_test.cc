// Footers that are whole and lie all the same.
#include "client/store/format/pack_format.h"

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <vector>

#include "base/little_endian.h"

namespace kerf::agent {
namespace {

constexpr std::uint64_t kFooterOffset = 10'000;

// Two blocks, and a chunk in each.
PackFooter Footer() {
  PackFooter footer;
  footer.blocks = {{kPackHeaderBytes, 50, 100, true}, {kPackHeaderBytes + 50, 100, 100, false}};
  footer.chunks = {{Digest(), 0, 0, 100}, {Digest(), 1, 40, 60}};
  return footer;
}

absl::Status Decode(const PackFooter& footer) {
  const std::vector<std::uint8_t> end = EncodePackEnd(footer, kFooterOffset);
  const std::span<const std::uint8_t> bytes(end);
  const auto trailer = DecodePackTrailer(bytes.last(kPackTrailerBytes), kFooterOffset + end.size());
  if (!trailer.ok()) return trailer.status();
  return DecodePackFooter(bytes.first(bytes.size() - kPackTrailerBytes), *trailer).status();
}

TEST(PackFormatTest, ASoundFooterIsTaken) {
  EXPECT_TRUE(Decode(Footer()).ok()) << Decode(Footer());
  EXPECT_TRUE(Decode(PackFooter()).ok());
}

TEST(PackFormatTest, WhatPointsOutsideIsRefused) {
  const auto refused = [](const std::function<void(PackFooter&)>& change) {
    PackFooter footer = Footer();
    change(footer);
    const absl::Status status = Decode(footer);
    return absl::IsDataLoss(status);
  };
  EXPECT_TRUE(refused([](auto& footer) { footer.blocks[0].offset = kPackHeaderBytes - 1; }));
  EXPECT_TRUE(refused([](auto& footer) { footer.blocks[0].offset = kFooterOffset - 49; }));
  EXPECT_TRUE(refused([](auto& footer) { footer.blocks[0].offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](auto& footer) { footer.blocks[0].raw_bytes = kMaxBlockRawBytes + 1; }));
  EXPECT_TRUE(refused([](auto& footer) { footer.blocks[1].stored_bytes = 99; }));
  EXPECT_TRUE(refused([](auto& footer) { footer.chunks[0].block_index = 2; }));
  EXPECT_TRUE(refused([](auto& footer) { footer.chunks[1].length_bytes = 61; }));
  EXPECT_TRUE(refused([](auto& footer) { footer.chunks[1].offset_in_block = 101; }));
}

// Nobody writes such blocks; a file with holes could claim gigabytes in them at no cost.
TEST(PackFormatTest, ABlockThatIsStoredInMoreBytesThanItHasIsRefused) {
  PackFooter footer = Footer();
  footer.blocks[0].stored_bytes = 100;
  EXPECT_TRUE(Decode(footer).ok());
  footer.blocks[0].stored_bytes = 101;
  EXPECT_TRUE(absl::IsDataLoss(Decode(footer)));
}

TEST(PackFormatTest, BlocksWithoutChunksAreRefused) {
  PackFooter footer = Footer();
  footer.chunks.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(Decode(footer)));
}

TEST(PackFormatTest, AFooterLongerThanAnyWriterMakesIsRefused) {
  std::vector<std::uint8_t> end = EncodePackEnd(Footer(), kFooterOffset);
  const auto last = std::span<std::uint8_t>(end).last(kPackTrailerBytes);
  for (const std::uint32_t footer_bytes : {kMaxFooterBytes, kMaxFooterBytes + 1}) {
    StoreLittleEndian(last.data() + 8, footer_bytes);
    const auto trailer =
        DecodePackTrailer(last, kFooterOffset + footer_bytes + std::uint64_t{kPackTrailerBytes});
    EXPECT_EQ(trailer.ok(), footer_bytes == kMaxFooterBytes) << trailer.status();
  }
}

}  // namespace
}  // namespace kerf::agent
