#include "client/cpp/local_cutter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::client {
namespace {

struct Cut {
  Digest digest;
  std::uint32_t length_bytes = 0;
  friend bool operator==(const Cut&, const Cut&) = default;
};

std::vector<Cut> WholeCuts(const Profile& profile, DigestAlgorithm algorithm,
                           std::span<const std::uint8_t> bytes) {
  const auto chunker = MakeChunker(profile);
  std::vector<Cut> cuts;
  while (!bytes.empty()) {
    const std::size_t length = chunker->NextCut(bytes);
    cuts.push_back(
        {Fingerprint(algorithm, bytes.first(length)), static_cast<std::uint32_t>(length)});
    bytes = bytes.subspan(length);
  }
  return cuts;
}

class LocalCutterTest : public testing::Test {
 protected:
  // Pieces of all sizes, of a file after another one that was given up.
  std::vector<Cut> CutsOf(LocalCutter& cutter, std::span<const std::uint8_t> bytes) {
    std::vector<Cut> cuts;
    const auto take = [&](std::span<const LocalCutter::Chunk> chunks) {
      for (const LocalCutter::Chunk& chunk : chunks) {
        cuts.push_back({chunk.digest, chunk.length_bytes});
      }
    };
    if (random_.OneIn(2)) cutter.Add(bytes.first(random_.Below(bytes.size() + 1)), take);
    cutter.Begin();
    cuts.clear();
    const std::size_t sizes[] = {1, 100, 5'000, 100'000, 1'000'000};
    const std::size_t max_bytes = sizes[random_.Below(5)];
    // One that is not of the heap's is gone when the call is over.
    for (int piece_count = 0; !bytes.empty() && piece_count < kMaxPieces; ++piece_count) {
      const std::size_t count = 1 + random_.Below(std::min(max_bytes, bytes.size()));
      std::vector<std::uint8_t> piece(bytes.begin(),
                                      bytes.begin() + static_cast<std::ptrdiff_t>(count));
      cutter.Add(piece, take);
      std::fill(piece.begin(), piece.end(), std::uint8_t{0xEE});
      bytes = bytes.subspan(count);
    }
    cutter.Add(bytes, take);
    cutter.End(take);
    return cuts;
  }

  // Runs and random bytes: where cuts lie close together a cutter begins to look ahead.
  std::vector<std::uint8_t> MixedBytes() {
    std::vector<std::uint8_t> bytes;
    for (std::uint64_t part_count = 1 + random_.Below(6); part_count > 0; --part_count) {
      std::vector<std::uint8_t> part(1 + random_.Below(30'000),
                                     static_cast<std::uint8_t>(random_.Next()));
      if (random_.OneIn(2)) random_.Fill(part);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    return bytes;
  }

  // The rest comes as one.
  static constexpr int kMaxPieces = 20'000;
  static constexpr std::size_t kMaxFileBytes = std::size_t{3} << 20;

  const std::uint64_t seed_ = TestSeed();
  Random random_{seed_};
};

TEST_F(LocalCutterTest, CutsAsOneWhoHasTheWholeFile) {
  for (const NamedProfile& named : NamedProfiles()) {
    SCOPED_TRACE(Cat(named.name, ", seed ", seed_));
    const Profile profile = *ParseProfile(named.name);
    const auto algorithm = static_cast<DigestAlgorithm>(1 + random_.Below(3));
    LocalCutter cutter(profile, algorithm);
    for (int round = 0; round < 8; ++round) {
      std::vector<std::uint8_t> bytes(
          random_.Below(std::min<std::size_t>(10ul * profile.max_bytes, kMaxFileBytes)));
      if (random_.OneIn(4)) bytes.resize(random_.Below(100));
      switch (random_.Below(3)) {
        case 0:
          random_.Fill(bytes);
          break;
        case 1:
          // Of few values, which give many candidates, or none.
          for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random_.Below(3));
          break;
        default:
          break;
      }
      ASSERT_EQ(CutsOf(cutter, bytes), WholeCuts(profile, algorithm, bytes)) << round;
    }
  }
}

// Of profiles by which one looks ahead. A file that was given up is not one of the next one's
// bytes, nor is one that has ended.
TEST_F(LocalCutterTest, NothingIsRememberedOfTheFileBefore) {
  for (const char* const text :
       {"mincdc:min=64,max=9000", "maxcdc:min=64,max=9000", "tttd:min=64,avg=256,max=9000",
        "rabin:min=64,avg=256,max=9000", "crc:min=256,bits=6,max=9000"}) {
    SCOPED_TRACE(Cat(text, ", seed ", seed_));
    const Profile profile = *ParseProfile(text);
    LocalCutter cutter(profile, DigestAlgorithm::kBlake3);
    for (int round = 0; round < 30; ++round) {
      if (random_.OneIn(2)) {
        cutter.Begin();
        cutter.Add(MixedBytes(), [](std::span<const LocalCutter::Chunk>) {});
      }
      const std::vector<std::uint8_t> bytes = MixedBytes();
      ASSERT_EQ(CutsOf(cutter, bytes), WholeCuts(profile, DigestAlgorithm::kBlake3, bytes))
          << round;
    }
  }
}

}  // namespace
}  // namespace kerf::client
