// The same work for many things, on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace kerf {

// Calls `work` once for each index below `count`, in any order and from several threads; returns
// when all calls have. `thread_count` 0: as many as there are cores.
inline void ForEachInParallel(std::size_t count, unsigned thread_count,
                              const std::function<void(std::size_t)>& work) {
  if (thread_count == 0) thread_count = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t index = next++; index < count; index = next++) work(index);
  };
  std::vector<std::jthread> threads;
  for (std::size_t index = 1; index < std::min<std::size_t>(thread_count, count); ++index) {
    threads.emplace_back(run);
  }
  run();
}

}  // namespace kerf
