// Programs started by a test, the way a user starts them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kerf::e2e {

struct ProgramOptions {
  // The whole environment of the program.
  std::map<std::string, std::string> environment;
  // Empty: that of the test.
  std::string working_directory;
  std::string standard_input;
  // Takes from root what lets it read, own and make everything (its capabilities), so that it is
  // refused what its user id is refused. Nothing changes for anyone else.
  bool without_privileges = false;
};

// How a program ended.
struct Completed {
  // 128 + the signal if one ended it.
  int exit_code = -1;
  std::string out;
  std::string err;
  // The most memory that it ever had resident.
  std::uint64_t peak_resident_mib = 0;
};

// One running program; killed if it still runs at the end. Standard output and error go to files in
// a directory of the caller. Not thread-safe.
class Program {
 public:
  // `output_prefix` + ".out" and ".err" take the output.
  Program(const std::vector<std::string>& arguments, const std::string& output_prefix,
          const ProgramOptions& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const;
  // True if it has ended; does not wait.
  bool HasEnded();
  // kill -9, and waits until it is gone. True if it was still running.
  bool Kill();
  // The most memory that it had resident until now.
  std::uint64_t PeakResidentMiB() const;
  // Waits for its end. A program that takes longer than a minute is killed and fails the test.
  Completed Wait();

 private:
  // With WNOHANG in `options` only if it has ended.
  bool Reap(int options);

  const std::string output_prefix_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = -1;
  std::uint64_t peak_resident_mib_ = 0;
};

// The binary that Bazel built for a test that names it in `data`: "client/agent/kerf".
std::string BuiltProgram(const std::string& path);

std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);

}  // namespace kerf::e2e
