#include "base/last_resort.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

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

}  // namespace
}  // namespace kerf
