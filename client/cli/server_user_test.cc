#include "client/cli/server_user.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/strings.h"

namespace kerf::agent {
namespace {

TEST(ServerUserTest, IsANameOrANumber) {
  EXPECT_EQ(*ServerUserOf("root"), 0u);
  EXPECT_EQ(*ServerUserOf("0"), 0u);
  EXPECT_EQ(*ServerUserOf("1234"), 1234u);
  for (const char* nobody : {"no such", "-1", "12x", "4294967296"}) {
    const auto user = ServerUserOf(nobody);
    EXPECT_TRUE(absl::IsInvalidArgument(user.status())) << user.status();
  }
}

// Where the number is that of all who have none.
TEST(ServerUserTest, IsNobodyWhoMayBeAnybody) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(77);
    const auto user = ServerUserOf(Cat(geteuid()));
    if (!absl::IsInvalidArgument(user.status())) _exit(1);
    if (MessageOf(user.status()).find("has a number here") == std::string_view::npos) _exit(2);
    _exit(ServerUserOf("1234").ok() ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kerf::agent
