#include "server/reloader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>

#include "base/strings.h"
#include "server/testing/notify_socket.h"

namespace kerf {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;

class ReloaderTest : public ::testing::Test {
 protected:
  ReloaderTest() {
    manager_.TellReady("serves", [] { return absl::OkStatus(); });
    EXPECT_THAT(socket_.Next().value_or(""), StartsWith("READY=1"));
  }

  const std::string name_ = Cat("@kerf-reloader-", getpid());
  NotifySocket socket_{name_};
  ServiceManager manager_{{.socket = name_}};
};

TEST_F(ReloaderTest, ReadsAllAndSaysWhatIsWrong) {
  std::atomic<int> count{0};
  std::atomic<bool> is_good{true};
  Reloader reloader({{"one", [&] { return ++count, absl::OkStatus(); }},
                     {"two",
                      [&] {
                        ++count;
                        return is_good.load() ? absl::OkStatus() : absl::NotFoundError("no file");
                      }}},
                    manager_);
  reloader.Ask();
  EXPECT_THAT(socket_.Next().value_or(""), StartsWith("RELOADING=1"));
  EXPECT_THAT(socket_.Next(), Optional(std::string("READY=1\nSTATUS=serves")));
  EXPECT_EQ(count.load(), 2);
  is_good.store(false);
  reloader.Ask();
  EXPECT_THAT(socket_.Next().value_or(""), StartsWith("RELOADING=1"));
  EXPECT_THAT(socket_.Next().value_or(""), HasSubstr("two goes on as it was: no file"));
  EXPECT_EQ(count.load(), 4);
}

TEST_F(ReloaderTest, WithoutFilesItEndsAsWell) {
  Reloader reloader({}, manager_);
  reloader.Ask();
  EXPECT_THAT(socket_.Next().value_or(""), StartsWith("RELOADING=1"));
  EXPECT_THAT(socket_.Next(), Optional(std::string("READY=1\nSTATUS=serves")));
}

// Who asks meanwhile may have written what was read before: so it is read once more, for all.
TEST_F(ReloaderTest, AFileThatHangsHoldsNobodyUp) {
  std::atomic<int> count{0};
  std::latch reads{1};
  std::latch goes_on{1};
  Reloader reloader({{"slow",
                      [&] {
                        if (++count == 1) {
                          reads.count_down();
                          goes_on.wait();
                        }
                        return absl::OkStatus();
                      }}},
                    manager_);
  reloader.Ask();
  reads.wait();
  for (int ask = 0; ask < 5; ++ask) reloader.Ask();
  EXPECT_EQ(count.load(), 1);
  goes_on.count_down();
  for (int reload = 0; reload < 2; ++reload) {
    EXPECT_THAT(socket_.Next().value_or(""), StartsWith("RELOADING=1"));
    EXPECT_THAT(socket_.Next().value_or(""), StartsWith("READY=1"));
  }
  EXPECT_EQ(count.load(), 2);
}

}  // namespace
}  // namespace kerf
