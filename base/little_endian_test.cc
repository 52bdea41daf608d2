#include "base/little_endian.h"

#include <gtest/gtest.h>

namespace kerf {
namespace {

TEST(LittleEndianTest, LowestByteComesFirst) {
  std::vector<std::uint8_t> bytes;
  AppendLittleEndian(bytes, std::uint8_t{0xFE});
  AppendLittleEndian(bytes, std::uint16_t{0x8001});
  AppendLittleEndian(bytes, std::uint32_t{0xF0000002});
  AppendLittleEndian(bytes, std::uint64_t{0x8000000000000003});
  const std::vector<std::uint8_t> expected = {0xFE, 0x01, 0x80, 0x02, 0, 0, 0xF0, 3,
                                              0,    0,    0,    0,    0, 0, 0x80};
  EXPECT_EQ(bytes, expected);
}

TEST(LittleEndianTest, ReadsWhatItWrites) {
  const std::uint8_t bytes[] = {0xFF, 0x80, 0xFF, 0xF1, 0x02, 0, 0, 0x90};
  EXPECT_EQ(LoadLittleEndian<std::uint8_t>(bytes), 0xFFu);
  EXPECT_EQ(LoadLittleEndian<std::uint16_t>(bytes), 0x80FFu);
  EXPECT_EQ(LoadLittleEndian<std::uint32_t>(bytes), 0xF1FF80FFu);
  EXPECT_EQ(LoadLittleEndian<std::uint64_t>(bytes), 0x90000002F1FF80FFu);
}

}  // namespace
}  // namespace kerf
