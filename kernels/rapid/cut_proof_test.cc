#include "kernels/rapid/cut_proof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/rapid/testing/small_profiles.h"
#include "kernels/reference/reference.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Bytes of few or many values, so that extrema tie and runs and sequences come up.
Bytes RandomBytes(Random& random, std::size_t size_bytes) {
  Bytes bytes(size_bytes);
  random.Fill(bytes);
  const std::uint64_t values = random.OneIn(3) ? random.Between(1, 8) : 256;
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(byte % values * (256 / values) + 256 / values - 1);
  }
  return bytes;
}

// A chunk that the rule cut before max and before the end of the data, and bytes around it.
struct CutInside {
  Bytes bytes;
  std::size_t length = 0;
};

// At max = 2 window + 1 the one-pass form never looks at a candidate.
bool NeverCutsInside(const Profile& profile) {
  return profile.algorithm == Algorithm::kFixed ||
         (profile.algorithm == Algorithm::kMaxp &&
          profile.max_bytes == 2 * profile.window_bytes + 1);
}

// Empty if the rule cut none.
CutInside MakeCutInside(Random& random, const Profile& profile) {
  Bytes bytes = RandomBytes(random, random.Between(profile.min_bytes, 2 * profile.max_bytes + 9));
  const std::size_t length = ReferenceNextCut(profile, bytes);
  if (length == bytes.size() || length >= profile.max_bytes) return {};
  return {std::move(bytes), length};
}

class CutProofTest : public testing::TestWithParam<std::string_view> {
 protected:
  const Profile profile_ = *ParseProfile(GetParam());
  const std::unique_ptr<Chunker> base_ = MakeChunker(profile_);
  Random random_{TestSeed()};
};

TEST_P(CutProofTest, BytesFurtherBehindTheCutHaveNoSay) {
  for (int round = 0; round < 200; ++round) {
    CutInside cut = MakeCutInside(random_, profile_);
    const std::size_t settled = cut.length + BytesBehindCut(profile_);
    if (cut.length == 0 || settled + 1 >= cut.bytes.size()) continue;
    // Another end, more than one byte behind what has a say.
    const std::size_t size = random_.Between(settled + 2, 2 * std::size_t{profile_.max_bytes} + 99);
    cut.bytes.resize(size);
    random_.Fill(std::span(cut.bytes).subspan(settled));
    ASSERT_EQ(ReferenceNextCut(profile_, cut.bytes), cut.length);
  }
}

// The number is no larger than it must be: the last byte that may have a say has one.
TEST_P(CutProofTest, EveryByteThatIsSaidToHaveASayCanChangeTheCut) {
  if (CutDependsOnChunkAlone(profile_)) return;
  int inside = 0;
  for (int round = 0; round < 5000; ++round) {
    CutInside cut = MakeCutInside(random_, profile_);
    if (cut.length == 0) continue;
    ++inside;
    const std::size_t last =
        std::min<std::size_t>(cut.length + BytesBehindCut(profile_), profile_.max_bytes) - 1;
    if (last >= cut.bytes.size()) continue;
    for (int change = 0; change < 64; ++change) {
      cut.bytes[last] = static_cast<std::uint8_t>(random_.Next());
      if (ReferenceNextCut(profile_, cut.bytes) != cut.length) return;
    }
  }
  EXPECT_TRUE(NeverCutsInside(profile_) && inside == 0) << "no counterexample";
}

// ProvesCut on other bytes behind the same chunk, other places to end among them: where it says
// yes the rule cuts there, and where the rule does it mostly says yes.
TEST_P(CutProofTest, ProvesTheCutsOfTheRuleAndNoOthers) {
  int cuts = 0;
  int proven = 0;
  for (int round = 0; round < 2000; ++round) {
    CutInside cut = MakeCutInside(random_, profile_);
    if (cut.length == 0) continue;
    for (int change = 0; change < 4; ++change) {
      Bytes bytes = cut.bytes;
      bytes.resize(random_.Between(cut.length, 2 * std::size_t{profile_.max_bytes}));
      for (std::size_t index = cut.length; index < bytes.size(); ++index) {
        const bool is_kept = index < cut.bytes.size() && change != 0 && !random_.OneIn(40);
        if (!is_kept) bytes[index] = static_cast<std::uint8_t>(random_.Next());
      }
      const bool is_cut = ReferenceNextCut(profile_, bytes) == cut.length;
      const bool is_proven = ProvesCut(*base_, profile_, bytes, cut.length);
      ASSERT_TRUE(is_cut || !is_proven) << "length " << cut.length << " of " << bytes.size();
      if (is_cut && cut.length < bytes.size()) {
        ++cuts;
        proven += is_proven ? 1 : 0;
      }
    }
  }
  EXPECT_TRUE(cuts > 500 || NeverCutsInside(profile_)) << cuts;
  if (profile_.algorithm == Algorithm::kTttd || profile_.algorithm == Algorithm::kRam) {
    EXPECT_TRUE(proven > cuts / 100 && proven < cuts) << proven << " of " << cuts;
  } else {
    EXPECT_EQ(proven, cuts);
  }
}

// A chunk of max bytes is cut whatever follows.
TEST_P(CutProofTest, AChunkOfTheLargestSizeIsAlwaysCut) {
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes = RandomBytes(random_, profile_.max_bytes + random_.Below(3));
    if (ReferenceNextCut(profile_, bytes) != profile_.max_bytes) continue;
    bytes.resize(random_.Between(profile_.max_bytes, 2 * std::size_t{profile_.max_bytes}));
    random_.Fill(std::span(bytes).subspan(profile_.max_bytes));
    ASSERT_EQ(ReferenceNextCut(profile_, bytes), profile_.max_bytes);
    ASSERT_TRUE(ProvesCut(*base_, profile_, bytes, profile_.max_bytes));
  }
}

// Every cut of the rule passes the window test, but for those of tttd by its small divisor.
TEST_P(CutProofTest, CutsPassTheWindowTest) {
  for (int round = 0; round < 500; ++round) {
    const Bytes bytes = RandomBytes(random_, random_.Between(1, 2 * profile_.max_bytes));
    const std::size_t length = ReferenceNextCut(profile_, bytes);
    if (profile_.algorithm == Algorithm::kTttd && length < bytes.size() &&
        length < profile_.max_bytes) {
      continue;
    }
    ASSERT_TRUE(RollingWindowTest(*base_, profile_, bytes, length));
  }
}

TEST_P(CutProofTest, LengthsThatNoChunkHasAreRefused) {
  const Bytes bytes = RandomBytes(random_, 2 * std::size_t{profile_.max_bytes});
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{profile_.min_bytes} - 1, std::size_t{profile_.max_bytes} + 1,
        bytes.size(), bytes.size() + 1, ~std::size_t{0}}) {
    EXPECT_FALSE(RollingWindowTest(*base_, profile_, bytes, length)) << length;
    EXPECT_FALSE(ProvesCut(*base_, profile_, bytes, length)) << length;
  }
  // Where the file ends a chunk may be shorter.
  const std::span<const std::uint8_t> tail = std::span(bytes).first(profile_.min_bytes - 1);
  EXPECT_TRUE(RollingWindowTest(*base_, profile_, tail, tail.size()));
  EXPECT_FALSE(ProvesCut(*base_, profile_, tail, tail.size()));
}

INSTANTIATE_TEST_SUITE_P(SmallProfiles, CutProofTest, testing::ValuesIn(kSmallProfiles),
                         [](const testing::TestParamInfo<std::string_view>& profile) {
                           std::string name(profile.param);
                           std::erase_if(name, [](char letter) { return !std::isalnum(letter); });
                           return name;
                         });

}  // namespace
}  // namespace kerf
