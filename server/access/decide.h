// May he: the one place where that is decided.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/access/access_rules.h"
#include "server/access/identity.h"
#include "server/access/method.h"

namespace kerf::access {

enum class Decision : std::uint8_t {
  kAllowed,
  // Nobody knows who it is.
  kUnknown,
  // What he is known by has come to its end.
  kExpired,
  kForbidden,
};

// Pure. Without a repository: whether there may be one in which the call would be allowed, for whom
// does not see yet which one it is about. `now_s`: seconds since 1970.
Decision Decide(const AccessRules& rules, std::int64_t now_s, const Identity& identity, Need need,
                std::optional<std::string_view> repository);

// Pure. Whether it may say who calls: it is a front.
Decision DecideToSpeak(const AccessRules& rules, std::int64_t now_s, const Identity& identity);

}  // namespace kerf::access
