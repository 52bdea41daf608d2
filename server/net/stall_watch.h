// Notices when one stream waits for one thing for long, and when it goes on.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "server/metrics/counters.h"

namespace kerf {

// Where a stream can wait.
enum class WaitPlace : std::uint8_t {
  // It does not wait, or is idle between two files.
  kNone,
  // For the Open frame, or in mid-file for data.
  kClientData,
  // The client does not read its answers.
  kClientReading,
  // It has work, and no thread to do it, or one that takes long.
  kThread,
  // For memory to cut in.
  kMemory,
  kGpu,
  kLookup,
  kCommit,
  kForget,
  // Of a front: the worker takes no more messages.
  kWorkerReading,
  // Of a front, which does not look into messages: nothing is on its way, and the client had the
  // last word. The worker has not answered it, or waits for more.
  kWorkerAnswer,
};
inline constexpr std::array<std::string_view, 11> kWaitPlaceNames = {
    "none",   "client_data", "client_reading", "thread",         "memory",       "gpu",
    "lookup", "commit",      "forget",         "worker_reading", "worker_answer"};
// Where streams of a worker can wait, and calls that a front passes on.
inline constexpr std::array kWorkerWaitPlaces = {
    WaitPlace::kClientData, WaitPlace::kClientReading, WaitPlace::kThread, WaitPlace::kMemory,
    WaitPlace::kGpu,        WaitPlace::kLookup,        WaitPlace::kCommit, WaitPlace::kForget};
inline constexpr std::array kFrontWaitPlaces = {WaitPlace::kClientData, WaitPlace::kClientReading,
                                                WaitPlace::kWorkerReading,
                                                WaitPlace::kWorkerAnswer};
inline std::string_view NameOf(WaitPlace place) {
  return kWaitPlaceNames[static_cast<std::size_t>(place)];
}

// Not thread-safe.
class StallWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct News {
    // Else it goes on.
    bool has_begun = false;
    WaitPlace place = WaitPlace::kNone;
    std::chrono::nanoseconds waited{0};
    // The stream has waited for long there before.
    bool is_repeated = false;
  };

  // The stream waits there now, and has come so far: any number that changes with each step. Tells
  // of a wait once it lasts for `patience`, and again when it is over.
  std::optional<News> Look(WaitPlace place, std::uint64_t progress, TimePoint now,
                           std::chrono::nanoseconds patience);
  // The stream has ended.
  std::optional<News> End(TimePoint now);

 private:
  WaitPlace place_ = WaitPlace::kNone;
  std::uint64_t progress_ = 0;
  TimePoint since_;
  bool is_told_ = false;
  bool is_repeated_ = false;
  // By place.
  std::array<bool, kWaitPlaceNames.size()> was_told_{};
};

// Of all streams of a process, by place. Thread-safe.
class StallCounters {
 public:
  void Count(const StallWatch::News& news) {
    (news.has_begun ? begun_ : ended_)[static_cast<std::size_t>(news.place)].Add();
  }
  std::uint64_t begun_count(WaitPlace place) const {
    return begun_[static_cast<std::size_t>(place)].value();
  }
  std::uint64_t stalled_count(WaitPlace place) const {
    // Nobody orders the two counters: an end may be seen before its beginning.
    const std::uint64_t ended_count = ended_[static_cast<std::size_t>(place)].value();
    const std::uint64_t begun = begun_count(place);
    return begun - std::min(begun, ended_count);
  }
  // At any place.
  std::uint64_t stalled_count() const {
    std::uint64_t count = 0;
    for (std::size_t index = 0; index < kWaitPlaceNames.size(); ++index) {
      count += stalled_count(static_cast<WaitPlace>(index));
    }
    return count;
  }

 private:
  std::array<metrics::Counter, kWaitPlaceNames.size()> begun_;
  std::array<metrics::Counter, kWaitPlaceNames.size()> ended_;
};

}  // namespace kerf
