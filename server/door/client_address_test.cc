// Whom a unix socket names. Addresses of the Internet: cancel_bound_test.cc.
#include "server/door/client_address.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace kerf::door {
namespace {

// Of a connection of this process with itself; nothing where there can be none.
std::optional<std::uint32_t> OwnUser() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  sockaddr_storage address{};
  address.ss_family = AF_UNIX;
  const std::optional<std::uint32_t> user = ClientAddressOf(address, ends[0]).user;
  close(ends[0]);
  close(ends[1]);
  return user;
}

TEST(ClientAddressTest, AUnixSocketNamesTheUser) { EXPECT_EQ(OwnUser(), geteuid()); }

// Else each of them had what is granted to the one of that number.
TEST(ClientAddressTest, WhoHasNoNumberInAUserNamespaceIsNobody) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(77);
    _exit(OwnUser().has_value() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kerf::door
