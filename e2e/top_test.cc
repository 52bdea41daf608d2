// `kerf top` on a terminal, and in a pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
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
  // Types what the shell is to do at a terminal, and keeps what is seen there.
  std::unique_ptr<Program> AtTerminal(const std::string& commands) {
    return world_.StartOther({"/usr/bin/script", "-qefc", commands, seen_});
  }
  // What kerf has drawn, each time.
  std::vector<std::string> Drawings() const {
    std::vector<std::string> parts;
    const std::string text = ReadText(seen_);
    for (std::size_t at = 0; (at = text.find("\x1b[H", at)) != std::string::npos;) {
      const std::size_t end = text.find("\x1b[J", at);
      if (end == std::string::npos) break;
      parts.push_back(text.substr(at, end - at));
      at = end;
    }
    return parts;
  }
  static bool WaitFor(Program& terminal, const std::function<bool()>& is_there) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!is_there() && !terminal.HasEnded() && std::chrono::steady_clock::now() < deadline) {
      usleep(10'000);
    }
    return is_there();
  }
  // Of the last drawing.
  bool WaitForDrawing(Program& terminal, std::string_view text) const {
    return WaitFor(terminal, [&] {
      const std::vector<std::string> parts = Drawings();
      return !parts.empty() && parts.back().find(text) != std::string::npos;
    });
  }
  void Kill(int signal_number) const {
    kill(static_cast<pid_t>(std::stol(ReadText(world_ / "pid"))), signal_number);
  }

  World world_;
  const std::string seen_ = world_ / "seen";
};

TEST_F(Top, DrawsAnewWhenTheWindowChangesAndGivesTheTerminalBack) {
  if (access("/usr/bin/script", X_OK) != 0) GTEST_SKIP() << "script(1) is not installed";
  world_.StartServer();
  const auto terminal =
      AtTerminal(Cat("stty cols 60 rows 3; tty > tty; echo $$ > pid; TERM=xterm exec ",
                     BuiltProgram("client/agent/kerf"), " top --interval 1h --server ",
                     world_.address(), ",127.0.0.1:1"));
  // A window of another size may be drawn once more in between, when only its width is new.
  ASSERT_TRUE(WaitForDrawing(*terminal, "... and 4 more lines")) << ReadText(seen_);
  const std::string device = ReadText(world_ / "tty");
  EXPECT_EQ(
      world_
          .Run({"/bin/stty", "-F", device.substr(0, device.find('\n')), "cols", "20", "rows", "9"})
          .exit_code,
      0);
  ASSERT_TRUE(WaitForDrawing(*terminal, "127.0.0.1:1 is lost:\x1b[K")) << ReadText(seen_);
  const std::string last = Drawings().back();
  EXPECT_THAT(last, HasSubstr("all 2"));
  std::size_t begin = 3;
  for (std::size_t end = 0; (end = last.find("\x1b[K", begin)) != std::string::npos;) {
    EXPECT_LE(end - begin, 20u) << last;
    begin = last.find_first_not_of("\r\n", end + 3);
  }
  Kill(SIGINT);
  EXPECT_EQ(terminal->Wait().exit_code, 130);
  const std::string text = ReadText(seen_);
  EXPECT_GT(text.rfind("\x1b[?1049l"), text.rfind("\x1b[J"));
  EXPECT_NE(text.rfind("\x1b[?1049l"), std::string::npos);
}

// Ctrl-Z, the shell's own words, and fg.
TEST_F(Top, GivesTheTerminalBackWhileItIsStopped) {
  if (access("/usr/bin/script", X_OK) != 0) GTEST_SKIP() << "script(1) is not installed";
  world_.StartServer();
  WriteText(world_ / "job",
            Cat("set -m\nsh -c 'echo $$ > pid; exec ", BuiltProgram("client/agent/kerf"),
                " top --interval 1h --server ", world_.address(),
                "'\necho is stopped: $?\nuntil [ -e go ]; do sleep 0.02; done\nfg\nexit $?\n"));
  const auto terminal = AtTerminal("stty cols 90 rows 9; TERM=xterm exec /bin/bash job");
  ASSERT_TRUE(WaitForDrawing(*terminal, "serving")) << ReadText(seen_);
  Kill(SIGTSTP);
  // 128 + SIGTSTP.
  const std::string words = "is stopped: 148";
  const auto begin_of_words = [&] { return ReadText(seen_).find(words); };
  ASSERT_TRUE(WaitFor(*terminal, [&] { return begin_of_words() != std::string::npos; }))
      << ReadText(seen_);
  const std::string stopped = ReadText(seen_);
  const std::size_t left_at = stopped.rfind("\x1b[?1049l", begin_of_words());
  ASSERT_NE(left_at, std::string::npos) << stopped;
  EXPECT_EQ(stopped.find("\x1b[H", left_at), std::string::npos);
  WriteText(world_ / "go", "");
  const auto has_come_back = [&] {
    const std::string text = ReadText(seen_);
    const std::size_t entered_at = text.find("\x1b[?1049h", begin_of_words());
    return entered_at != std::string::npos && text.find("serving", entered_at) != std::string::npos;
  };
  EXPECT_TRUE(WaitFor(*terminal, has_come_back)) << ReadText(seen_);
  Kill(SIGINT);
  EXPECT_EQ(terminal->Wait().exit_code, 130);
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
