// `--retry-for` of the verbs that try a server again.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/context.h"

namespace kerf::agent {

struct RetryFlag {
  // limits::kRetryFor, as people write it.
  std::string text = "5m";

  // InvalidArgument unless it is a time.
  absl::StatusOr<std::chrono::milliseconds> Parse() const;
};

// `help` says what is tried again, and is followed by how times are written.
void AddRetryOption(const Verb& verb, const std::string& help, RetryFlag& flag);

// Of those that ask the server's index, a call at a time.
void AddIndexRetryOption(const Verb& verb, RetryFlag& flag);

// What is wrong with a time; empty: nothing.
std::string RefuseNoDuration(const std::string& text);

}  // namespace kerf::agent
