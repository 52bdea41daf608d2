#include "kernels/reference/fastcdc2020.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/testing/chunker_conformance.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

TEST(FastCdc2020, GearTableIsItsFormula) {
  for (std::size_t value = 0; value < 256; ++value) {
    const std::vector<std::uint8_t> input(64, static_cast<std::uint8_t>(value));
    std::uint8_t digest[EVP_MAX_MD_SIZE];
    ASSERT_EQ(EVP_Digest(input.data(), input.size(), digest, nullptr, EVP_md5(), nullptr), 1);
    std::uint64_t expected = 0;
    for (int index = 0; index < 8; ++index) expected = expected << 8 | digest[index];
    EXPECT_EQ(FastCdc2020Gear()[value], expected) << value;
  }
}

TEST(FastCdc2020, MasksHaveTheirBits) {
  for (std::uint32_t bits = kFastCdc2020MinMaskBits; bits <= kFastCdc2020MaxMaskBits; ++bits) {
    EXPECT_EQ(std::popcount(FastCdc2020Mask(bits)), static_cast<int>(bits));
    // Hashes see 48 bytes at most: less than kHashWindowBytes.
    EXPECT_LT(FastCdc2020Mask(bits), std::uint64_t{1} << 48);
  }
}

// A run would be cut into chunks of the minimum size.
TEST(FastCdc2020, NoConstantRunSatisfiesAMask) {
  for (std::uint32_t bits = kFastCdc2020MinMaskBits; bits <= kFastCdc2020MaxMaskBits; ++bits) {
    for (const std::uint64_t value : FastCdc2020Gear()) {
      // The sum of value * 2^k for k = 0..63.
      const std::uint64_t hash = value * UINT64_MAX;
      EXPECT_NE(hash & FastCdc2020Mask(bits), 0u) << bits;
    }
  }
}

struct Golden {
  const char* profile;
  std::size_t chunk_count;
  std::vector<std::uint64_t> first_ends;
  const char* digest;
};

// Made with the Rust crate fastcdc 5.0.0 (module v2020) on the first 4 MiB of aes-ctr.
const Golden kGoldens[] = {
    {"fastcdc2020:min=2048,avg=8192,max=32768,level=1",
     443,
     {8675, 17894, 27524, 39703},
     "0e0c591cb462cb2d761c1a84a1c5af55"},
    {"fastcdc2020:min=1024,avg=4096,max=16384,level=1",
     863,
     {2918, 8675, 13327, 17894},
     "ba508fe200cb3185d8b6ec33de60d170"},
    {"fastcdc2020:min=4096,avg=16384,max=65536,level=1",
     213,
     {18426, 39783, 63013, 82532},
     "ccf643b2f38de6396555e8561db457c1"},
    {"fastcdc2020:min=8192,avg=32768,max=131072,level=1",
     98,
     {48364, 64453, 105071, 128927},
     "ca1b63bb730a04f5457a8704c285031c"},
    {"fastcdc2020:min=16384,avg=65536,max=262144,level=1",
     51,
     {64453, 128927, 170444, 242063},
     "f708b5aee8f826ccce9d649427126c09"},
    {"fastcdc2020:min=512,avg=2048,max=16384,level=1",
     1702,
     {2715, 4862, 8338, 10583},
     "11f5633201c2e436a09c77121384bdaf"},
    {"fastcdc2020:min=64,avg=1024,max=8192,level=0",
     3967,
     {1514, 2715, 2918, 3521},
     "e2073523a7e3db4150c87738242ccde5"},
    {"fastcdc2020:min=64,avg=4096,max=65534,level=2",
     943,
     {4862, 8986, 13327, 17894},
     "31ef9d4e331372272c242519a7f7a55b"},
    {"fastcdc2020:min=256,avg=8192,max=65536,level=3",
     483,
     {8338, 16547, 24760, 33149},
     "3a623c19b2d517192acd2ab9274e34b3"},
    {"fastcdc2020:min=4096,avg=65536,max=1048576,level=3",
     60,
     {72845, 138597, 179994, 253738},
     "0a37a38ac1a60fe1501e12e639238cef"},
    {"fastcdc2020:min=1024,avg=131072,max=4194304,level=1",
     28,
     {128927, 170444, 179994, 391192},
     "9db8f4399985fc312bc881cdd5ae5a23"},
    {"fastcdc2020:min=4096,avg=262144,max=4194304,level=3",
     15,
     {301364, 665068, 948368, 1222090},
     "8c6ba4992c9b9fabffdf526066a00f8f"},
    {"fastcdc2020:min=4096,avg=524288,max=4194304,level=0",
     8,
     {179994, 1380384, 1867167, 2229867},
     "2c9b4744588d9ac75b3e52f7ca38b73f"},
    {"fastcdc2020:min=65536,avg=1048576,max=4194304,level=3",
     4,
     {1147293, 2229867, 3480951, 4194304},
     "ff49e22a9d78cf88681a9ff48c63ce83"},
};

TEST(FastCdc2020, CutsAreThoseOfTheField) {
  const std::vector<std::uint8_t> bytes = MakeInput("aes-ctr", 0, 4 << 20);
  for (const Golden& golden : kGoldens) {
    const Profile profile = *ParseProfile(golden.profile);
    std::vector<std::uint64_t> ends;
    std::size_t start = 0;
    while (start < bytes.size()) {
      start += FastCdc2020NextCut(profile, std::span(bytes).subspan(start));
      ends.push_back(start);
    }
    EXPECT_EQ(ends.size(), golden.chunk_count) << golden.profile;
    ASSERT_GE(ends.size(), golden.first_ends.size());
    EXPECT_TRUE(std::equal(golden.first_ends.begin(), golden.first_ends.end(), ends.begin()));
    EXPECT_EQ(CutsDigest(ends), golden.digest) << golden.profile;
  }
}

TEST(FastCdc2020, ShortAndOddInputs) {
  const Profile profile = *ParseProfile("fastcdc2020:min=64,avg=1024,max=2048,level=0");
  const std::vector<std::uint8_t> bytes = MakeInput("aes-ctr", 0, 4096);
  for (std::size_t size = 1; size <= 64; ++size) {
    EXPECT_EQ(FastCdc2020NextCut(profile, std::span(bytes).first(size)), size);
  }
  // Where the last byte of an odd size alone would be a cut, it is none: the chunk goes to the end.
  const std::size_t cut = FastCdc2020NextCut(profile, bytes);
  ASSERT_LT(cut, 2048u);
  EXPECT_EQ(FastCdc2020NextCut(profile, std::span(bytes).first(cut + 2)), cut);
  EXPECT_EQ(FastCdc2020NextCut(profile, std::span(bytes).first(cut + 1)),
            cut % 2 == 0 ? cut + 1 : cut);
}

}  // namespace
}  // namespace kerf
