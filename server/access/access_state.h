// All that --access says at one time: its rules, and the keys of issuers.
#pragma once

#include <map>
#include <string>
#include <utility>
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

// Reads the file at `path`, and those that it names, beside it unless their paths are absolute. Not
// thread-safe.
class AccessReader {
 public:
  explicit AccessReader(std::string path) : path_(std::move(path)) {}

  // Errors name the file; rules that are none have no keys.
  absl::StatusOr<AccessTexts> Read();

 private:
  const std::string path_;
  // Which files the rules name that were read last: they are long, and looked at every second.
  std::string rules_;
  std::vector<std::string> keys_paths_;
};

// Immutable, and thus thread-safe.
struct AccessState {
  // InvalidArgument names the file and says what is wrong with it.
  static absl::StatusOr<AccessState> Make(const std::string& path, const AccessTexts& texts);

  AccessRules rules = {};
  std::vector<JwtIssuer> issuers = {};
};

}  // namespace kerf::access
