#include "e2e/world.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::e2e {
namespace {

// A guard against a hang: on a disk that others keep busy RocksDB opens for half a minute.
constexpr std::chrono::seconds kStartPatience{120};
constexpr std::chrono::milliseconds kStartPoll{5};

// Tests run again with backups that go by place, or whatever else this says of --chunk-list-memory.
void AddBackupFlags(std::vector<std::string>& arguments) {
  const char* const memory = std::getenv("KERF_TEST_CHUNK_LIST_MEMORY");
  const auto verb = std::find(arguments.begin(), arguments.end(), "backup");
  if (memory == nullptr || verb == arguments.end()) return;
  arguments.insert(verb + 1, {"--chunk-list-memory", memory});
}

}  // namespace

std::vector<nlohmann::json> JsonRun::Of(std::string_view message_type) const {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& message : messages) {
    if (message["message_type"] == message_type) found.push_back(message);
  }
  return found;
}

nlohmann::json JsonRun::Only(std::string_view message_type) const {
  const std::vector<nlohmann::json> found = Of(message_type);
  if (found.size() == 1) return found.front();
  ADD_FAILURE() << found.size() << " messages of type " << message_type;
  for (const nlohmann::json& message : messages)
    std::fprintf(stderr, "%s\n", message.dump().c_str());
  return nlohmann::json::object();
}

World::World() {
  // In folders of their own, so that the one above keeps its time. The last one is kerf's, for what
  // it knows of stores.
  for (const char* name : {"runs", "server", ".local"}) {
    KERF_CHECK(mkdir((folder_ / name).c_str(), 0700) == 0);
  }
  environment_["PATH"] = "/usr/local/bin:/usr/bin:/bin";
  environment_["HOME"] = path();
  environment_["TZ"] = "UTC";
  environment_["KERF_STORE"] = store();
  environment_["KERF_SERVER"] = address();
}

ProgramOptions World::Options() const {
  ProgramOptions options;
  options.environment = environment_;
  options.working_directory = path();
  options.without_privileges = without_privileges_;
  return options;
}

std::string World::NextPrefix() { return folder_ / Cat("runs/", ++run_count_); }

void World::StartServer(const std::vector<std::string>& flags) {
  server_.reset();
  std::vector<std::string> arguments = flags;
  if (std::find(flags.begin(), flags.end(), "--redis") == flags.end()) {
    arguments.insert(arguments.begin(), {"--data-dir", folder_ / "server/data"});
  }
  server_ = StartKerfd(kServerName, arguments);
  if (server_ == nullptr) FAIL() << "there is no server";
}

std::unique_ptr<Program> World::StartKerfd(const std::string& name,
                                           const std::vector<std::string>& flags) {
  const std::string ready = ReadyFile(name);
  unlink(ready.c_str());
  std::vector<std::string> arguments = {BuiltProgram("server/kerfd"), "--listen", AddressOf(name),
                                        "--ready-file", ready};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  auto kerfd = std::make_unique<Program>(arguments, NextPrefix(), Options());
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  while (access(ready.c_str(), F_OK) != 0) {
    if (kerfd->HasEnded() || std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "kerfd does not start: " << kerfd->Wait().err;
      return nullptr;
    }
    std::this_thread::sleep_for(kStartPoll);
  }
  return kerfd;
}

std::string World::StopServer() {
  server_->Signal(SIGTERM);
  const Completed end = server_->Wait();
  EXPECT_EQ(end.exit_code, 0) << end.err;
  server_.reset();
  return end.err;
}

std::string World::LastAddressOf(const std::string& name) const {
  const std::string text = ReadText(ReadyFile(name));
  KERF_CHECK(!text.empty() && text.back() == '\n');
  const std::string lines = text.substr(0, text.size() - 1);
  return lines.substr(lines.rfind('\n') + 1);
}

bool World::BackupsGoByPlace() {
  const char* const memory = std::getenv("KERF_TEST_CHUNK_LIST_MEMORY");
  return memory != nullptr && std::string_view(memory) == "0";
}

std::unique_ptr<Program> World::Start(std::vector<std::string> arguments) {
  AddBackupFlags(arguments);
  arguments.insert(arguments.begin(), BuiltProgram("client/agent/kerf"));
  return StartOther(arguments);
}

Completed World::Kerf(std::vector<std::string> arguments, const std::string& standard_input) {
  AddBackupFlags(arguments);
  arguments.insert(arguments.begin(), BuiltProgram("client/agent/kerf"));
  ProgramOptions options = Options();
  options.standard_input = standard_input;
  return Program(arguments, NextPrefix(), options).Wait();
}

std::unique_ptr<Program> World::StartOther(const std::vector<std::string>& arguments) {
  return std::make_unique<Program>(arguments, NextPrefix(), Options());
}

Completed World::Run(const std::vector<std::string>& arguments) {
  return StartOther(arguments)->Wait();
}

JsonRun World::KerfJson(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Completed end = Kerf(std::move(arguments));
  EXPECT_EQ(end.err, "");
  JsonRun run;
  run.exit_code = end.exit_code;
  std::istringstream lines(end.out);
  std::string line;
  while (std::getline(lines, line)) {
    nlohmann::json message = nlohmann::json::parse(line, nullptr, false);
    const bool good = message.is_object() && message.contains("message_type") &&
                      message["message_type"].is_string();
    if (good) {
      run.messages.push_back(std::move(message));
    } else {
      ADD_FAILURE() << "not a message: " << line;
    }
  }
  return run;
}

nlohmann::json World::Backup(std::vector<std::string> arguments, int exit_code) {
  arguments.insert(arguments.begin(), "backup");
  const JsonRun run = KerfJson(std::move(arguments));
  EXPECT_EQ(run.exit_code, exit_code);
  return run.Only("summary");
}

void World::ExpectNothingNew(const nlohmann::json& backup) const {
  EXPECT_EQ(backup["new_chunks"], backup["new_metadata_chunks"]) << backup;
  EXPECT_EQ(backup["new_bytes"], backup["new_metadata_bytes"]) << backup;
  // Nor is anything new that the store has.
  EXPECT_EQ(backup["healed_chunks"], 0) << backup;
}

}  // namespace kerf::e2e
