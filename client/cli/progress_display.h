// Shows how far a long run is, from a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "client/cli/reporter.h"

namespace kerf::agent {

struct ProgressState {
  std::uint64_t done_files = 0;
  std::uint64_t total_files = 0;
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  // The totals still grow.
  bool counting = false;
  // Bytes of which it is known whether they are stored already, and those of them that had to be
  // stored anew; shown if `has_saved`.
  std::uint64_t known_bytes = 0;
  std::uint64_t new_bytes = 0;
  bool has_saved = false;
  // What is counted as files.
  std::string_view noun = "files";
  // There are no bytes to speak of: share, speed and time left are those of the files.
  bool counts_only = false;
};

// "1,234 of 5,678 files  12.3 of 45.6 MiB  27%  123.4 MiB/s  0:12 left  98% saved", or with
// counts_only "1,234 of 5,678 chunks  21%  500/s  0:08 left".
std::string FormatProgress(const ProgressState& state, double seconds);

// "0:07", "12:34", "3:25:45".
std::string FormatDuration(double seconds);

// "1,234,567".
std::string FormatCount(std::uint64_t value);

// "1 entry", "1,234 entries".
std::string FormatCounted(std::uint64_t value, std::string_view noun);

// Several times a second on a terminal; otherwise a line or an object now and then. Ends when it is
// destroyed, and takes its line away.
class ProgressDisplay {
 public:
  // `state` is called from the display's thread.
  ProgressDisplay(Reporter& reporter, std::string_view verb, std::function<ProgressState()> state);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

 private:
  void Run();
  void Show(double seconds);

  Reporter& reporter_;
  const std::string verb_;
  const std::function<ProgressState()> state_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace kerf::agent
