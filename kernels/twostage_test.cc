// Marks and cuts of two-stage chunking against the sequential rules, for every marker, number of
// threads and size of segments.
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/parallel_cut.h"
#include "kernels/reference/reference.h"
#include "kernels/registry.h"
#include "kernels/testing/guarded_bytes.h"
#include "kernels/testing/inputs.h"
#include "kernels/twostage/mark.h"
#include "kernels/vector/vector_backends.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;
using Ends = std::vector<std::uint64_t>;

struct Named {
  std::string name;
  std::unique_ptr<Marker> marker;
};

std::vector<Named> MakeMarkers(const Profile& profile) {
  std::vector<Named> markers;
  markers.push_back({"scalar", MakeScalarMarker(profile)});
  for (const std::string_view backend : BackendsFor(profile)) {
    if (auto marker = MakeVectorMarker(backend, profile)) {
      markers.push_back({std::string(backend), std::move(marker)});
    }
  }
  return markers;
}

Ends CutByReference(const Profile& profile, Bytes bytes) {
  Ends ends;
  for (std::size_t start = 0; start < bytes.size();) {
    start += ReferenceNextCut(profile, bytes.subspan(start));
    ends.push_back(start);
  }
  return ends;
}

// The rule itself, for tables of one's own.
Ends CutByRule(const GearRule& rule, Bytes bytes) {
  Ends ends;
  for (std::size_t start = 0; start < bytes.size();) {
    const std::size_t size = std::min(bytes.size() - start, rule.max_bytes);
    std::size_t index = std::min(size, rule.min_bytes);
    std::uint32_t hash = 0;
    for (; index < size; ++index) {
      hash = (hash << 1) + rule.table[bytes[start + index]];
      if ((hash & (index < rule.avg_bytes ? rule.strict_mask : rule.loose_mask)) == 0) break;
    }
    start += index;
    ends.push_back(start);
  }
  return ends;
}

// Sizes that put segment borders everywhere: a word, few words, more than all.
constexpr std::size_t kSegmentSizes[] = {64, 65, 192, 1000, 4096, 70000, 1 << 20};

class TwoStage : public ::testing::TestWithParam<const char*> {
 protected:
  const Profile profile_ = *ParseProfile(GetParam());
  const TwoStageRule rule_ = *TwoStageRuleOf(profile_);
  const std::vector<Named> markers_ = MakeMarkers(profile_);
};

TEST_P(TwoStage, CutsAreTheReferencesForAnyThreadsAndSegments) {
  Random random(TestSeed());
  for (const InputName& input : NastyInputs()) {
    const std::size_t size = random.Between(90000, 200000);
    const std::vector<std::uint8_t> bytes = MakeInput(input.kind, input.seed, size);
    const Ends wanted = CutByReference(profile_, bytes);
    for (const Named& named : markers_) {
      const ParallelCutOptions options{random.Between(1, 8),
                                       kSegmentSizes[random.Below(std::size(kSegmentSizes))]};
      SCOPED_TRACE(Cat(input.kind, " ", input.seed, ", ", size, " bytes, ", named.name, ", ",
                       options.thread_count, " threads, segments of ", options.segment_bytes));
      ASSERT_EQ(CutInParallel(rule_, *named.marker, bytes, options), wanted);
    }
    ASSERT_EQ(CutInParallel(profile_, bytes, {2}), wanted);
  }
}

TEST_P(TwoStage, EveryThreadCountWithEverySegmentSize) {
  const std::vector<std::uint8_t> bytes = MakeInput("random", TestSeed(), 100001);
  const Ends wanted = CutByReference(profile_, bytes);
  const std::unique_ptr<Marker> marker = MakeMarker(profile_);
  for (std::size_t threads = 1; threads <= 8; ++threads) {
    for (const std::size_t segment_bytes : kSegmentSizes) {
      ASSERT_EQ(CutInParallel(rule_, *marker, bytes, {threads, segment_bytes}), wanted)
          << threads << " threads, segments of " << segment_bytes;
    }
  }
}

TEST_P(TwoStage, EveryLengthUpToFourVectors) {
  const std::vector<std::uint8_t> bytes = MakeInput("random", TestSeed(), 300);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Bytes part = Bytes(bytes).first(size);
    for (const Named& named : markers_) {
      ASSERT_EQ(CutInParallel(rule_, *named.marker, part, {1, 64}), CutByReference(profile_, part))
          << named.name << ", " << size << " bytes";
    }
  }
}

// All markers agree, whatever range is asked for, and read nothing outside the stream.
TEST_P(TwoStage, MarkersAgree) {
  // Some blocks of the widest vectors.
  constexpr std::size_t kWords = 300;
  Random random(TestSeed());
  GuardedBytes guarded(kWords * kWordPositions);
  for (int round = 0; round < 120; ++round) {
    const std::size_t size = random.Between(1, kWords * kWordPositions);
    std::vector<std::uint8_t> bytes = MakeInput("random", random.Next(), size);
    // Few values, so that words with several marks come up.
    for (std::uint8_t& byte : bytes) byte = round % 3 == 0 ? byte & 1 : byte;
    const std::size_t from = random.Below(size) / kWordPositions * kWordPositions;
    std::size_t to = random.Between(from, size) / kWordPositions * kWordPositions;
    if (to <= from) to = size;
    std::vector<std::uint64_t> first_loose;
    std::vector<std::uint64_t> first_strict;
    for (const Named& named : markers_) {
      std::vector<std::uint64_t> loose(kWords, 42);
      std::vector<std::uint64_t> strict(kWords, 43);
      named.marker->Mark(guarded.CopyToEnd(bytes), from, to, {loose, strict});
      std::vector<std::uint64_t> again(kWords, 42);
      named.marker->Mark(guarded.CopyToStart(bytes), from, to, {again, strict});
      ASSERT_EQ(loose, again) << named.name;
      if (first_loose.empty()) {
        first_loose = loose;
        first_strict = strict;
      }
      ASSERT_EQ(loose, first_loose) << named.name << " [" << from << ", " << to << ")";
      ASSERT_EQ(strict, first_strict) << named.name << " [" << from << ", " << to << ")";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, TwoStage,
    ::testing::Values(
        "gear-8k", "gear:min=64,avg=256,max=256", "gear:min=65,avg=256,max=999",
        "gear:min=100,avg=65536,max=70000", "fastcdc-8k", "fastcdc:min=64,avg=256,max=256,level=0",
        "fastcdc:min=64,avg=256,max=300,level=3", "fastcdc:min=511,avg=512,max=4000,level=1",
        "crc-8k", "crc:min=256,bits=6,max=256", "crc:min=300,bits=8,max=1001", "rabin-8k",
        "rabin:min=64,avg=256,max=256", "rabin:min=65,avg=512,max=999", "maxp-local-8k",
        "maxp-local:window=64,max=129", "maxp-local:window=100,max=3000"));

// Tables and masks under which cuts are dense, so that most of them fall where the hash has not
// seen a whole window.
TEST(TwoStageToys, DenseCuts) {
  Random random(TestSeed());
  for (int round = 0; round < 400; ++round) {
    GearRule rule;
    for (std::uint32_t& value : rule.table) value = static_cast<std::uint32_t>(random.Next());
    if (random.OneIn(4)) rule.table[0] = 0;
    do {
      rule.strict_mask = static_cast<std::uint32_t>(random.Next() & random.Next() & random.Next());
    } while (rule.strict_mask == 0);
    rule.loose_mask = rule.strict_mask & static_cast<std::uint32_t>(random.Next());
    rule.window_bytes = static_cast<std::size_t>(std::bit_width(rule.strict_mask));
    rule.min_bytes = random.Between(32, 70);
    rule.avg_bytes = rule.min_bytes + random.Below(100);
    rule.max_bytes = rule.avg_bytes + random.Below(100);
    std::vector<std::uint8_t> bytes = MakeInput("random", random.Next(), random.Between(0, 9000));
    if (random.OneIn(2)) {
      for (std::uint8_t& byte : bytes) byte &= 3;
    }
    const ParallelCutOptions options{random.Between(1, 4), random.Between(1, 700)};
    ASSERT_EQ(CutInParallel(rule, *MakeScalarMarker(rule), bytes, options), CutByRule(rule, bytes))
        << "round " << round;
  }
}

TEST(TwoStageOthers, AreCutByOneThread) {
  const std::vector<std::uint8_t> bytes = MakeInput("random", 1, 100000);
  for (const char* name : {"fastcdc2020-8k", "mincdc-8k", "maxcdc-8k", "ram-8k"}) {
    const Profile profile = *ParseProfile(name);
    EXPECT_EQ(CutInParallel(profile, bytes, {4}), CutByReference(profile, bytes)) << name;
    EXPECT_EQ(MakeMarker(profile), nullptr);
  }
}

}  // namespace
}  // namespace kerf
