// Threads that help with a piece of work that one can do alone.
#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace kerf {

// Starts `count` threads that run `work`, which outlives them; fewer, down to none, where the
// system has no more.
template <typename Work>
std::vector<std::jthread> StartHelpers(std::size_t count, const Work& work) {
  std::vector<std::jthread> helpers;
  helpers.reserve(count);
  try {
    while (helpers.size() < count) helpers.emplace_back([&work] { work(); });
  } catch (const std::system_error&) {
    // Those that there are do it all.
  }
  return helpers;
}

}  // namespace kerf
