#include "base/last_resort.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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

// In a process of its own, which has closed them.
TEST(CatchAll, NoFileGetsTheNumberOfAStandardStreamThatIsClosed) {
  for (const int closed : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(closed);
      _exit(CatchAll("kerf", [closed] {
        const int opened = open("/dev/null", O_RDWR);
        char byte = 0;
        const bool is_refused =
            closed == STDIN_FILENO ? read(closed, &byte, 1) < 0 : write(closed, "x", 1) < 0;
        return opened > STDERR_FILENO && is_refused ? 0 : 2;
      }));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << closed;
  }
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
