#include "server/lock_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/file_lock.h"
#include "base/strings.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Long enough for what must not come, and for what must.
constexpr milliseconds kQuiet{200};
constexpr milliseconds kPatience{20'000};

class LockWatchTest : public ::testing::Test {
 protected:
  LockWatchTest() { EXPECT_TRUE(Open().valid()); }
  ~LockWatchTest() override { unlink(path_.c_str()); }

  UniqueFd Open() const {
    return UniqueFd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  UniqueFd Hold() const {
    UniqueFd file = Open();
    EXPECT_TRUE(TryLock(file.get(), LOCK_SH).value());
    return file;
  }
  bool IsCalledWithin(milliseconds time) const {
    const auto deadline = steady_clock::now() + time;
    while (call_count_ == 0 && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return call_count_ > 0;
  }

  const std::string path_ = Cat(::testing::TempDir(), "/lock-watch-", getpid());
  std::atomic<int> call_count_{0};
};

TEST_F(LockWatchTest, TheLastWhoHoldsItEndsIt) {
  UniqueFd first = Hold();
  UniqueFd second = Hold();
  auto watch = LockWatch::Start(path_, [this] { ++call_count_; });
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_FALSE(IsCalledWithin(kQuiet));
  first.Reset();
  EXPECT_FALSE(IsCalledWithin(kQuiet));
  second.Reset();
  EXPECT_TRUE(IsCalledWithin(kPatience));
  // Whoever comes now is too late, also when the watch is gone: the process may still listen. It
  // calls nobody twice.
  const UniqueFd late = Open();
  EXPECT_FALSE(TryLock(late.get(), LOCK_SH).value());
  EXPECT_EQ(call_count_, 1);
  watch->reset();
  EXPECT_FALSE(TryLock(late.get(), LOCK_SH).value());
  EXPECT_EQ(call_count_, 1);
}

TEST_F(LockWatchTest, NobodyHoldsItFromTheBeginning) {
  const auto watch = LockWatch::Start(path_, [this] { ++call_count_; });
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_TRUE(IsCalledWithin(kPatience));
}

TEST_F(LockWatchTest, EndsWithoutACall) {
  const UniqueFd held = Hold();
  auto watch = LockWatch::Start(path_, [this] { ++call_count_; });
  ASSERT_TRUE(watch.ok()) << watch.status();
  const auto begin = steady_clock::now();
  watch->reset();
  EXPECT_LT(steady_clock::now() - begin, kPatience);
  EXPECT_EQ(call_count_, 0);
  const UniqueFd other = Open();
  EXPECT_TRUE(TryLock(other.get(), LOCK_SH).value());
}

TEST_F(LockWatchTest, AFileThatIsNotThereIsAnError) {
  const auto watch = LockWatch::Start(path_ + "-none", [] {});
  ASSERT_FALSE(watch.ok());
  EXPECT_NE(watch.status().ToString().find("--while-locked"), std::string::npos);
}

}  // namespace
}  // namespace kerf
