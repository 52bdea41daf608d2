#include "base/overflow_user.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kerf {
namespace {

constexpr char kAll[] = "         0          0 4294967295\n";
constexpr char kOne[] = "         0       1000          1\n";

TEST(OverflowUserTest, OutsideOfAllNamespacesEveryNumberIsOneUsers) {
  for (const uid_t user : {0u, 1'000u, 65'534u, 4'000'000'000u}) {
    EXPECT_FALSE(MayBeAnybody(user, "65534\n", kAll));
  }
}

TEST(OverflowUserTest, InOneTheNumberOfThoseWithoutIsNobodys) {
  for (const char* map : {kOne, "0 100000 65536\n", "", "0 0 65536\n", "0 0 4294967294\n",
                          "1 0 4294967295\n", "0 1 4294967295\n", "nothing of the kind"}) {
    EXPECT_TRUE(MayBeAnybody(65'534, "65534\n", map)) << map;
    EXPECT_FALSE(MayBeAnybody(0, "65534\n", map)) << map;
    EXPECT_FALSE(MayBeAnybody(1'000, "65534\n", map)) << map;
    EXPECT_FALSE(MayBeAnybody(65'533, "65534\n", map)) << map;
  }
}

// An operator may have chosen another one, be it that of root.
TEST(OverflowUserTest, IsTheNumberThatTheSystemSays) {
  EXPECT_TRUE(MayBeAnybody(99, "99\n", kOne));
  EXPECT_FALSE(MayBeAnybody(65'534, "99\n", kOne));
  EXPECT_TRUE(MayBeAnybody(0, "0\n", kOne));
  for (const char* unreadable : {"", "none\n"}) {
    EXPECT_TRUE(MayBeAnybody(65'534, unreadable, kOne));
    EXPECT_FALSE(MayBeAnybody(0, unreadable, kOne));
  }
}

TEST(OverflowUserTest, ThatIsSeenInANamespaceOfItsOwn) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(77);
    _exit(MayBeAnybody(geteuid()) && !MayBeAnybody(1'000) && !MayBeAnybody(100'000) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kerf
