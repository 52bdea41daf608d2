// `kerf top` on a terminal, and in a pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A guard against a hang, not a measure: twice of it fits into the minute that Bazel gives the
// test.
constexpr std::chrono::seconds kPatience{20};

class Top : public ::testing::Test {
 protected:
  World world_;
};

TEST_F(Top, DrawsAnewWhenTheWindowChangesAndGivesTheTerminalBack) {
  if (access("/usr/bin/script", X_OK) != 0) GTEST_SKIP() << "script(1) is not installed";
  world_.StartServer();
  const std::string seen = world_ / "seen";
  const auto terminal =
      world_.StartOther({"/usr/bin/script", "-qefc",
                         Cat("stty cols 60 rows 3; tty > tty; echo $$ > pid; TERM=xterm exec ",
                             BuiltProgram("client/agent/kerf"), " top --interval 1h --server ",
                             world_.address(), ",127.0.0.1:1"),
                         seen});
  const auto drawings = [&] {
    std::vector<std::string> parts;
    const std::string text = ReadText(seen);
    for (std::size_t at = 0; (at = text.find("\x1b[H", at)) != std::string::npos;) {
      const std::size_t end = text.find("\x1b[J", at);
      if (end == std::string::npos) break;
      parts.push_back(text.substr(at, end - at));
      at = end;
    }
    return parts;
  };
  // A window of another size may be drawn once more in between, when only its width is new.
  const auto wait_for_drawing = [&](std::string_view text) {
    const auto is_there = [&] {
      const std::vector<std::string> parts = drawings();
      return !parts.empty() && parts.back().find(text) != std::string::npos;
    };
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!is_there() && !terminal->HasEnded() && std::chrono::steady_clock::now() < deadline) {
      usleep(10'000);
    }
    return is_there();
  };
  ASSERT_TRUE(wait_for_drawing("... and 4 more lines")) << ReadText(seen);
  const std::string device = ReadText(world_ / "tty");
  EXPECT_EQ(
      world_
          .Run({"/bin/stty", "-F", device.substr(0, device.find('\n')), "cols", "20", "rows", "9"})
          .exit_code,
      0);
  ASSERT_TRUE(wait_for_drawing("127.0.0.1:1 is lost:\x1b[K")) << ReadText(seen);
  const std::string last = drawings().back();
  EXPECT_THAT(last, HasSubstr("all 2"));
  std::size_t begin = 3;
  for (std::size_t end = 0; (end = last.find("\x1b[K", begin)) != std::string::npos;) {
    EXPECT_LE(end - begin, 20u) << last;
    begin = last.find_first_not_of("\r\n", end + 3);
  }
  kill(static_cast<pid_t>(std::stol(ReadText(world_ / "pid"))), SIGINT);
  EXPECT_EQ(terminal->Wait().exit_code, 130);
  const std::string text = ReadText(seen);
  EXPECT_GT(text.rfind("\x1b[?1049l"), text.rfind("\x1b[J"));
  EXPECT_NE(text.rfind("\x1b[?1049l"), std::string::npos);
}

TEST_F(Top, InAPipeIsPlainLinesUntilNobodyReadsThem) {
  world_.StartServer();
  const std::string kerf = BuiltProgram("client/agent/kerf");
  const Completed lines =
      world_.Run({"/bin/sh", "-c",
                  Cat(kerf, " top --interval 100ms --server ", world_.address(), " | head -n 9")});
  EXPECT_EQ(lines.exit_code, 0);
  EXPECT_THAT(lines.out, AllOf(HasSubstr("1 worker\nWORKER "), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 9);
  EXPECT_EQ(lines.err, "");
}

}  // namespace
}  // namespace kerf::e2e
