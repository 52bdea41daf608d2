// Who waits for a file that does not answer: what is behind its file system, a network or a
// program, may be silent for ever, and no call of the system says so.
#pragma once

#include <chrono>
#include <iterator>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kerf::agent {

// Thread-safe.
class SlowReads {
 public:
  using Clock = std::chrono::steady_clock;

  // For as long as it lives the calling thread waits for the file.
  class Wait {
   public:
    Wait(SlowReads& reads, const std::string& path) : reads_(reads) {
      const std::lock_guard lock(reads_.mutex_);
      reads_.entries_.push_back(Entry{.path = path, .begin = Clock::now()});
      entry_ = std::prev(reads_.entries_.end());
    }
    ~Wait() {
      const std::lock_guard lock(reads_.mutex_);
      reads_.entries_.erase(entry_);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    friend class SlowReads;
    struct Entry {
      const std::string& path;
      Clock::time_point begin;
      bool is_told = false;
    };

    SlowReads& reads_;
    std::list<Entry>::iterator entry_;
  };

  // The files that somebody has waited for this long by now; of each wait but once.
  std::vector<std::string> Take(Clock::duration limit) {
    const Clock::time_point latest = Clock::now() - limit;
    std::vector<std::string> paths;
    const std::lock_guard lock(mutex_);
    for (Wait::Entry& entry : entries_) {
      if (entry.begin > latest || std::exchange(entry.is_told, true)) continue;
      paths.push_back(entry.path);
    }
    return paths;
  }

 private:
  std::mutex mutex_;
  std::list<Wait::Entry> entries_;
};

}  // namespace kerf::agent
