#include "base/last_resort.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "absl/synchronization/mutex.h"

namespace kerf {
namespace {

TEST(CatchAll, GivesTheExitCode) {
  EXPECT_EQ(CatchAll("kerf", [] { return 7; }), 7);
}

TEST(CatchAll, ReportsWhatIsThrown) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(CatchAll("kerf", []() -> int { throw std::runtime_error("no such luck"); }),
            kThrownExitCode);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "kerf: unexpected: no such luck\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(CatchAll("kerf",
                     []() -> int {
                       throw 1; /* NOLINT(bugprone-std-exception-baseclass) */
                     }),
            kThrownExitCode);
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
}

void LockBoth(absl::Mutex& first, absl::Mutex& second) {
  const absl::MutexLock outer(&first);
  const absl::MutexLock inner(&second);
}

TEST(CatchAll, LetsMutexesBeTakenInBothOrders) {
  absl::Mutex first;
  absl::Mutex second;
  EXPECT_EQ(CatchAll("kerf",
                     [&] {
                       LockBoth(first, second);
                       LockBoth(second, first);
                       return 7;
                     }),
            7);
}

}  // namespace
}  // namespace kerf
