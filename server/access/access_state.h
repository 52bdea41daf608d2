// All that --access says at one time: its rules, and the keys of issuers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/access_rules.h"
#include "server/access/jwt.h"

namespace kerf::access {

// What stands in the files.
struct AccessTexts {
  std::string rules = {};
  // Of issuers, by their paths as the rules say them.
  std::map<std::string, std::string> keys = {};

  friend bool operator==(const AccessTexts&, const AccessTexts&) = default;
};

// The file at `path`, and those that it names, beside it unless their paths are absolute. Errors
// name the file; rules that are none have no keys.
absl::StatusOr<AccessTexts> ReadAccessFiles(const std::string& path);

// Immutable, and thus thread-safe.
struct AccessState {
  // InvalidArgument names the file and says what is wrong with it.
  static absl::StatusOr<AccessState> Make(const std::string& path, const AccessTexts& texts);

  AccessRules rules = {};
  std::vector<JwtIssuer> issuers = {};
};

}  // namespace kerf::access
