// What parity is: the code, the shapes and the bytes.
#include "client/store/parity/parity_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/little_endian.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/parity/parity_code.h"
#include "client/store/parity/reference_parity.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kTestBytes = 64;

struct Shape {
  std::uint32_t data_count;
  std::uint32_t parity_count;
};

std::vector<std::uint8_t*> Pointers(std::vector<std::vector<std::uint8_t>>& sectors) {
  std::vector<std::uint8_t*> pointers;
  pointers.reserve(sectors.size());
  for (std::vector<std::uint8_t>& sector : sectors) pointers.push_back(sector.data());
  return pointers;
}

TEST(ParityCodeTest, IsTheOneOfTheSpecAndGivesBackWhateverIsLost) {
  Random random(TestSeed());
  for (const Shape shape : {Shape{1, 2},
                            {1, 1},
                            {2, 2},
                            {5, 3},
                            {16, 16},
                            {160, 16},
                            {239, 16},
                            {242, 13},
                            {252, 3},
                            {253, 2}}) {
    SCOPED_TRACE(Cat(shape.data_count, " + ", shape.parity_count));
    const auto code = ParityCode::Make(shape.data_count, shape.parity_count);
    ASSERT_TRUE(code.ok()) << code.status();
    std::vector<std::vector<std::uint8_t>> sectors(shape.data_count + shape.parity_count,
                                                   std::vector<std::uint8_t>(kTestBytes));
    for (std::uint32_t data = 0; data < shape.data_count; ++data) random.Fill(sectors[data]);
    const std::vector<std::uint8_t*> all = Pointers(sectors);
    const std::span<std::uint8_t* const> pointers(all);
    code->Encode(pointers.first(shape.data_count), pointers.last(shape.parity_count), kTestBytes);
    for (std::uint32_t parity = 0; parity < shape.parity_count; ++parity) {
      unsigned expected = 0;
      for (std::uint32_t data = 0; data < shape.data_count; ++data) {
        expected ^= ReferenceMultiply(ReferenceCoefficient(shape.data_count, parity, data),
                                      sectors[data][7]);
      }
      EXPECT_EQ(sectors[shape.data_count + parity][7], expected);
    }
    for (int round = 0; round < 10; ++round) {
      std::vector<std::uint32_t> order(sectors.size());
      std::iota(order.begin(), order.end(), 0u);
      for (std::size_t last = order.size() - 1; last > 0; --last) {
        std::swap(order[last], order[random.Below(last + 1)]);
      }
      const std::vector<std::uint32_t> sources(order.begin(), order.begin() + shape.data_count);
      std::vector<std::uint32_t> lost;
      for (auto row = order.begin() + shape.data_count; row != order.end(); ++row) {
        if (*row < shape.data_count) lost.push_back(*row);
      }
      if (lost.empty()) continue;
      std::vector<std::uint8_t*> source_bytes;
      source_bytes.reserve(sources.size());
      for (const std::uint32_t source : sources) source_bytes.push_back(all[source]);
      std::vector<std::vector<std::uint8_t>> out(lost.size(),
                                                 std::vector<std::uint8_t>(kTestBytes));
      ASSERT_TRUE(code->Recover(sources, source_bytes, lost, Pointers(out), kTestBytes));
      for (std::size_t index = 0; index < lost.size(); ++index) {
        EXPECT_EQ(out[index], sectors[lost[index]]) << lost[index];
      }
    }
  }
}

// By hand: the largest group whose parity, rounded up and at most 16, leaves it 255 in all.
TEST(ParityShapeTest, GroupsAreAsLargeAsTheyCanBe) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  const auto expect = [](std::uint64_t pack_bytes, unsigned percent, std::uint32_t groups,
                         std::uint32_t data, std::uint32_t parity) {
    EXPECT_EQ(ShapeFor(pack_bytes, percent), (ParityShape{pack_bytes, groups, data, parity}))
        << pack_bytes << " at " << percent << ": " << ShapeFor(pack_bytes, percent).group_count
        << " x " << ShapeFor(pack_bytes, percent).data_count << " + "
        << ShapeFor(pack_bytes, percent).parity_count;
  };
  // 16,384 sectors; 242 + 13 fit.
  expect(64 * kMiB, 5, 68, 241, 13);
  // 252 + 3.
  expect(64 * kMiB, 1, 66, 249, 3);
  // 160 + 16.
  expect(64 * kMiB, 10, 103, 160, 16);
  // 16 + 16.
  expect(64 * kMiB, 100, 1024, 16, 16);
  // Of a pack with few sectors any two may be lost.
  expect(1, 5, 1, 1, 2);
  expect(4096, 5, 1, 1, 2);
  expect(4097, 5, 1, 2, 2);
  expect(40 * 4096, 5, 1, 40, 2);
  expect(41 * 4096, 5, 1, 41, 3);
  expect(242 * 4096, 5, 1, 242, 13);
  expect(243 * 4096, 5, 2, 122, 7);
  for (unsigned percent = kMinParityPercent; percent <= kMaxParityPercent; ++percent) {
    for (const std::uint64_t pack_bytes : {std::uint64_t{96}, 3 * kMiB, 1024 * kMiB}) {
      const ParityShape shape = ShapeFor(pack_bytes, percent);
      EXPECT_LE(shape.data_count + shape.parity_count, kMaxGroupSectors);
      EXPECT_GE(shape.parity_count * 100, shape.data_count * percent);
      EXPECT_GE(std::uint64_t{shape.group_count} * shape.data_count, shape.sector_count());
      EXPECT_LT(std::uint64_t{shape.group_count} * (shape.data_count - 1), shape.sector_count());
    }
  }
}

ParityHead SomeHead() {
  ParityHead head;
  head.pack = *ParsePackId("000102030405060708090a0b0c0d0e0f");
  head.shape = {1'000'000, 5, 49, 3};
  return head;
}

TEST(ParityHeadTest, AnyFlippedBitIsSeen) {
  const auto bytes = EncodeParityHead(SomeHead());
  ASSERT_TRUE(DecodeParityHead(bytes).ok());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::uint8_t>(1 << (bit % 8));
    EXPECT_TRUE(absl::IsDataLoss(DecodeParityHead(flipped).status())) << bit;
  }
}

// With a checksum that matches.
TEST(ParityHeadTest, NumbersOfNoPackAreRefused) {
  const auto decode = [](const ParityShape& shape) {
    ParityHead head = SomeHead();
    head.shape = shape;
    return DecodeParityHead(EncodeParityHead(head)).status();
  };
  EXPECT_TRUE(decode(SomeHead().shape).ok());
  constexpr std::uint32_t kAll = 0xffffffff;
  for (const ParityShape shape : {ParityShape{0, 5, 49, 3},
                                  {1'000'000, 0, 49, 3},
                                  {1'000'000, 5, 0, 3},
                                  {1'000'000, 5, 49, 0},
                                  {1'000'000, 5, 48, 3},
                                  {1'000'000, 5, 50, 3},
                                  {1'000'000, 5, 49, 207},
                                  {1'000'000, 5, 49, kAll},
                                  {1'000'000, 5, kAll, 3},
                                  {1'000'000, kAll, 1, 3},
                                  {1'000'000, 246, 1, 3},
                                  {1'000'000, 245, 1, 3},
                                  {1'000'000, 5, 49, 50},
                                  {1'000'000, 1, 245, 11},
                                  {kMaxParityPackBytes + 1, 262145, 1, 3},
                                  {~std::uint64_t{0}, 5, 49, 3},
                                  {~std::uint64_t{0}, kAll, 254, 1}}) {
    EXPECT_TRUE(absl::IsDataLoss(decode(shape)))
        << shape.pack_bytes << " " << shape.group_count << " " << shape.data_count;
  }
}

TEST(ParityHeadTest, OfALaterVersionIsRefusedAsSuch) {
  auto bytes = EncodeParityHead(SomeHead());
  bytes[8] = 2;
  const Digest checksum = Fingerprint(DigestAlgorithm::kBlake3, std::span(bytes).first(96));
  std::copy(checksum.bytes.begin(), checksum.bytes.end(), bytes.begin() + 96);
  EXPECT_TRUE(absl::IsFailedPrecondition(DecodeParityHead(bytes).status()));
}

}  // namespace
}  // namespace kerf::agent
