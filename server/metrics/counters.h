// What is counted while kerfd works: numbers that any thread adds to without a lock, and whoever
// shows them reads when he is asked.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace kerf::metrics {

// Thread-safe. Only grows.
class Counter {
 public:
  void Add(std::uint64_t count = 1) { count_.fetch_add(count, std::memory_order_relaxed); }
  std::uint64_t value() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

// The most that a histogram has below its last bucket, which has no bound.
inline constexpr std::size_t kMaxBounds = 16;

// How many values lay in each bucket, not summed up, the last one without a bound.
struct HistogramCounts {
  std::array<std::uint64_t, kMaxBounds + 1> buckets{};
  std::uint64_t sum = 0;
};

// Thread-safe.
class Histogram {
 public:
  // Rising, at most kMaxBounds; they outlive it. A value belongs to the first bound that is not
  // smaller.
  explicit Histogram(std::span<const std::uint64_t> bounds) : bounds_(bounds) {
    KERF_CHECK(bounds.size() <= kMaxBounds);
  }

  void Observe(std::uint64_t value) {
    const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    buckets_[static_cast<std::size_t>(bound - bounds_.begin())].Add();
    sum_.Add(value);
  }
  // Many at once: one by one they would cost more than some chunks do.
  void Add(const HistogramCounts& counts) {
    for (std::size_t index = 0; index <= bounds_.size(); ++index) {
      if (counts.buckets[index] != 0) buckets_[index].Add(counts.buckets[index]);
    }
    if (counts.sum != 0) sum_.Add(counts.sum);
  }

  std::span<const std::uint64_t> bounds() const { return bounds_; }
  // Values that come meanwhile may be in the buckets and not yet in the sum.
  HistogramCounts counts() const {
    HistogramCounts counts;
    for (std::size_t index = 0; index <= bounds_.size(); ++index) {
      counts.buckets[index] = buckets_[index].value();
    }
    counts.sum = sum_.value();
    return counts;
  }

 private:
  const std::span<const std::uint64_t> bounds_;
  std::array<Counter, kMaxBounds + 1> buckets_;
  Counter sum_;
};

}  // namespace kerf::metrics
