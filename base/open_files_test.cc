#include "base/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace kerf {
namespace {

TEST(OpenFilesTest, GoesAsFarAsItMay) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 100;
  limit.rlim_max = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(RaiseOpenFileLimit(50), 100u);
  EXPECT_EQ(RaiseOpenFileLimit(150), 150u);
  EXPECT_EQ(RaiseOpenFileLimit(1'000), 200u);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, 200u);
}

}  // namespace
}  // namespace kerf
