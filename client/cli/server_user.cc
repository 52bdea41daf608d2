#include "client/cli/server_user.h"

#include <pwd.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

#include "base/overflow_user.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

std::optional<uid_t> NumberOf(const std::string& user) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(user.data(), user.data() + user.size(), number);
  if (error == std::errc() && end == user.data() + user.size()) return uid_t{number};
  if (const passwd* const entry = getpwnam(user.c_str())) return entry->pw_uid;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<uid_t> ServerUserOf(const std::string& user) {
  const std::optional<uid_t> number = NumberOf(user);
  if (!number.has_value()) {
    return absl::InvalidArgumentError(
        Cat("--server-user: this machine knows no user '", user, "'"));
  }
  if (!MayBeAnybody(*number)) return *number;
  return absl::InvalidArgumentError(
      Cat("--server-user: ", user, " is user ", *number, kMayBeAnybody,
          ", so each of them could have the token: run kerfd as a user that has a number here"));
}

}  // namespace kerf::agent
