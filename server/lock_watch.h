// Ends kerfd with those for whom it was started (docs/adr/0031-a-kerfd-of-ones-own.md).
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf {

// Looks at the lock of a file that those hold, shared, for whom kerfd serves: the system gives it
// back when one of them ends, however he does. Its methods are of one thread.
class LockWatch {
 public:
  // Calls `on_free` once, from a thread of its own, when nobody holds it any more; from then on
  // nobody gets it until this process has ended, and its sockets with it: who comes too late for
  // this kerfd waits for the next one. Errors are those of opening the file, which has to be there.
  static absl::StatusOr<std::unique_ptr<LockWatch>> Start(const std::string& path,
                                                          std::function<void()> on_free);
  LockWatch(const LockWatch&) = delete;
  LockWatch& operator=(const LockWatch&) = delete;
  ~LockWatch();

 private:
  LockWatch(UniqueFd file, std::function<void()> on_free);
  void Run();

  UniqueFd file_;
  const std::function<void()> on_free_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  bool has_it_ = false;
  std::thread thread_;
};

}  // namespace kerf
