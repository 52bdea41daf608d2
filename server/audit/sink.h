// Where records of calls go: a queue in memory, and a thread of its own that writes it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/rpc/line_rate.h"
#include "server/audit/chain_file.h"
#include "server/audit/wall_clock.h"
#include "server/metrics/counters.h"
#include "server/metrics/page.h"
#include "server/net/clock.h"

namespace kerf::audit {

// Thread-safe; no call waits for a disk, except the first and the last. Records are durable a
// second after they came, at the latest.
class Sink {
 public:
  struct Options {
    std::string path;
    std::uint64_t max_file_bytes = std::uint64_t{100} << 20;
    // What cannot be recorded is not to be done. False: kerfd only says so, and goes on.
    bool refuses = true;
    std::string worker = {};
    // Records that wait, and places that are kept for calls under way.
    std::size_t max_waiting = 16'384;
    // Of records without a place, at once: what is refused may come without end.
    std::size_t max_minor_bytes = std::size_t{8} << 20;
    // Of calls that changed nothing: so many at once, and then so many a second, have a line each;
    // the others are only counted.
    std::size_t minor_reserve = 1'000;
    std::size_t minor_rate = 50;
    // How often the file is synced and looked at.
    std::chrono::milliseconds interval{1'000};
    // How often the last line's hash goes into kerfd's log, if it is another one.
    std::chrono::milliseconds tell_interval{600'000};
    Clock clock = [] { return std::chrono::steady_clock::now(); };
    std::function<std::int64_t()> wall_clock_ms = WallClockMs;
  };

  // Errors are those of ChainFile::Open.
  static absl::StatusOr<std::unique_ptr<Sink>> Open(const Options& options);
  // Writes what waits, as far as it goes.
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  const Options& options() const { return options_; }

  // A place for the record of a call that may change something, kept until Put or Release. False:
  // there is none.
  bool Reserve();
  void Release();
  // Of a call that has a place.
  void Put(std::string members);
  // Of one that has none, and has changed nothing; `outcome` is one of few.
  void PutMinor(std::string members, std::string_view outcome);
  // The same of whom the door has not let in: ten a second of one outcome at most, and none where
  // less than half of the reserve is left, so that no flood of them takes the lines of calls.
  void PutTurnedAway(std::string members, std::string_view outcome);

  // Unavailable: the file cannot be written, and why; or too much waits for it.
  absl::Status status() const;

  void AddMetrics(metrics::Page& page) const;

 private:
  Sink(const Options& options, std::unique_ptr<ChainFile> file);

  // Needs, and leaves, so many lines of the reserve.
  void PutMinorAbove(double reserve, std::string members, std::string_view outcome);
  void LeaveOutLocked(std::string_view outcome);

  // All that follows is the thread's.
  void Run();
  absl::Status WriteSome(std::vector<std::string> lines);
  absl::Status Tick();
  void AddLeftOut();
  void TellHash(bool at_once);
  void SetTrouble(const absl::Status& status);

  const Options options_;
  const std::unique_ptr<ChainFile> file_;
  TimePoint told_at_;
  std::string told_hash_;
  // Of the first line that was not made durable because a sync failed; 0: none.
  std::uint64_t unsynced_seq_ = 0;
  std::uint64_t synced_seq_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wakeup_;
  bool is_stopping_ = false;
  std::vector<std::string> queue_;
  // With those that the thread has in hand.
  std::size_t waiting_count_ = 0;
  std::size_t reserved_count_ = 0;
  std::size_t minor_bytes_ = 0;
  // Tokens of minor_rate.
  double minor_tokens_ = 0;
  TimePoint tokens_at_;
  LineRate turned_away_;
  std::map<std::string, std::uint64_t, std::less<>> left_out_;
  std::uint64_t lost_count_ = 0;
  absl::Status trouble_;
  // The thread has been at the disk since then.
  std::optional<TimePoint> busy_since_;

  metrics::Counter written_;
  metrics::Counter left_out_total_;
  metrics::Counter lost_total_;
  std::atomic<std::uint64_t> file_bytes_{0};
  std::thread thread_;
};

}  // namespace kerf::audit
