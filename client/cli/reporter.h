// What `kerf` says, to people or, with --json, to programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/rpc/library_logs.h"

namespace kerf::agent {

// Thread-safe. With JSON, standard output carries one object a line and nothing else, each with its
// `message_type`. Otherwise results go to standard output; warnings, errors and progress to
// standard error.
class Reporter {
 public:
  struct Options {
    bool json = false;
    // Errors and warnings only.
    bool quiet = false;
    bool no_progress = false;
  };

  Reporter();
  void Configure(const Options& options);

  bool json() const { return options_.json; }
  // True if a progress line may be redrawn on standard error.
  bool live_progress() const { return live_progress_; }
  bool shows_progress() const { return !options_.quiet && !options_.no_progress; }

  // A line for people; nothing with --json or --quiet.
  void Line(std::string_view text);
  // A line for people that those want, too, who asked for errors and warnings only: on standard
  // error. Nothing with --json.
  void Notice(std::string_view text);
  // A result: always printed, nothing with --json.
  void Result(std::string_view text);
  // An object for programs; nothing without --json.
  void Json(std::string_view message_type, nlohmann::json object);
  void Warning(std::string_view path, const absl::Status& status);
  void Error(const absl::Status& status);
  // What a library says by itself, a peer's words perhaps among it.
  void Library(const LibraryLine& line);

  // Makes everything visible. An error if standard output could not be written; Cancelled if its
  // reader is gone.
  absl::Status Flush();
  // The same, once and for all. Some file systems (network, quotas) tell only where a file is
  // closed that what was written to it is lost.
  absl::Status Close();

  // Replaces the progress line on a terminal, as much of it as fits; an empty text removes it.
  // Elsewhere prints a line. ASCII only.
  void Progress(std::string_view text);

 private:
  void EraseProgress();
  void WriteOut(std::string_view text);

  Options options_;
  bool live_progress_ = false;
  std::mutex mutex_;
  bool progress_shown_ = false;
  std::chrono::steady_clock::time_point flushed_;
  // Of the first write to standard output that failed.
  int write_error_ = 0;
};

// Sets `object[key]`; text that is not UTF-8 gets replacement characters, and key + "_base64" has
// the exact bytes.
void PutBytes(nlohmann::json& object, const std::string& key, std::string_view bytes);

// An object for programs, as the line that Reporter::Json prints.
std::string FormatMessage(std::string_view message_type, nlohmann::json object);

bool IsUtf8(std::string_view text);

// For terminals: control characters and what is not UTF-8 as \xNN.
std::string Printable(std::string_view bytes);

// The message, for people; of a call also the id by which the logs of its servers know it.
std::string DescribeFailure(const absl::Status& status);

// "INVALID_ARGUMENT", ...
std::string StatusCodeName(absl::StatusCode code);

}  // namespace kerf::agent
