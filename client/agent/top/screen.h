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
// own, which comes back when this is destroyed.
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
  // As much of the lines as there is room for. False: the terminal has gone.
  bool Draw(std::vector<std::string> lines);

 private:
  bool is_entered_ = false;
};

}  // namespace kerf::agent
