// Static tokens: "kerf_ID_SECRET", shown as "authorization: Bearer kerf_ID_SECRET".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/access/access_rules.h"

namespace kerf::access {

struct ShownToken {
  // The name of its identity, "token/ID": ID is 1 to 32 of [a-z0-9-].
  std::string name;
  // Of the whole token.
  TokenHash hash;
};

// What a value of "authorization" shows as its bearer's; empty: nothing.
std::string_view BearerOf(std::string_view authorization);
// Whether it may be the ID of one.
bool IsTokenId(std::string_view text);
// Nothing: it is no token of kerf's.
std::optional<ShownToken> ParseToken(std::string_view token);

// Whether it is the token of this entry; takes as long where there is none (null) or it has no
// token.
bool IsTokenOf(const ShownToken& shown, const AccessEntry* entry);

}  // namespace kerf::access
