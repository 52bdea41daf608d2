#include "client/agent/verbs/retry_flag.h"

#include "base/limits.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/cli/duration.h"

namespace kerf::agent {

// As RetryFlag has it.
static_assert(limits::kRetryFor == std::chrono::minutes(5));

absl::StatusOr<std::chrono::milliseconds> RetryFlag::Parse() const { return ParseDuration(text); }

std::string RefuseNoDuration(const std::string& text) {
  return std::string(MessageOf(ParseDuration(text).status()));
}

void AddRetryOption(const Verb& verb, const std::string& help, RetryFlag& flag) {
  verb.AddOption("--retry-for", flag.text, Cat(help, ", as 90s or 1h; 0: not at all"))
      .Check(RefuseNoDuration)
      .Type("TIME")
      .ShowDefault();
}

void AddIndexRetryOption(const Verb& verb, RetryFlag& flag) {
  AddRetryOption(
      verb,
      "How long each call that the server makes wait for its turn (quotas, or too many calls at "
      "once), or that meets a server which stops or is away, and an epoch that its index does not "
      "take in one go, are tried again before this ends",
      flag);
}

}  // namespace kerf::agent
