// A kerfd, a store and the `kerf` command, in a folder of their own.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/fs/testing/temporary_directory.h"
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

// Nothing of the user's environment comes in. With KERF_TEST_CHUNK_LIST_MEMORY all backups have
// that --chunk-list-memory. Not thread-safe.
class World {
 public:
  World();

  // Starts kerfd on a unix socket and waits until it serves. Ends the one that runs. Its index is
  // in a folder of the world, unless the flags have a --redis.
  void StartServer(const std::vector<std::string>& flags = {});
  // Starts one more kerfd at AddressOf(name), with these flags and no others, and waits until it
  // serves. Null, and a failed test, if it does not. Its name is short: it becomes a socket's.
  std::unique_ptr<Program> StartKerfd(const std::string& name,
                                      const std::vector<std::string>& flags);
  static std::string AddressOf(const std::string& name) { return "unix:server/" + name + ".sock"; }
  // Where that one serves beside AddressOf(name), if a flag said so: its last address.
  std::string LastAddressOf(const std::string& name) const;
  // SIGTERM, and checks that it ends well; what it has logged.
  std::string StopServer();
  Program& server() { return *server_; }
  // Where it serves beside address(), if a flag said so: the last address that it was given.
  std::string last_address() const { return LastAddressOf(kServerName); }

  std::string operator/(const std::string& name) const { return folder_ / name; }
  const std::string& path() const { return folder_.path(); }
  std::string store() const { return folder_ / "store"; }
  // Relative, because a socket's path may only be short; every program runs in path().
  std::string address() const { return AddressOf(kServerName); }

  // For all runs from now on. KERF_STORE and KERF_SERVER are set in the beginning.
  void SetEnvironment(const std::string& name, const std::string& value) {
    environment_[name] = value;
  }
  void UnsetEnvironment(const std::string& name) { environment_.erase(name); }

  // All runs from now on are without root's privileges (ProgramOptions::without_privileges).
  void DropPrivileges() { without_privileges_ = true; }

  // Whether the store's chunks are listed by no backup: it knows only of those that its index
  // knows.
  static bool BackupsGoByPlace();

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
  // That the last backup had no new chunk but those that tell of files: of the folders above
  // path(), which are other tests', too, and may change at any time; and of one that was written
  // less than two seconds before the backup before (client/fs/stamp_clock.h).
  void ExpectNothingNew(const nlohmann::json& backup) const;

 private:
  static constexpr const char* kServerName = "kerfd";

  ProgramOptions Options() const;
  std::string ReadyFile(const std::string& name) const {
    return folder_ / ("server/" + name + ".ready");
  }
  std::string NextPrefix();

  agent::testing::TemporaryDirectory folder_;
  std::map<std::string, std::string> environment_;
  bool without_privileges_ = false;
  int run_count_ = 0;
  std::unique_ptr<Program> server_;
};

}  // namespace kerf::e2e
