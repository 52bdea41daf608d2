#include "server/routing/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/routing/outlier.h"

namespace kerf::routing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ChoiceTest, AllThatAreWellAreUsed) {
  const Choice choice = Choose({{"a", "", ""}, {"b", "x", ""}, {"c", "x", ""}}, "");
  EXPECT_THAT(choice.unused, ElementsAre("", "", ""));
  EXPECT_EQ(choice.index, "x");
  EXPECT_FALSE(choice.is_without_index);
  EXPECT_THAT(Choose({}, "x").unused, IsEmpty());
}

TEST(ChoiceTest, WhoHasLostItsIndexIsUsedOnlyIfAllHave) {
  Choice choice = Choose({{"a", "x", "gone"}, {"b", "x", ""}, {"c", "x", "gone"}}, "");
  EXPECT_THAT(choice.unused, ElementsAre("gone", "", "gone"));
  EXPECT_FALSE(choice.is_without_index);
  choice = Choose({{"a", "x", "gone"}, {"b", "x", "gone"}}, "");
  EXPECT_THAT(choice.unused, ElementsAre("", ""));
  EXPECT_TRUE(choice.is_without_index);
}

TEST(ChoiceTest, TheIndexOfMostIsUsed) {
  Choice choice = Choose({{"a", "y", ""}, {"b", "x", ""}, {"c", "x", ""}}, "y");
  EXPECT_THAT(choice.unused, ElementsAre(HasSubstr("another index, y"), "", ""));
  EXPECT_EQ(choice.index, "x");
  // Of as many that of before, else that of the smallest name.
  EXPECT_EQ(Choose({{"b", "x", ""}, {"a", "y", ""}}, "x").index, "x");
  EXPECT_EQ(Choose({{"b", "x", ""}, {"a", "y", ""}}, "").index, "y");
  EXPECT_EQ(Choose({{"b", "x", ""}, {"a", "y", ""}}, "gone").index, "y");
  // Those that cannot reach theirs have no say while others can.
  choice = Choose({{"a", "y", "gone"}, {"b", "y", "gone"}, {"c", "x", ""}}, "y");
  EXPECT_EQ(choice.index, "x");
  EXPECT_THAT(choice.unused, ElementsAre(HasSubstr("another index"), HasSubstr("another"), ""));
  choice = Choose({{"a", "y", "gone"}, {"b", "x", "gone"}, {"c", "x", "gone"}}, "");
  EXPECT_THAT(choice.unused, ElementsAre(HasSubstr("another index"), "", ""));
  EXPECT_TRUE(choice.is_without_index);
}

TEST(ChoiceTest, HalfAreEjectedAtMost) {
  const auto unused_count = [](std::size_t count, std::size_t ejected_count) {
    std::vector<std::string> names;
    names.reserve(count);
    for (std::size_t at = 0; at < count; ++at) names.push_back(Cat(at));
    std::vector<Candidate> candidates;
    candidates.reserve(count);
    for (std::size_t at = 0; at < count; ++at)
      candidates.push_back({names[at], "", "", at < ejected_count});
    const Choice choice = Choose(candidates, "");
    return std::count_if(choice.unused.begin(), choice.unused.end(),
                         [](const std::string& why) { return !why.empty(); });
  };
  EXPECT_EQ(unused_count(1, 1), 0);
  EXPECT_EQ(unused_count(2, 1), 1);
  EXPECT_EQ(unused_count(2, 2), 1);
  EXPECT_EQ(unused_count(3, 3), 1);
  EXPECT_EQ(unused_count(10, 3), 3);
  EXPECT_EQ(unused_count(10, 10), 5);
  // Half of those that have an index; nobody is ejected where nobody has one.
  EXPECT_THAT(Choose({{"a", "", "gone", true}, {"b", "", "", true}}, "").unused,
              ElementsAre("gone", ""));
  EXPECT_THAT(Choose({{"a", "", "gone", true}, {"b", "", "gone", true}}, "").unused,
              ElementsAre("", ""));
}

// Whatever they say: if anybody answers somebody is used, all of one index, and with theirs if
// anybody has.
TEST(ChoiceTest, SomebodyIsUsedAndAllOfOneIndex) {
  Random random(TestSeed());
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  const std::vector<std::string> indexes = {"", "x", "y", "z"};
  for (int round = 0; round < 2'000; ++round) {
    std::vector<Candidate> candidates;
    const std::size_t count = random.Between(1, names.size());
    candidates.reserve(count);
    for (std::size_t at = 0; at < count; ++at) {
      candidates.push_back({names[at], indexes[random.Below(indexes.size())],
                            random.OneIn(2) ? "gone" : "", random.OneIn(2)});
    }
    const Choice choice = Choose(candidates, indexes[random.Below(indexes.size())]);
    std::size_t used_count = 0;
    bool has_any = false;
    for (std::size_t at = 0; at < count; ++at) {
      has_any |= candidates[at].trouble.empty();
      if (!choice.unused[at].empty()) continue;
      ++used_count;
      if (!candidates[at].index.empty()) {
        EXPECT_EQ(candidates[at].index, choice.index);
      }
      EXPECT_EQ(choice.is_without_index, !candidates[at].trouble.empty());
    }
    EXPECT_GE(used_count, 1u);
    EXPECT_EQ(choice.is_without_index, !has_any);
  }
}

class OutlierTest : public testing::Test {
 protected:
  // Ejects it, lets it return; for how long it was away.
  milliseconds EjectAndReturn() {
    EXPECT_TRUE(outlier_.Look(kFailuresUntilEjected, now_, random_));
    const auto time = std::chrono::duration_cast<milliseconds>(outlier_.until() - now_);
    now_ = outlier_.until();
    EXPECT_FALSE(outlier_.Look(kFailuresUntilEjected, now_, random_));
    EXPECT_FALSE(outlier_.is_ejected());
    return time;
  }

  Random random_{TestSeed()};
  Outlier::TimePoint now_;
  Outlier outlier_{EjectionTimes{}};
};

TEST_F(OutlierTest, FailuresInARowEject) {
  for (int count = 0; count < kFailuresUntilEjected; ++count) {
    EXPECT_FALSE(outlier_.Look(count, now_, random_));
    EXPECT_FALSE(outlier_.is_ejected());
  }
  EXPECT_TRUE(outlier_.Look(kFailuresUntilEjected, now_, random_));
  EXPECT_TRUE(outlier_.is_ejected());
  // Told once.
  EXPECT_FALSE(outlier_.Look(kFailuresUntilEjected, now_, random_));
  EXPECT_TRUE(outlier_.is_ejected());
}

TEST_F(OutlierTest, IsAwayForTwiceAsLongEachTimeUntilItHasBeenWell) {
  for (const int most_s : {10, 20, 40, 80, 160, 300, 300}) {
    const milliseconds time = EjectAndReturn();
    EXPECT_LE(time, seconds(most_s));
    EXPECT_GE(time, seconds(most_s) * 3 / 4);
    now_ += seconds(299);
  }
  now_ += seconds(2);
  EXPECT_LE(EjectAndReturn(), seconds(10));
}

}  // namespace
}  // namespace kerf::routing
