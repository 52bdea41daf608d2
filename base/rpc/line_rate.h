// So many lines of one kind a second, and a count of the others.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace kerf {

// Kinds are kept for ever: there may be only so many. Not thread-safe.
class LineRate {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kLinesASecond = 10;

  // Whether a line of this kind may be said now. In no second are there more than kLinesASecond.
  bool Take(std::string_view kind, Time now);

  // How many lines were not said since the last call, by kind.
  std::map<std::string, std::uint64_t> TakeLeftOut();

 private:
  struct Kind {
    // When the last ones were said, in a ring.
    std::array<Time, kLinesASecond> said{};
    std::size_t said_count = 0;
    std::uint64_t left_out = 0;
  };

  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace kerf
