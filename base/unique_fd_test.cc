#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace kerf {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFdTest, ClosesWhatItOwnsOnce) {
  const int first = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int second = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(first, 0);
  ASSERT_GE(second, 0);
  {
    UniqueFd owner(first);
    UniqueFd other(second);
    EXPECT_TRUE(owner.valid());
    other = std::move(owner);
    EXPECT_FALSE(IsOpen(second));
    EXPECT_TRUE(IsOpen(first));
    EXPECT_EQ(other.get(), first);
  }
  EXPECT_FALSE(IsOpen(first));
}

TEST(UniqueFdTest, GivesUpWhatIsReleased) {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    EXPECT_EQ(UniqueFd(fd).Release(), fd);
  }
  EXPECT_TRUE(IsOpen(fd));
  UniqueFd owner(fd);
  owner.Reset();
  EXPECT_FALSE(owner.valid());
  EXPECT_FALSE(IsOpen(fd));
}

}  // namespace
}  // namespace kerf
