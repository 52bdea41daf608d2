// Which operation of a file system goes wrong, and how.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf::fault_fs {

enum class Action {
  kNone,
  kError,      // the operation is not done, and fails
  kLateError,  // it is done, and fails all the same
  kDropError,  // it fails; a flush or fsync takes with it what was written since the last one
  kShort,      // a read or write of half the bytes
  kZeros,      // a read answers zeros
  kFlip,       // a read answers bytes of which one bit is wrong
  kStop,       // who asked is stopped (SIGSTOP); the operation is done
  kKill,       // who asked is killed (SIGKILL); the operation is done or not
  kDelay,      // done, later
};

struct Outcome {
  Action action = Action::kNone;
  // Of the three errors.
  int error = 0;
};

// What "arm" says; see Parse.
struct Rule {
  // Names of operations; empty: all.
  std::vector<std::string> operations;
  std::string path_part;
  // The first one that it is about, from 1.
  std::int64_t nth = 1;
  // How many from there on; 0: all.
  std::int64_t times = 1;
  Outcome outcome;

  // "OPERATION[,OPERATION]|* NTH TIMES ACTION [PART OF PATH]"; ACTION is an errno (EIO), late:EIO,
  // drop:EIO, short, zeros, flip, stop, kill or delay.
  static absl::StatusOr<Rule> Parse(std::string_view text);
};

// All rules, and how many operations there were. Thread-safe.
class Rules {
 public:
  void Arm(Rule rule);
  void Clear();
  // Counts the operation.
  Outcome Ask(std::string_view operation, std::string_view path);

  // How many operations rules were about.
  std::int64_t hits() const;
  // "OPERATION=COUNT OPERATION=COUNT".
  std::string Counts() const;

 private:
  struct Armed {
    Rule rule;
    std::int64_t seen = 0;
  };

  mutable std::mutex mutex_;
  std::vector<Armed> armed_;
  std::map<std::string, std::int64_t, std::less<>> counts_;
  std::int64_t hits_ = 0;
};

}  // namespace kerf::fault_fs
