#include "server/edge/epoch_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/strings.h"
#include "server/errors/errors.h"

namespace kerf {
namespace {

const RepositoryId kHome{"home", DigestAlgorithm::kBlake3};
const RepositoryId kOther{"other", DigestAlgorithm::kBlake3};

class EpochPaceTest : public testing::Test {
 protected:
  bool IsAdmitted(const RepositoryId& repository = kHome) {
    const absl::Status status = pace_.Admit(repository);
    if (!status.ok()) {
      EXPECT_EQ(ReasonNameOf(status), "TOO_MANY_CALLS") << status;
    }
    return status.ok();
  }

  TimePoint now_{std::chrono::hours(1)};
  const Clock clock_ = [this] { return now_; };
  EpochPace pace_{&clock_, {.epochs_per_second = 2, .reserve = 100, .capacity = 3}};
};

TEST_F(EpochPaceTest, CollectionsAreNotHeldUp) {
  for (std::uint64_t epoch = 1; epoch < 100'000; epoch += 2) {
    ASSERT_TRUE(IsAdmitted());
    pace_.Count(kHome, epoch, epoch + 2);
    now_ += std::chrono::seconds(1);
  }
}

TEST_F(EpochPaceTest, AFewAtOnceAreLetThroughAndThenTimeHasToPass) {
  for (std::uint64_t epoch = 1; epoch <= 50; ++epoch) {
    ASSERT_TRUE(IsAdmitted());
    pace_.Count(kHome, 2 * epoch, 2 * epoch + 2);
  }
  EXPECT_FALSE(IsAdmitted());
  EXPECT_TRUE(IsAdmitted(kOther));
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(IsAdmitted());
  // One step may go past the reserve: what it owes holds up the next.
  pace_.Count(kHome, 1000, 1100);
  EXPECT_FALSE(IsAdmitted());
  now_ += std::chrono::seconds(49);
  EXPECT_FALSE(IsAdmitted());
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(IsAdmitted());
}

// Whoever goes as far as it is let, whenever it is.
TEST_F(EpochPaceTest, OnAverageItRisesNoFaster) {
  std::uint64_t epoch = 1;
  for (int second = 0; second < 10'000; ++second) {
    now_ += std::chrono::seconds(1);
    if (!pace_.Admit(kHome).ok()) continue;
    pace_.Count(kHome, epoch, epoch + 100);
    epoch += 100;
  }
  EXPECT_LE(epoch, 1u + 2 * 10'000 + 2 * 100);
  EXPECT_GE(epoch, 2u * 10'000 - 200);
}

TEST_F(EpochPaceTest, AnIndexAtItsBeginningCountsForNothing) {
  pace_.Count(kHome, 0, 1'000'000);
  EXPECT_TRUE(IsAdmitted());
  // Nor does what was told before.
  pace_.Count(kHome, 7, 7);
  pace_.Count(kHome, 7, 3);
  EXPECT_TRUE(IsAdmitted());
}

TEST_F(EpochPaceTest, AnOperatorForgives) {
  pace_.Count(kHome, 1, 1'000'000);
  EXPECT_FALSE(IsAdmitted());
  const absl::Status status = pace_.Admit(kHome);
  EXPECT_NE(MessageOf(status).find("kerf repo reset-epoch"), std::string_view::npos) << status;
  pace_.Forgive(kHome);
  EXPECT_TRUE(IsAdmitted());
}

// Whoever waits for as long as he is told is let through, and nobody who comes much sooner.
TEST_F(EpochPaceTest, ItIsSaidWhenItIsRaisedAgain) {
  pace_.Count(kHome, 1, 200);
  const absl::Status status = pace_.Admit(kHome);
  EXPECT_NE(MessageOf(status).find("raised again in 50 s,"), std::string_view::npos) << status;
  now_ += std::chrono::seconds(49);
  EXPECT_FALSE(IsAdmitted());
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(IsAdmitted());
}

TEST_F(EpochPaceTest, RemembersThoseThatHaveRisenMost) {
  pace_.Count(kHome, 1, 1000);
  for (int number = 0; number < 50; ++number) {
    pace_.Count({"r" + std::to_string(number), DigestAlgorithm::kBlake3}, 1, 3);
  }
  EXPECT_FALSE(IsAdmitted());
  // What has fallen back to nothing makes room first.
  now_ += std::chrono::hours(1);
  pace_.Count(kOther, 1, 1000);
  EXPECT_TRUE(IsAdmitted());
  EXPECT_FALSE(IsAdmitted(kOther));
}

}  // namespace
}  // namespace kerf
