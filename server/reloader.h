// What SIGHUP asks for: files that kerfd follows are read at once, and what is wrong with them
// said.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/service_manager.h"

namespace kerf {

// Some files that belong together.
struct ReloadedFiles {
  // As the log says it: "--access".
  std::string name;
  // OK: what stands in them is in force; else why what was there before still is.
  std::function<absl::Status()> reload;
};

// In a thread of its own: a file on a disk that hangs keeps nobody from ending kerfd's streams
// well. Thread-safe.
class Reloader {
 public:
  // `files` and `manager` outlive it.
  Reloader(std::vector<ReloadedFiles> files, ServiceManager& manager);
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;
  // Waits for a reload that is under way.
  ~Reloader() = default;

  // Returns at once. All that was written before is read after it, by one reload for all who ask
  // while another one is under way.
  void Ask();

 private:
  void Run(const std::stop_token& stop);
  void Reload();

  const std::vector<ReloadedFiles> files_;
  ServiceManager& manager_;

  std::mutex mutex_;
  std::condition_variable_any asked_;
  bool is_asked_ = false;

  // Last: it uses all of them.
  std::jthread thread_;
};

}  // namespace kerf
