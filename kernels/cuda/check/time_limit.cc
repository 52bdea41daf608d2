#include "kernels/cuda/check/time_limit.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace kerf::cuda {

TimeLimit::TimeLimit(std::string what, std::chrono::milliseconds time)
    : what_(std::move(what)), thread_([this, time] { Watch(time); }) {}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  has_ended_.notify_all();
  thread_.join();
}

void TimeLimit::Watch(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  if (has_ended_.wait_for(lock, time, [this] { return is_over_; })) return;
  std::fflush(stdout);
  std::fprintf(stderr,
               "%s: FAILED: it has not ended after %.1f s; the GPU hangs, or is very slow\n",
               what_.c_str(), static_cast<double>(time.count()) / 1e3);
  // No destructors: they would wait for the GPU as well.
  std::_Exit(EXIT_FAILURE);
}

}  // namespace kerf::cuda
