// What a thread of its own writes to the log: spdlog's, which takes the lines out of a bounded
// queue.
#pragma once

#include <spdlog/sinks/sink.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace kerf {

// Passes on what it is given, and says in the log how many lines are missing there. log() and
// flush() are for one thread, the others for any.
class BehindSink final : public spdlog::sinks::sink {
 public:
  // `lost_count`: of lines that had no room in the queue, ever; `tell` makes the line that says so.
  BehindSink(std::shared_ptr<spdlog::sinks::sink> inner, std::function<std::uint64_t()> lost_count,
             std::function<std::string(std::uint64_t)> tell);

  void log(const spdlog::details::log_msg& message) override;
  void flush() override;
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;

  // How often it was told to flush.
  std::uint64_t flush_count() const;
  // Until that is more than `count`, or `at_most` has passed: whether it is.
  bool WaitForFlush(std::uint64_t count, std::chrono::milliseconds at_most) const;

 private:
  const std::shared_ptr<spdlog::sinks::sink> inner_;
  const std::function<std::uint64_t()> lost_count_;
  const std::function<std::string(std::uint64_t)> tell_;
  std::uint64_t told_count_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable flushed_;
  std::uint64_t flush_count_ = 0;
};

}  // namespace kerf
