#include "kernels/rapid/run_seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr DigestAlgorithm kDigest = DigestAlgorithm::kBlake3;
constexpr char kScope[] = "a-repository";

class RunSealTest : public testing::Test {
 protected:
  CutRun MakeRun(std::size_t count, bool ended_by_eof) {
    std::vector<RunChunk> chunks(count);
    for (RunChunk& chunk : chunks) {
      random_.Fill(chunk.digest.bytes);
      chunk.length_bytes = static_cast<std::uint32_t>(random_.Between(1, kMaxMaxBytes));
      chunk.marker = static_cast<std::uint8_t>(random_.Next());
    }
    return CutRun::OfExactCuts(profile_, kDigest, chunks, ended_by_eof);
  }

  std::string WhyNot(const absl::StatusOr<CutRun>& run) {
    EXPECT_EQ(run.status().code(), absl::StatusCode::kDataLoss);
    return std::string(MessageOf(run.status()));
  }

  Random random_{TestSeed()};
  const Profile profile_ = *ParseProfile("rabin-8k");
  const RunKey key_ = [this] {
    RunKey key;
    random_.Fill(key.bytes);
    return key;
  }();
};

TEST_F(RunSealTest, OpensAsItWasSealed) {
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{2}, std::size_t{1024}, CutRun::kMaxChunks}) {
    const CutRun run = MakeRun(count, random_.OneIn(2));
    const Bytes sealed = SealRun(key_, kScope, run);
    const absl::StatusOr<CutRun> opened = OpenRun(key_, kScope, profile_, kDigest, sealed);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(std::ranges::equal(opened->chunks(), run.chunks()));
    EXPECT_EQ(opened->ended_by_eof(), run.ended_by_eof());
    EXPECT_TRUE(opened->Vouches(profile_, kDigest));
    EXPECT_LE(sealed.size(), 20 + count * (32 + 1 + 4));
  }
}

// The tag was made by another implementation of HMAC-SHA256.
TEST_F(RunSealTest, BytesAreAsSpecified) {
  RunKey key;
  for (std::size_t index = 0; index < key.bytes.size(); ++index) {
    key.bytes[index] = static_cast<std::uint8_t>(index);
  }
  RunChunk chunk;
  chunk.digest.bytes.fill(0xCD);
  chunk.length_bytes = 8192;
  chunk.marker = 0xAB;
  Bytes expected = {1, 1, 1, 0x80, 0x40, 0xAB};
  expected.insert(expected.end(), 32, 0xCD);
  const Bytes tag = {0x64, 0xFA, 0xC1, 0x75, 0xE7, 0x9C, 0x57, 0xAC,
                     0x70, 0x02, 0x73, 0x2D, 0x68, 0x23, 0xBA, 0xDE};
  expected.insert(expected.end(), tag.begin(), tag.end());
  EXPECT_EQ(SealRun(key, kScope, CutRun::OfExactCuts(profile_, kDigest, {chunk}, true)), expected);
}

TEST_F(RunSealTest, EveryChangedBitIsSeen) {
  const Bytes sealed = SealRun(key_, kScope, MakeRun(3, true));
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    Bytes changed = sealed;
    changed[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    ASSERT_FALSE(OpenRun(key_, kScope, profile_, kDigest, changed).ok()) << bit;
  }
  for (std::size_t size = 0; size < sealed.size(); ++size) {
    ASSERT_FALSE(OpenRun(key_, kScope, profile_, kDigest, std::span(sealed).first(size)).ok());
  }
  Bytes longer = sealed;
  longer.push_back(0);
  EXPECT_FALSE(OpenRun(key_, kScope, profile_, kDigest, longer).ok());
}

TEST_F(RunSealTest, OpensNowhereElse) {
  const Bytes sealed = SealRun(key_, kScope, MakeRun(3, false));
  RunKey other = key_;
  other.bytes[31] ^= 1;
  const std::string wanted = "the tag is not of this key";
  EXPECT_NE(WhyNot(OpenRun(other, kScope, profile_, kDigest, sealed)).find(wanted),
            std::string::npos);
  EXPECT_NE(WhyNot(OpenRun(key_, "another", profile_, kDigest, sealed)).find(wanted),
            std::string::npos);
  EXPECT_NE(WhyNot(OpenRun(key_, kScope, *ParseProfile("gear-8k"), kDigest, sealed)).find(wanted),
            std::string::npos);
  EXPECT_NE(WhyNot(OpenRun(key_, kScope, profile_, DigestAlgorithm::kSha256, sealed)).find(wanted),
            std::string::npos);
}

// What was cut with a criterion never becomes an exact cut, and the other way round.
TEST_F(RunSealTest, ACriterionIsSealedWithTheRun) {
  const CutRun exact = MakeRun(3, false);
  const std::vector<RunChunk> chunks(exact.chunks().begin(), exact.chunks().end());
  const CutRun run = CutRun::OfHearsay(profile_, kDigest, chunks, false);
  const UploadProfile with(profile_, AcceptanceCriterion::kFf);
  const Bytes sealed = SealRun(key_, kScope, run, with.criterion);
  const auto opened = OpenRun(key_, kScope, with, kDigest, sealed);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(std::ranges::equal(opened->chunks(), chunks));
  EXPECT_FALSE(opened->Vouches(profile_, kDigest));
  EXPECT_FALSE(OpenRun(key_, kScope, profile_, kDigest, sealed).ok());
  EXPECT_FALSE(OpenRun(key_, kScope, {profile_, AcceptanceCriterion::kFfMt}, kDigest, sealed).ok());
  EXPECT_FALSE(OpenRun(key_, kScope, with, kDigest, SealRun(key_, kScope, exact)).ok());
}

TEST_F(RunSealTest, RefusesHostileHeadsBeforeItHashesOrReserves) {
  const auto open = [&](Bytes head) {
    head.resize(head.size() + kRunTagBytes);
    return WhyNot(OpenRun(key_, kScope, profile_, kDigest, head));
  };
  EXPECT_NE(WhyNot(OpenRun(key_, kScope, profile_, kDigest, {})).find("shorter than a tag"),
            std::string::npos);
  EXPECT_NE(open({}).find("cut off in its head"), std::string::npos);
  EXPECT_NE(open({2, 0, 1}).find("version 2"), std::string::npos);
  EXPECT_NE(open({1, 2, 1}).find("unknown flags 2"), std::string::npos);
  EXPECT_NE(open({1, 0, 0}).find("0 chunks"), std::string::npos);
  EXPECT_NE(open({1, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F}).find("4294967295 chunks"),
            std::string::npos);
}

}  // namespace
}  // namespace kerf
