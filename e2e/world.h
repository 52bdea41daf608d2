// A kerfd, a store and the `kerf` command, in a folder of their own.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/agent/fs/testing/temporary_directory.h"
#include "e2e/program.h"

namespace kerf::e2e {

// What a run with --json said.
struct JsonRun {
  int exit_code = -1;
  std::vector<nlohmann::json> messages;

  // Of one message_type.
  std::vector<nlohmann::json> Of(std::string_view message_type) const;
  // The only one of that type; fails the test if there is none or more.
  nlohmann::json Only(std::string_view message_type) const;
};

// Nothing of the user's environment comes in. Not thread-safe.
class World {
 public:
  World();

  // Starts kerfd on a unix socket and waits until it serves. Ends the one that runs. Its index is
  // in a folder of the world, unless the flags have a --redis.
  void StartServer(const std::vector<std::string>& flags = {});
  // SIGTERM, and checks that it ends well; what it has logged.
  std::string StopServer();
  Program& server() { return *server_; }
  // Where it serves beside address(), if a flag said so: the last address that it was given.
  std::string last_address() const;

  std::string operator/(const std::string& name) const { return folder_ / name; }
  const std::string& path() const { return folder_.path(); }
  std::string store() const { return folder_ / "store"; }
  // Relative, because a socket's path may only be short; every program runs in path().
  std::string address() const { return "unix:server/kerfd.sock"; }

  // For all runs from now on. KERF_STORE and KERF_SERVER are set in the beginning.
  void SetEnvironment(const std::string& name, const std::string& value) {
    environment_[name] = value;
  }
  void UnsetEnvironment(const std::string& name) { environment_.erase(name); }

  // All runs from now on are without root's privileges (ProgramOptions::without_privileges).
  void DropPrivileges() { without_privileges_ = true; }

  std::unique_ptr<Program> Start(std::vector<std::string> arguments);
  Completed Kerf(std::vector<std::string> arguments, const std::string& standard_input = "");
  // With --json behind the arguments; fails the test if a line of standard output is not an object
  // with a message_type, or if there is anything on standard error.
  JsonRun KerfJson(std::vector<std::string> arguments);
  // Any other program of the machine.
  std::unique_ptr<Program> StartOther(const std::vector<std::string>& arguments);
  Completed Run(const std::vector<std::string>& arguments);

  // Backs up and returns the summary; the run must end with `exit_code`.
  nlohmann::json Backup(std::vector<std::string> arguments, int exit_code = 0);

 private:
  ProgramOptions Options() const;
  std::string NextPrefix();

  agent::testing::TemporaryDirectory folder_;
  std::map<std::string, std::string> environment_;
  bool without_privileges_ = false;
  int run_count_ = 0;
  std::unique_ptr<Program> server_;
};

}  // namespace kerf::e2e
