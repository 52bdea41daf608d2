// A run of a program of the client within the test's own process.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace kerf::agent {

using Arguments = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
  // With --json, less progress: that comes on a slow machine and not on a fast one.
  std::vector<nlohmann::json> messages;

  // Of the only message, which is an error.
  std::string code() const { return Only("code"); }
  std::string message() const { return Only("message"); }

 private:
  std::string Only(const char* key) const {
    if (messages.size() == 1 && messages[0]["message_type"] == "error") return messages[0][key];
    ADD_FAILURE() << "not one error: " << out;
    return "";
  }
};

// RunCommand, or RunLabCommand.
using RunFunction = int (*)(int argc, char** argv, const std::atomic<bool>& cancelled);

inline Outcome RunHere(RunFunction run, Arguments arguments, const std::atomic<bool>& cancelled) {
  arguments.insert(arguments.begin(), "kerf");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exit_code = run(static_cast<int>(argv.size()) - 1, argv.data(), cancelled);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

// With --json.
inline Outcome RunJsonHere(RunFunction run, Arguments arguments,
                           const std::atomic<bool>& cancelled) {
  arguments.push_back("--json");
  Outcome outcome = RunHere(run, std::move(arguments), cancelled);
  EXPECT_EQ(outcome.err, "");
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json message = nlohmann::json::parse(line, nullptr, false);
    EXPECT_TRUE(message.is_object() && message["message_type"].is_string()) << line;
    const bool is_progress = message.is_object() && message["message_type"] == "progress";
    if (message.is_object() && !is_progress) outcome.messages.push_back(std::move(message));
  }
  return outcome;
}

}  // namespace kerf::agent
