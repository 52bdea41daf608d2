#include "kernels/bench/rapid_tape.h"

#include <gtest/gtest.h>

#include <array>

namespace kerf::bench {
namespace {

constexpr DigestAlgorithm kDigest = DigestAlgorithm::kBlake3;

// Says of each chunk how many it has been asked about.
class CountingHints final : public HintSource {
 public:
  Hint Find(const Digest&) override {
    Hint hint;
    hint.next_index = ++asked_;
    return hint;
  }

  std::size_t asked() const { return asked_; }

 private:
  std::size_t asked_ = 0;
};

class RapidTapeTest : public ::testing::Test {
 protected:
  Digest FingerprintOf(std::span<const std::uint8_t> piece) {
    Digest digest;
    tape_.Fingerprints()({&piece, 1}, {&digest, 1});
    return digest;
  }

  const std::array<std::uint8_t, 3> bytes_ = {1, 2, 3};
  const std::span<const std::uint8_t> piece_{bytes_};
  CountingHints source_;
  RapidTape tape_;
};

TEST_F(RapidTapeTest, AnswersAsItWasAnswered) {
  tape_.BeginRecording(kDigest, &source_);
  tape_.Find({});
  tape_.Find({});
  EXPECT_EQ(FingerprintOf(piece_), Fingerprint(kDigest, piece_));
  for (int replay = 0; replay < 2; ++replay) {
    tape_.BeginReplay();
    EXPECT_FALSE(tape_.WasReplayedWhole());
    EXPECT_EQ(tape_.Find({}).next_index, 1u);
    EXPECT_EQ(tape_.Find({}).next_index, 2u);
    EXPECT_FALSE(tape_.WasReplayedWhole());
    EXPECT_EQ(FingerprintOf(piece_), Fingerprint(kDigest, piece_));
    EXPECT_TRUE(tape_.WasReplayedWhole());
  }
  EXPECT_EQ(source_.asked(), 2u);
}

TEST_F(RapidTapeTest, WhoAsksForMoreIsNotReplayed) {
  tape_.BeginRecording(kDigest, &source_);
  tape_.BeginReplay();
  EXPECT_TRUE(tape_.WasReplayedWhole());
  tape_.Find({});
  EXPECT_FALSE(tape_.WasReplayedWhole());
  tape_.BeginReplay();
  FingerprintOf(piece_);
  EXPECT_FALSE(tape_.WasReplayedWhole());
}

}  // namespace
}  // namespace kerf::bench
