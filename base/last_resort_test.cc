#include "base/last_resort.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

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

// Of memory; far beyond what sanitizers map, so that they go on.
constexpr rlimit kSomeBound{std::size_t{1} << 62, std::size_t{1} << 62};

// What a child that runs `what` in CatchAll has said, and how it ended.
std::string SaidBy(const std::function<int()>& what, int& status) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    _exit(CatchAll("kerf", what));
  }
  close(ends[1]);
  std::string said;
  char part[256];
  for (ssize_t size; (size = read(ends[0], part, sizeof part)) > 0;) {
    said.append(part, static_cast<std::size_t>(size));
  }
  close(ends[0]);
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return said;
}

void ExpectSays(const std::function<int()>& what, std::string_view text) {
  int status = 0;
  const std::string said = SaidBy(what, status);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kThrownExitCode) << status;
  EXPECT_NE(said.find(text), std::string::npos) << said;
}

// As gRPC does where it gets no file.
TEST(CatchAll, ALibraryThatAbortsForWantOfSomethingIsExplained) {
  ExpectSays(
      []() -> int {
        const rlimit few{3, 3};
        setrlimit(RLIMIT_NOFILE, &few);
        abort();
      },
      "ulimit -n");
  ExpectSays(
      []() -> int {
        setrlimit(RLIMIT_AS, &kSomeBound);
        abort();
      },
      "ulimit -v");
  ExpectSays(
      []() -> int {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      },
      "no thread can be started");
  ExpectSays([]() -> int { throw std::bad_alloc(); }, "no memory");
}

TEST(CatchAll, AnyOtherAbortStaysOne) {
  int status = 0;
  EXPECT_EQ(SaidBy([]() -> int { abort(); }, status), "");
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
}

// As a service manager's watchdog ends a program that is stuck.
TEST(CatchAll, AnAbortThatSomebodyElseSendsEndsTheProcess) {
  for (const bool has_limit : {false, true}) {
    int status = 0;
    const std::string said = SaidBy(
        [has_limit]() -> int {
          if (has_limit) setrlimit(RLIMIT_AS, &kSomeBound);
          const pid_t here = getpid();
          const pid_t other = fork();
          if (other == 0) {
            kill(here, SIGABRT);
            _exit(0);
          }
          waitpid(other, nullptr, 0);
          return 0;
        },
        status);
    EXPECT_EQ(said, "");
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
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
