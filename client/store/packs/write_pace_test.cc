#include "client/store/packs/write_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace kerf::agent {
namespace {

using std::chrono::microseconds;

// Two threads that compress a block in 3 ms, or harder in 9 ms to 92 % of the size, and share a
// disk that takes `disk` for a block. How often the effort changes in 1,000 blocks.
int Changes(WritePace& pace, microseconds disk) {
  int changes = 0;
  for (int block = 0; block < 1000; ++block) {
    const bool harder = pace.disk_is_slow();
    const microseconds compressing(harder ? 9000 : 3000);
    const microseconds cycle = 2 * disk * (harder ? 92 : 100) / 100;
    pace.Note(compressing, std::max(cycle - compressing, microseconds(200)));
    if (pace.disk_is_slow() != harder) ++changes;
  }
  return changes;
}

TEST(WritePace, ADiskThatKeepsUpIsNotWaitedFor) {
  WritePace pace;
  EXPECT_EQ(Changes(pace, microseconds(150)), 0);
  EXPECT_FALSE(pace.disk_is_slow());
}

TEST(WritePace, ASlowDiskIsGivenLess) {
  WritePace pace;
  EXPECT_EQ(Changes(pace, microseconds(20'000)), 1);
  EXPECT_TRUE(pace.disk_is_slow());
}

TEST(WritePace, OneSlowWriteAtTheBeginningDecidesNothing) {
  WritePace pace;
  pace.Note(microseconds(3000), microseconds(100'000));
  EXPECT_FALSE(pace.disk_is_slow());
}

TEST(WritePace, WhenTheDiskKeepsUpAgainItIsCompressedAsBefore) {
  WritePace pace;
  Changes(pace, microseconds(20'000));
  ASSERT_TRUE(pace.disk_is_slow());
  EXPECT_EQ(Changes(pace, microseconds(300)), 1);
  EXPECT_FALSE(pace.disk_is_slow());
}

// Whatever the disk is like it settles.
TEST(WritePace, DoesNotGoToAndFro) {
  for (int disk_us = 100; disk_us < 30'000; disk_us += 100) {
    WritePace pace;
    EXPECT_LE(Changes(pace, microseconds(disk_us)), 1) << disk_us;
  }
}

}  // namespace
}  // namespace kerf::agent
