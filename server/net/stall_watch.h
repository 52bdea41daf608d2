// Notices when one stream waits for one thing for long, and when it goes on.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

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
  // For its turn in what the caller, or the repository, may send.
  kQuota,
  // Of a front: the worker takes no more messages.
  kWorkerReading,
  // Of a front, which does not look into messages: nothing is on its way, and the client had the
  // last word. The worker has not answered it, or waits for more.
  kWorkerAnswer,
};
inline constexpr std::array<std::string_view, 12> kWaitPlaceNames = {
    "none",   "client_data", "client_reading", "thread", "memory",         "gpu",
    "lookup", "commit",      "forget",         "quota",  "worker_reading", "worker_answer"};
// Where streams of a worker can wait, and calls that a front passes on.
inline constexpr std::array kWorkerWaitPlaces = {
    WaitPlace::kClientData, WaitPlace::kClientReading, WaitPlace::kThread,
    WaitPlace::kMemory,     WaitPlace::kGpu,           WaitPlace::kLookup,
    WaitPlace::kCommit,     WaitPlace::kForget,        WaitPlace::kQuota};
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

}  // namespace kerf
