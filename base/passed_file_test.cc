#include "base/passed_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace kerf {
namespace {

using Words = std::vector<std::uint8_t>;

std::size_t OpenFileCount() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

bool IsSameFile(int one, int other) {
  struct stat left{};
  struct stat right{};
  return fstat(one, &left) == 0 && fstat(other, &right) == 0 && left.st_ino == right.st_ino &&
         left.st_dev == right.st_dev;
}

class PassedFileTest : public testing::Test {
 protected:
  PassedFileTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_ = UniqueFd(ends[0]);
    there_ = UniqueFd(ends[1]);
  }

  // So many descriptors with one message.
  void SendMany(const Words& words, std::size_t count) const {
    iovec part{.iov_base = const_cast<std::uint8_t*>(words.data()), .iov_len = words.size()};
    alignas(cmsghdr) std::byte control[CMSG_SPACE(253 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    const int fd = file_.get();
    for (std::size_t index = 0; index < count; ++index) {
      std::memcpy(CMSG_DATA(header) + index * sizeof fd, &fd, sizeof fd);
    }
    ASSERT_EQ(sendmsg(here_.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
  }

  absl::StatusCode Receive(std::size_t size_bytes = 4) const {
    Words words(size_bytes);
    return ReceiveFile(there_.get(), words).status().code();
  }

  UniqueFd here_;
  UniqueFd there_;
  UniqueFd file_{open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
};

TEST_F(PassedFileTest, ComesWithItsBytes) {
  ASSERT_TRUE(SendFile(here_.get(), Words{1, 2, 3, 4}, file_.get()).ok());
  Words words(4);
  const auto fd = ReceiveFile(there_.get(), words);
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(words, (Words{1, 2, 3, 4}));
  EXPECT_TRUE(IsSameFile(fd->get(), file_.get()));
  EXPECT_EQ(fcntl(fd->get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(PassedFileTest, IsNotWaitedFor) {
  EXPECT_EQ(Receive(), absl::StatusCode::kUnavailable);
  here_.Reset();
  EXPECT_EQ(Receive(), absl::StatusCode::kUnavailable);
}

TEST_F(PassedFileTest, NobodyTakesIt) {
  there_.Reset();
  EXPECT_EQ(SendFile(here_.get(), Words{1}, file_.get()).code(), absl::StatusCode::kUnavailable);
}

// Descriptors that are not wanted would be this process's for good.
TEST_F(PassedFileTest, AllThatIsNotAsItShouldBeIsClosed) {
  const std::size_t before = OpenFileCount();
  for (const std::size_t count : {2u, 3u, 253u}) {
    SendMany({1, 2, 3, 4}, count);
    EXPECT_EQ(Receive(), absl::StatusCode::kInvalidArgument) << count;
    EXPECT_EQ(OpenFileCount(), before) << count;
  }
  for (const Words& words : {Words{1, 2, 3}, Words{1}}) {
    SendMany(words, 1);
    EXPECT_EQ(Receive(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(OpenFileCount(), before);
  }
}

TEST_F(PassedFileTest, BytesAloneAreNone) {
  ASSERT_EQ(write(here_.get(), "abcd", 4), 4);
  EXPECT_EQ(Receive(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PassedFileTest, TheUserOfTheOtherEndIsKnown) {
  const auto user = UserOfPeer(here_.get());
  ASSERT_TRUE(user.ok());
  EXPECT_EQ(*user, getuid());
  EXPECT_FALSE(UserOfPeer(file_.get()).ok());
}

}  // namespace
}  // namespace kerf
