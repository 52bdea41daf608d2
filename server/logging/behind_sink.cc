#include "server/logging/behind_sink.h"

#include <spdlog/details/log_msg.h>

#include <utility>

namespace kerf {

BehindSink::BehindSink(std::shared_ptr<spdlog::sinks::sink> inner,
                       std::function<std::uint64_t()> lost_count,
                       std::function<std::string(std::uint64_t)> tell)
    : inner_(std::move(inner)), lost_count_(std::move(lost_count)), tell_(std::move(tell)) {}

void BehindSink::log(const spdlog::details::log_msg& message) {
  if (const std::uint64_t lost_count = lost_count_(); lost_count > told_count_) {
    const std::string line = tell_(lost_count - std::exchange(told_count_, lost_count));
    // Of the time of what follows: the gap is before it.
    inner_->log({message.time, message.source, message.logger_name, spdlog::level::warn, line});
  }
  inner_->log(message);
}

void BehindSink::flush() {
  inner_->flush();
  const std::lock_guard lock(mutex_);
  ++flush_count_;
  flushed_.notify_all();
}

void BehindSink::set_pattern(const std::string& pattern) { inner_->set_pattern(pattern); }

void BehindSink::set_formatter(std::unique_ptr<spdlog::formatter> formatter) {
  inner_->set_formatter(std::move(formatter));
}

std::uint64_t BehindSink::flush_count() const {
  const std::lock_guard lock(mutex_);
  return flush_count_;
}

bool BehindSink::WaitForFlush(std::uint64_t count, std::chrono::milliseconds at_most) const {
  std::unique_lock lock(mutex_);
  return flushed_.wait_for(lock, at_most, [&] { return flush_count_ > count; });
}

}  // namespace kerf
