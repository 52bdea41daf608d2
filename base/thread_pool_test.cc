#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace kerf {
namespace {

// What one thread does, in order; it begins when all is posted.
class ThreadPoolTest : public ::testing::Test {
 protected:
  ThreadPoolTest() {
    pool_->Post([this] { may_begin_.get_future().wait(); });
  }

  void Post(std::uint64_t share, char name) {
    // Not by its owner, which has let go of it while it ends.
    all_->Post(share, [this, name] {
      const std::lock_guard lock(mutex_);
      done_ += name;
    });
  }
  std::string RunAll() {
    may_begin_.set_value();
    pool_.reset();
    return done_;
  }

  std::mutex mutex_;
  std::string done_;
  std::promise<void> may_begin_;
  std::unique_ptr<ThreadPool> pool_ = std::make_unique<ThreadPool>(1);
  ThreadPool* const all_ = pool_.get();
};

TEST_F(ThreadPoolTest, OneShareIsDoneInOrder) {
  for (const char name : std::string("abcdef")) Post(7, name);
  EXPECT_EQ(RunAll(), "abcdef");
}

// However many one of them has posted before.
TEST_F(ThreadPoolTest, SharesHaveTheirTurns) {
  for (const char name : std::string("aaaaaa")) Post(1, name);
  for (const char name : std::string("bbb")) Post(2, name);
  Post(ThreadPool::kNobodysShare, 'n');
  EXPECT_EQ(RunAll(), "abnababaaa");
}

TEST_F(ThreadPoolTest, WhoComesAgainIsBehindTheOthers) {
  for (const char name : std::string("aa")) Post(1, name);
  pool_->Post(1, [this] { Post(1, 'c'); });
  for (const char name : std::string("bbbb")) Post(2, name);
  EXPECT_EQ(RunAll(), "ababbcb");
}

TEST_F(ThreadPoolTest, SaysWhetherAnythingWaits) {
  // Until the thread has what keeps it.
  while (all_->is_wanted()) std::this_thread::yield();
  Post(1, 'a');
  EXPECT_TRUE(all_->is_wanted());
  EXPECT_EQ(RunAll(), "a");
}

TEST(ThreadPool, NothingIsLostOfManyShares) {
  std::atomic<int> done = 0;
  {
    ThreadPool pool(4);
    for (int round = 0; round < 1'000; ++round) {
      for (std::uint64_t share = 0; share < 20; ++share) pool.Post(share, [&] { ++done; });
    }
  }
  EXPECT_EQ(done, 20'000);
}

}  // namespace
}  // namespace kerf
