// Ends the program when a part of it does not end: a GPU that hangs takes its host's threads with
// it, which nobody can cancel.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace kerf::cuda {

// While it lives, `what` may take so long; then the program says so on stderr and exits with 1.
class TimeLimit {
 public:
  TimeLimit(std::string what, std::chrono::milliseconds time);
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit();

 private:
  void Watch(std::chrono::milliseconds time);

  const std::string what_;
  std::mutex mutex_;
  std::condition_variable has_ended_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace kerf::cuda
