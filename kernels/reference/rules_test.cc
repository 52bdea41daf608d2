// The references against cut lists that other implementations made, and small cases by hand.
#include "kernels/reference/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/reference/reference.h"
#include "kernels/testing/chunker_conformance.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

using Ends = std::vector<std::uint64_t>;

Ends CutAllByReference(const std::string& profile, std::span<const std::uint8_t> bytes) {
  const Profile parsed = *ParseProfile(profile);
  Ends ends;
  std::size_t start = 0;
  while (start < bytes.size()) {
    start += ReferenceNextCut(parsed, bytes.subspan(start));
    ends.push_back(start);
  }
  return ends;
}

struct Golden {
  const char* profile;
  std::size_t chunk_count;
  Ends first_ends;
  const char* digest;
};

class GoldenTest : public ::testing::TestWithParam<Golden> {};

// On the first 4 MiB of aes-ctr; the lists were observed from public implementations of the rules.
TEST_P(GoldenTest, CutsAreThoseOfTheField) {
  const std::vector<std::uint8_t> bytes = MakeInput("aes-ctr", 0, 4 << 20);
  const Ends ends = CutAllByReference(GetParam().profile, bytes);
  EXPECT_EQ(ends.size(), GetParam().chunk_count);
  ASSERT_GE(ends.size(), 4u);
  EXPECT_EQ(Ends(ends.begin(), ends.begin() + 4), GetParam().first_ends);
  EXPECT_EQ(CutsDigest(ends), GetParam().digest);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, GoldenTest,
    ::testing::Values(
        Golden{"ae-max-8k", 496, {8350, 16687, 24950, 33183}, "b6064baf51d5edd7be24831a93b69c73"},
        Golden{"ae-min-8k", 498, {8385, 16647, 24904, 33195}, "9e1d22ce874a7e75f07b7343c22e15ef"},
        Golden{"ram-8k", 496, {8302, 16758, 24991, 33830}, "e8c6a114c819f72ea8e3004f9b378939"},
        Golden{"maxp-8k", 322, {32768, 38051, 44741, 60304}, "44b4444fad3efaf1cfc59ade1307b395"},
        Golden{"seqcdc-8k", 601, {4548, 9395, 21767, 25937}, "1f65dcc98df2c56f801e71873f75e08c"},
        Golden{"seqcdc-16k", 316, {13791, 24443, 35113, 43998}, "be127cda559fed0f97eead405158396f"},
        Golden{"crc-8k", 436, {11000, 14026, 19042, 23065}, "dfe601b783a9132ac4c5c210c4b765c8"},
        Golden{"rabin-8k", 451, {4670, 9194, 14560, 26322}, "84bf85673ce843b6f9db5ec27739c7d1"},
        Golden{"tttd-8k", 451, {4669, 9193, 14559, 26321}, "5f72387ffbd0af8c1846508388f38a52"},
        Golden{"mincdc-8k", 496, {7795, 16459, 28362, 39197}, "eb27824a31db8c474d29e074ac8b3d0b"}));

// Where the rule would be ambiguous, a case that decides it.
std::vector<std::uint8_t> Zeros(std::size_t count) { return std::vector<std::uint8_t>(count); }

TEST(Rules, FixedCutsAtItsSize) {
  EXPECT_EQ(CutAllByReference("fixed:size=100", Zeros(250)), (Ends{100, 200, 250}));
}

TEST(Rules, AeEqualBytesKeepTheFirst) {
  std::vector<std::uint8_t> bytes = Zeros(300);
  bytes[10] = bytes[40] = 7;
  EXPECT_EQ(CutAllByReference("ae-max:window=64,max=300", bytes).front(), 74u);
  bytes[74] = 8;
  EXPECT_EQ(CutAllByReference("ae-max:window=64,max=300", bytes).front(), 138u);
}

TEST(Rules, AeMinIsAeMaxOfTheComplement) {
  std::vector<std::uint8_t> bytes = MakeInput("random", 3, 100000);
  const Ends ends = CutAllByReference("ae-max:window=500,max=2000", bytes);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(~byte);
  EXPECT_EQ(CutAllByReference("ae-min:window=500,max=2000", bytes), ends);
}

TEST(Rules, RamTakesAnEqualByte) {
  std::vector<std::uint8_t> bytes = Zeros(300);
  bytes[3] = 9;
  bytes[90] = 8;
  bytes[100] = 9;
  EXPECT_EQ(CutAllByReference("ram:window=64,max=300", bytes).front(), 100u);
  bytes[100] = 0;
  EXPECT_EQ(CutAllByReference("ram:window=64,max=200", bytes).front(), 200u);
}

TEST(Rules, MaxpNeedsMoreThanAllAfterAndAtLeastAllBefore) {
  std::vector<std::uint8_t> bytes = Zeros(400);
  bytes[30] = bytes[90] = 9;
  EXPECT_EQ(CutAllByReference("maxp:window=64,max=400", bytes).front(), 90u);
  // An equal byte within the window after it takes its place.
  bytes[120] = 9;
  EXPECT_EQ(CutAllByReference("maxp:window=64,max=400", bytes).front(), 120u);
}

TEST(Rules, SeqCdcAbsorbsEqualBytesAndCutsBeforeTheLastOne) {
  std::vector<std::uint8_t> bytes = Zeros(300);
  const std::vector<std::uint8_t> rise = {1, 1, 2, 2, 3};
  std::copy(rise.begin(), rise.end(), bytes.begin() + 100);
  const std::string profile = "length=3,trigger=50,skip=10,min=64,max=300";
  EXPECT_EQ(CutAllByReference("seqcdc:mode=increasing," + profile, bytes).front(), 104u);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(~byte);
  EXPECT_EQ(CutAllByReference("seqcdc:mode=decreasing," + profile, bytes).front(), 104u);
}

TEST(Rules, SeqCdcSkips) {
  std::vector<std::uint8_t> bytes = Zeros(300);
  // A fall at 71 and one at 81 trigger a skip of 100 bytes, over the rise that ends at 103.
  bytes[70] = bytes[80] = 5;
  bytes[102] = 1;
  bytes[103] = 2;
  bytes[200] = 1;
  bytes[201] = 2;
  const std::string sizes = ",min=64,max=300";
  EXPECT_EQ(CutAllByReference("seqcdc:mode=increasing,length=2,trigger=2,skip=100" + sizes, bytes)
                .front(),
            201u);
  EXPECT_EQ(CutAllByReference("seqcdc:mode=increasing,length=2,trigger=3,skip=100" + sizes, bytes)
                .front(),
            103u);
}

TEST(Rules, MinCdcTakesTheFirstOfEqualsAndMayReachMax) {
  EXPECT_EQ(CutAllByReference("mincdc:min=64,max=200", Zeros(300)).front(), 64u);
  // The hash is zero for this word alone.
  std::uint32_t word = 0;
  while (MinCdcHash(word) != 0) ++word;
  std::vector<std::uint8_t> bytes = Zeros(300);
  for (int index = 0; index < 4; ++index) {
    bytes[196 + static_cast<std::size_t>(index)] = static_cast<std::uint8_t>(word >> (8 * index));
  }
  EXPECT_EQ(CutAllByReference("mincdc:min=64,max=200", bytes).front(), 200u);
  EXPECT_EQ(CutAllByReference("mincdc:min=64,max=199", bytes).front(), 64u);
}

}  // namespace
}  // namespace kerf
