// What a test says to a fault file system while that serves others.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "e2e/fault_fs/file_system.h"

namespace kerf::fault_fs {

// Listens at a Unix socket; a line in, a line out ("ok ..." or "error ..."), one connection at a
// time:
//   arm OPERATIONS NTH TIMES ACTION [PATH]   a rule more (rules.h); the first one that fits holds
//   clear                                    no rules; counts and hits begin again
//   hits                                     how many operations rules were about
//   counts                                   how many operations of each kind there were
//   granularity NANOSECONDS                  of the times that are told
//   track | untrack                          whether notes are taken for `cut`
//   cut SEED                                 the power goes; how many names and files changed
class Control {
 public:
  static absl::StatusOr<UniqueFd> Listen(const std::string& path);

  Control(UniqueFd listener, FileSystem& files);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  ~Control();

 private:
  void Run();

  const UniqueFd listener_;
  FileSystem& files_;
  // Who is spoken with; -1: nobody.
  std::atomic<int> peer_{-1};
  std::thread thread_;
};

}  // namespace kerf::fault_fs
