#include "client/agent/top/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "client/agent/top/table.h"

namespace kerf::agent {
namespace {

// The other page, no cursor, and no line that goes on in the next one; and back again.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr char kLeave[] = "\x1b[?7h\x1b[?25h\x1b[?1049l";

}  // namespace

bool Screen::IsPossible() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

Screen::~Screen() { Leave(); }

void Screen::Leave() {
  if (!std::exchange(is_entered_, false)) return;
  std::fputs(kLeave, stdout);
  std::fflush(stdout);
}

bool Screen::IsForeground() {
  const pid_t group = tcgetpgrp(STDOUT_FILENO);
  // Not the terminal that controls this process: no shell shares it with it.
  return group == -1 || group == getpgrp();
}

ScreenSize Screen::Size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    return {};
  }
  return {.rows = size.ws_row, .columns = size.ws_col};
}

bool Screen::Draw(std::vector<std::string> lines) {
  const ScreenSize size = Size();
  lines = FitTo(std::move(lines), size.rows, size.columns);
  // Over what is there, so that nothing flickers. No line ends the last row: it would scroll.
  std::string text = is_entered_ ? "" : kEnter;
  is_entered_ = true;
  text += "\x1b[H";
  for (std::size_t index = 0; index < lines.size(); ++index) {
    text += Cat(index == 0 ? "" : "\n", lines[index], "\x1b[K");
  }
  text += "\x1b[J";
  std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0;
}

}  // namespace kerf::agent
