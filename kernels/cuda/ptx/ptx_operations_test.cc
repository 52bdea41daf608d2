// The operations of PTX that are no operators of C++, by the words of its specification.
#include <gtest/gtest.h>

#include "kernels/cuda/ptx/operations.h"

namespace kerf::cuda::ptx {
namespace {

TEST(PtxOperationsTest, ShiftsByAsManyBitsAsThereAreLeaveNothing) {
  EXPECT_EQ(ShiftLeft(U32{1}, 31), 0x80000000u);
  EXPECT_EQ(ShiftLeft(U32{1}, 32), 0u);
  EXPECT_EQ(ShiftLeft(U64{1}, 63), U64{1} << 63);
  EXPECT_EQ(ShiftLeft(U64{1}, 64), 0u);
  EXPECT_EQ(ShiftLeft(U16{1}, 15), 0x8000u);
  EXPECT_EQ(ShiftLeft(U16{3}, 15), 0x8000u);
  EXPECT_EQ(ShiftRight(U32{0x80000000u}, 31), 1u);
  EXPECT_EQ(ShiftRight(U32{0x80000000u}, 32), 0u);
  EXPECT_EQ(ShiftRight(S32{-8}, 2), -2);
  EXPECT_EQ(ShiftRight(S32{-8}, 40), -1);
  EXPECT_EQ(ShiftRight(S32{8}, 40), 0);
}

TEST(PtxOperationsTest, FunnelsWrap) {
  EXPECT_EQ(FunnelRight(0x89ABCDEFu, 0x01234567u, 8), 0x6789ABCDu);
  EXPECT_EQ(FunnelLeft(0x89ABCDEFu, 0x01234567u, 8), 0x23456789u);
  EXPECT_EQ(FunnelRight(1u, 2u, 32), 1u);
  EXPECT_EQ(FunnelLeft(1u, 2u, 32), 2u);
}

TEST(PtxOperationsTest, PermutesBytesAndTheirSigns) {
  EXPECT_EQ(Permute(0x33221100u, 0x77665544u, 0x3210), 0x33221100u);
  EXPECT_EQ(Permute(0x33221100u, 0x77665544u, 0x7041), 0x77004411u);
  EXPECT_EQ(Permute(0x00008000u, 0, 0x0899), 0x0000FFFFu);
}

TEST(PtxOperationsTest, CountsAndFindsBits) {
  EXPECT_EQ(PopCount(0xF0F0u), 8u);
  EXPECT_EQ(LeadingZeros(0u), 32u);
  EXPECT_EQ(LeadingZeros(1u), 31u);
  EXPECT_EQ(ShiftToHighest(1u), 31u);
  EXPECT_EQ(ShiftToHighest(0u), 0xFFFFFFFFu);
  EXPECT_EQ(ReverseBits(1u), 0x80000000u);
  EXPECT_EQ(ReverseBits(0x0000A5F0u), 0x0FA50000u);
}

TEST(PtxOperationsTest, InsertsBits) {
  EXPECT_EQ(InsertBits(0xABu, 0xFFFFFFFFu, 8, 8), 0xFFFFABFFu);
  EXPECT_EQ(InsertBits(0xABu, 5u, 8, 0), 5u);
  EXPECT_EQ(InsertBits(0xFFu, 0u, 28, 8), 0xF0000000u);
  EXPECT_EQ(InsertBits(7u, 5u, 0, 32), 7u);
  EXPECT_EQ(InsertBits(7u, 5u, 32, 4), 5u);
}

}  // namespace
}  // namespace kerf::cuda::ptx
