#include "server/access/access_state.h"

#include <filesystem>
#include <utility>

#include "base/small_file.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::access {
namespace {

constexpr std::size_t kMaxKeysBytes = std::size_t{1} << 20;

std::string Beside(const std::string& path, const std::string& other) {
  return (std::filesystem::path(path).parent_path() / other).string();
}

}  // namespace

absl::StatusOr<AccessTexts> AccessReader::Read() {
  AccessTexts texts;
  KERF_ASSIGN_OR_RETURN(texts.rules, ReadSmallFile(path_, kMaxAccessFileBytes));
  if (texts.rules != rules_) {
    rules_ = texts.rules;
    keys_paths_.clear();
    // What is wrong with them is for Make to say.
    const absl::StatusOr<AccessRules> rules = AccessRules::Parse(rules_);
    if (rules.ok()) {
      keys_paths_.reserve(rules->issuers().size());
      for (const IssuerEntry& issuer : rules->issuers()) keys_paths_.push_back(issuer.keys_path);
    }
  }
  for (const std::string& keys_path : keys_paths_) {
    KERF_ASSIGN_OR_RETURN(texts.keys[keys_path],
                          ReadSmallFile(Beside(path_, keys_path), kMaxKeysBytes));
  }
  return texts;
}

absl::StatusOr<AccessState> AccessState::Make(const std::string& path, const AccessTexts& texts) {
  absl::StatusOr<AccessRules> rules = AccessRules::Parse(texts.rules);
  if (!rules.ok()) return Annotate(rules.status(), path);
  AccessState state{.rules = *std::move(rules)};
  for (const IssuerEntry& issuer : state.rules.issuers()) {
    absl::StatusOr<JwkSet> keys = JwkSet::Parse(texts.keys.at(issuer.keys_path));
    if (!keys.ok()) return Annotate(keys.status(), Beside(path, issuer.keys_path));
    state.issuers.push_back({issuer.name, issuer.audience, *std::move(keys)});
  }
  return state;
}

}  // namespace kerf::access
