// The hash kernels of every backend against the specification, where vectors begin and end.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/profile.h"
#include "kernels/reference/reference.h"
#include "kernels/registry.h"
#include "kernels/testing/guarded_bytes.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kWidestVectorBytes = 64;

class HashChunkers : public ::testing::TestWithParam<const char*> {
 protected:
  // Every backend that implements the profile gives the reference's cut, with nothing to read in
  // front of the bytes and with nothing behind them.
  void Check(Bytes bytes) {
    const std::size_t wanted = ReferenceNextCut(profile_, bytes);
    for (const Named& backend : backends_) {
      ASSERT_EQ(backend.chunker->NextCut(guarded_.CopyToEnd(bytes)), wanted)
          << backend.name << ", " << bytes.size() << " bytes";
      ASSERT_EQ(backend.chunker->NextCut(guarded_.CopyToStart(bytes)), wanted)
          << backend.name << ", " << bytes.size() << " bytes";
    }
  }

  struct Named {
    std::string_view name;
    std::unique_ptr<Chunker> chunker;
  };
  std::vector<Named> MakeAll() const {
    std::vector<Named> made;
    for (const std::string_view name : BackendsFor(profile_)) {
      made.push_back({name, *MakeChunkerOf(name, profile_)});
    }
    return made;
  }

  static constexpr std::size_t kCapacityBytes = (1 << 16) + 4096;
  const Profile profile_ = *ParseProfile(GetParam());
  const std::vector<Named> backends_ = MakeAll();
  GuardedBytes guarded_{kCapacityBytes};
};

TEST_P(HashChunkers, EveryLengthAroundTheLimits) {
  const std::vector<std::uint8_t> noise = MakeInput("random", TestSeed(), kCapacityBytes);
  // Without a cut of gear or fastcdc, so that the end is met.
  const std::vector<std::uint8_t> run = MakeInput("constant", 7, kCapacityBytes);
  for (const std::vector<std::uint8_t>& bytes : {noise, run}) {
    for (std::size_t length = 1; length <= 4 * kWidestVectorBytes; ++length) {
      ASSERT_NO_FATAL_FAILURE(Check(Bytes(bytes).first(length)));
    }
    for (const std::size_t limit : {profile_.min_bytes, profile_.avg_bytes, profile_.max_bytes}) {
      for (std::size_t length = limit < 70 ? 1 : limit - 69; length < limit + 70; ++length) {
        ASSERT_NO_FATAL_FAILURE(Check(Bytes(bytes).first(length)));
      }
    }
  }
}

TEST_P(HashChunkers, EveryAlignment) {
  const std::vector<std::uint8_t> bytes = MakeInput("random", TestSeed() + 1, kCapacityBytes);
  for (std::size_t start = 0; start < 2 * kWidestVectorBytes; ++start) {
    const Bytes rest = Bytes(bytes).subspan(start);
    const std::size_t wanted = ReferenceNextCut(profile_, rest);
    for (const Named& backend : backends_) {
      ASSERT_EQ(backend.chunker->NextCut(rest), wanted) << backend.name << " at " << start;
    }
  }
}

// The bytes end where the cut is and just behind it: fastcdc2020 does not look at the last byte of
// an odd size.
TEST_P(HashChunkers, EndsAtACut) {
  const std::vector<std::uint8_t> bytes = MakeInput("random", TestSeed() + 2, kCapacityBytes);
  for (std::size_t start = 0; start < 16; ++start) {
    const Bytes rest = Bytes(bytes).subspan(start * 700);
    const std::size_t cut = ReferenceNextCut(profile_, rest);
    for (std::size_t length = cut; length <= std::min(cut + 2, rest.size()); ++length) {
      ASSERT_NO_FATAL_FAILURE(Check(rest.first(length)));
    }
  }
}

// Random lengths of many kinds of data, so that cuts fall on every place of a vector.
TEST_P(HashChunkers, ManyInputs) {
  Random random(TestSeed());
  std::vector<InputName> inputs = NastyInputs();
  for (std::uint64_t period = 1; period <= 70; ++period) inputs.push_back({"period", period});
  for (const InputName& input : inputs) {
    SCOPED_TRACE(Cat(input.kind, " ", input.seed));
    const std::vector<std::uint8_t> bytes = MakeInput(input.kind, input.seed, kCapacityBytes);
    for (int round = 0; round < 12; ++round) {
      const std::size_t start = random.Below(bytes.size() / 2);
      const std::size_t most = std::min<std::size_t>(bytes.size() - start, profile_.max_bytes + 99);
      ASSERT_NO_FATAL_FAILURE(Check(Bytes(bytes).subspan(start, random.Between(1, most))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, HashChunkers,
    ::testing::Values(
        "gear-8k", "gear:min=64,avg=256,max=256", "gear:min=64,avg=256,max=257",
        "gear:min=65,avg=256,max=999", "gear:min=127,avg=512,max=2000",
        "gear:min=100,avg=65536,max=65536", "maxcdc-8k", "maxcdc:min=64,max=64",
        "maxcdc:min=64,max=65", "maxcdc:min=65,max=200", "maxcdc:min=95,max=96",
        "maxcdc:min=97,max=700", "maxcdc:min=300,max=1323", "fastcdc-8k",
        "fastcdc:min=64,avg=256,max=256,level=0", "fastcdc:min=65,avg=256,max=257,level=3",
        "fastcdc:min=200,avg=512,max=2001,level=1", "fastcdc:min=512,avg=512,max=999,level=2",
        "fastcdc2020-8k", "fastcdc2020:min=64,avg=1024,max=1024,level=0",
        "fastcdc2020:min=66,avg=1024,max=4094,level=0",
        "fastcdc2020:min=1000,avg=2048,max=2100,level=1",
        "fastcdc2020:min=64,avg=8192,max=50000,level=3",
        "fastcdc2020:min=1024,avg=1024,max=60002,level=0", "crc-8k", "crc:min=256,bits=6,max=256",
        "crc:min=257,bits=16,max=65536", "crc:min=1000,bits=22,max=20000", "rabin-8k",
        "rabin:min=64,avg=256,max=256", "rabin:min=65,avg=1024,max=4097",
        "rabin:min=100,avg=65536,max=65536", "tttd-8k", "tttd:min=64,avg=256,max=300",
        "tttd:min=99,avg=2048,max=5000", "tttd:min=100,avg=65536,max=65536"));

}  // namespace
}  // namespace kerf
