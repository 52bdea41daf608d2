// A terminal that is drawn anew, again and again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kerf::agent {

struct ScreenSize {
  std::size_t rows = 24;
  std::size_t columns = 80;

  friend bool operator==(const ScreenSize&, const ScreenSize&) = default;
};

// Standard output. From the first drawing on it shows another page of the terminal than the shell's
// own, which comes back when this is left or destroyed. Not thread-safe.
class Screen {
 public:
  // Whether standard output is a terminal that can be drawn on: not TERM=dumb.
  static bool IsPossible();

  Screen() = default;
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  // Now: a window may change. 24 rows of 80 where the terminal does not tell.
  static ScreenSize Size();
  // Whether the terminal is this process', and not its shell's: one that goes on in the background
  // draws nothing.
  static bool IsForeground();
  // As much of the lines as there is room for. False: the terminal has gone.
  bool Draw(std::vector<std::string> lines);
  // Until the next drawing the terminal is as it was before the first one.
  void Leave();

 private:
  bool is_entered_ = false;
};

}  // namespace kerf::agent
