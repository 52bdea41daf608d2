// Every backend against the reference, on inputs and at lengths that have hurt vector code: short
// ones, ends inside a block, ties, and pages behind and in front that cannot be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
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

constexpr std::size_t kInputBytes = 16 << 10;
constexpr std::uint32_t kMaxTestMaxBytes = 4000;

struct NamedChunker {
  std::string_view backend;
  std::unique_ptr<Chunker> chunker;
};

std::vector<NamedChunker> ChunkersOf(const Profile& profile) {
  std::vector<NamedChunker> chunkers;
  for (const std::string_view name : BackendsFor(profile)) {
    if (name != "plain") chunkers.push_back({name, *MakeChunkerOf(name, profile)});
  }
  return chunkers;
}

// `few` values from `low` on: many ties.
std::vector<std::uint8_t> FewValues(Random& random, std::uint64_t few, std::uint64_t low) {
  std::vector<std::uint8_t> bytes(kInputBytes);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(low + random.Below(few));
  return bytes;
}

// Runs of one value, of every length about those of vectors; some of the extremes 0 and 255.
std::vector<std::uint8_t> Plateaus(Random& random, std::uint64_t longest) {
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < kInputBytes) {
    const std::uint64_t choice = random.Below(6);
    const std::uint64_t value = choice == 0 ? 0 : choice == 1 ? 255 : random.Below(256);
    bytes.resize(std::min<std::size_t>(kInputBytes, bytes.size() + random.Between(1, longest)),
                 static_cast<std::uint8_t>(value));
  }
  return bytes;
}

// Low bytes and, seldom, a higher one: windows run out, and extrema are far apart.
std::vector<std::uint8_t> Peaks(Random& random, std::uint64_t distance, bool inverted) {
  std::vector<std::uint8_t> bytes(kInputBytes);
  for (std::uint8_t& byte : bytes) {
    const std::uint64_t value = random.OneIn(distance) ? 100 + random.Below(156) : random.Below(3);
    byte = static_cast<std::uint8_t>(inverted ? 255 - value : value);
  }
  return bytes;
}

std::vector<std::uint8_t> Falling(std::size_t run) {
  std::vector<std::uint8_t> bytes(kInputBytes);
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    bytes[index] = static_cast<std::uint8_t>(255 - index / run % 256);
  }
  return bytes;
}

struct NamedBytes {
  std::string name;
  std::vector<std::uint8_t> bytes;
};

std::vector<NamedBytes> Inputs() {
  Random random(TestSeed());
  std::vector<NamedBytes> inputs;
  for (const InputName& input : NastyInputs()) {
    inputs.push_back(
        {Cat(input.kind, " ", input.seed), MakeInput(input.kind, input.seed, kInputBytes)});
  }
  for (const std::uint64_t few : {2, 3, 4, 16}) {
    for (const std::uint64_t low : {std::uint64_t{0}, std::uint64_t{100}, 256 - few}) {
      inputs.push_back({Cat(few, " values from ", low), FewValues(random, few, low)});
    }
  }
  for (const std::uint64_t longest : {3, 70, 300, 2000}) {
    inputs.push_back({Cat("plateaus up to ", longest), Plateaus(random, longest)});
  }
  for (const std::uint64_t distance : {30, 500, 3000}) {
    inputs.push_back({Cat("peaks ", distance), Peaks(random, distance, false)});
    inputs.push_back({Cat("holes ", distance), Peaks(random, distance, true)});
  }
  for (const std::size_t run : {1, 2, 7, 64, 100}) {
    inputs.push_back({Cat("falling by runs of ", run), Falling(run)});
  }
  inputs.push_back({"random again", std::vector<std::uint8_t>(kInputBytes)});
  random.Fill(inputs.back().bytes);
  return inputs;
}

const std::vector<NamedBytes>& AllInputs() {
  static const std::vector<NamedBytes> inputs = Inputs();
  return inputs;
}

// All up to four vectors, and those about where the rule changes its mind.
std::vector<std::size_t> Lengths(const Profile& profile) {
  std::set<std::size_t> lengths;
  for (std::size_t length = 1; length <= 4 * 64 + 1; ++length) lengths.insert(length);
  const std::size_t window = profile.window_bytes;
  for (const std::size_t edge :
       {window, 2 * window, 3 * window, std::size_t{profile.min_bytes}, profile.min_bytes + 512ul,
        std::size_t{profile.max_bytes}, profile.max_bytes - 64ul}) {
    for (std::size_t length = edge - std::min<std::size_t>(edge, 4); length <= edge + 68;
         ++length) {
      if (length > 0 && length <= 2 * std::size_t{profile.max_bytes}) lengths.insert(length);
    }
  }
  return {lengths.begin(), lengths.end()};
}

void CheckCut(const std::vector<NamedChunker>& chunkers, const Profile& profile, Bytes bytes) {
  const std::size_t expected = ReferenceNextCut(profile, bytes);
  for (const auto& [backend, chunker] : chunkers) {
    ASSERT_EQ(chunker->NextCut(bytes), expected)
        << backend << ", " << FormatProfile(profile) << ", " << bytes.size() << " bytes";
  }
}

class ByteChunkers : public ::testing::TestWithParam<const char*> {};

TEST_P(ByteChunkers, EqualTheReferenceAtEveryLengthBetweenGuards) {
  const Profile profile = *ParseProfile(GetParam());
  const std::vector<NamedChunker> chunkers = ChunkersOf(profile);
  const std::vector<std::size_t> lengths = Lengths(profile);
  GuardedBytes guarded(lengths.back());
  Random random(TestSeed());
  for (const NamedBytes& input : AllInputs()) {
    SCOPED_TRACE(input.name);
    for (const std::size_t length : lengths) {
      const std::size_t start = random.Below(input.bytes.size() - length + 1);
      const Bytes bytes = Bytes(input.bytes).subspan(start, length);
      ASSERT_NO_FATAL_FAILURE(CheckCut(chunkers, profile, guarded.CopyToEnd(bytes)));
    }
    const Bytes whole = Bytes(input.bytes).first(lengths.back());
    ASSERT_NO_FATAL_FAILURE(CheckCut(chunkers, profile, guarded.CopyToStart(whole)));
  }
}

TEST_P(ByteChunkers, EqualTheReferenceFromEveryStart) {
  const Profile profile = *ParseProfile(GetParam());
  const std::vector<NamedChunker> chunkers = ChunkersOf(profile);
  GuardedBytes guarded(kInputBytes);
  for (const NamedBytes& input : AllInputs()) {
    SCOPED_TRACE(input.name);
    const Bytes bytes = guarded.CopyToEnd(input.bytes);
    for (std::size_t start = 0; start < 128; ++start) {
      ASSERT_NO_FATAL_FAILURE(CheckCut(chunkers, profile, bytes.subspan(start)));
    }
    for (std::size_t start = 0; start < bytes.size();) {
      const Bytes rest = bytes.subspan(start);
      ASSERT_NO_FATAL_FAILURE(CheckCut(chunkers, profile, rest));
      start += ReferenceNextCut(profile, rest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, ByteChunkers,
    ::testing::Values("ae-max:window=64,max=65", "ae-max:window=64,max=1000",
                      "ae-max:window=257,max=2000", "ae-min:window=64,max=66",
                      "ae-min:window=100,max=1000", "ae-min:window=1000,max=1001",
                      "maxp:window=64,max=129", "maxp-local:window=64,max=129",
                      "maxp-local:window=300,max=2500", "maxp:window=65,max=1000",
                      "maxp:window=300,max=2500", "ram:window=64,max=65", "ram:window=100,max=400",
                      "ram:window=511,max=3000",
                      "seqcdc:mode=increasing,length=5,trigger=50,skip=256,min=64,max=1000",
                      "seqcdc:mode=decreasing,length=3,trigger=7,skip=1,min=65,max=1500",
                      "seqcdc:mode=increasing,length=1,trigger=1,skip=0,min=64,max=64",
                      "seqcdc:mode=increasing,length=70,trigger=1000,skip=63,min=100,max=2000",
                      "seqcdc:mode=decreasing,length=2,trigger=64,skip=100,min=64,max=300",
                      "mincdc:min=64,max=64", "mincdc:min=64,max=127", "mincdc:min=65,max=1200"));

// A valid profile of the byte-comparing rules, small sizes first.
std::string RandomProfile(Random& random) {
  const auto size = [&random](std::uint64_t low, std::uint64_t high) {
    return random.OneIn(2) ? random.Between(low, std::min(high, low + 70))
                           : random.Between(low, high);
  };
  const std::uint64_t window = size(64, 1200);
  switch (random.Below(7)) {
    case 0:
      return Cat("ae-max:window=", window, ",max=", size(window + 1, kMaxTestMaxBytes));
    case 1:
      return Cat("ae-min:window=", window, ",max=", size(window + 1, kMaxTestMaxBytes));
    case 2:
      return Cat("maxp:window=", window, ",max=", size(2 * window + 1, kMaxTestMaxBytes));
    case 6:
      return Cat("maxp-local:window=", window, ",max=", size(2 * window + 1, kMaxTestMaxBytes));
    case 3:
      return Cat("ram:window=", window, ",max=", size(window + 1, kMaxTestMaxBytes));
    case 4:
      return Cat("seqcdc:mode=", random.OneIn(2) ? "increasing" : "decreasing",
                 ",length=", random.OneIn(8) ? random.Between(1, 255) : random.Between(1, 8),
                 ",trigger=", random.OneIn(4) ? random.Between(1, 3) : random.Between(1, 200),
                 ",skip=", random.Between(0, 400), ",min=", window,
                 ",max=", size(window, kMaxTestMaxBytes));
    default:
      return Cat("mincdc:min=", window, ",max=", size(window, kMaxTestMaxBytes));
  }
}

TEST(ByteChunkers, EqualTheReferenceWithRandomParameters) {
  constexpr int kRoundCount = 3000;
  GuardedBytes guarded(kInputBytes);
  Random random(TestSeed());
  for (int round = 0; round < kRoundCount; ++round) {
    const Profile profile = *ParseProfile(RandomProfile(random));
    const std::vector<NamedChunker> chunkers = ChunkersOf(profile);
    const NamedBytes& input = AllInputs()[random.Below(AllInputs().size())];
    SCOPED_TRACE(input.name);
    const std::size_t length = random.Between(1, input.bytes.size());
    const std::size_t start = random.Below(input.bytes.size() - length + 1);
    Bytes bytes = guarded.CopyToEnd(Bytes(input.bytes).subspan(start, length));
    while (!bytes.empty()) {
      ASSERT_NO_FATAL_FAILURE(CheckCut(chunkers, profile, bytes));
      bytes = bytes.subspan(ReferenceNextCut(profile, bytes));
    }
  }
}

}  // namespace
}  // namespace kerf
