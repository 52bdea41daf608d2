#include "server/access/access_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/toml.h"
#include "server/access/token.h"
#include "server/index/index.h"

// Its errors come as values.
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace kerf::access {
namespace {

constexpr std::size_t kMaxEntries = 65'536;
// Of one entry, all grants together.
constexpr std::size_t kMaxPatterns = 1024;
constexpr std::size_t kMaxIssuers = 16;
// Of all of them, looked through for each message of an upload.
constexpr std::size_t kMaxRepositoryEntries = 1024;
constexpr std::string_view kFrontRole = "front";

constexpr std::array<std::pair<std::string_view, Role>, 4> kRoles = {
    {{"read", Role::kRead}, {"write", Role::kWrite}, {"gc", Role::kGc}, {"admin", Role::kAdmin}}};

absl::Status Wrong(const toml::source_region& where, std::string_view what) {
  return absl::InvalidArgumentError(ToAbsl(Cat("line ", where.begin.line, ": ", what)));
}

// A mistyped key must not leave a grant, or an end, out in silence.
absl::Status CheckKeys(const toml::table& table, std::initializer_list<std::string_view> known) {
  for (const auto& [key, node] : table) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
    return Wrong(key.source(), Cat("nobody knows '", key.str(), "' here"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadText(const toml::table& table, std::string_view key) {
  const toml::node* const node = table.get(key);
  if (node == nullptr) return Wrong(table.source(), Cat("there is no ", key));
  const auto* const text = node->as_string();
  if (text == nullptr) return Wrong(node->source(), Cat(key, " is a \"string\""));
  return text->get();
}

// An array of tables, written as [[...]]; null: there is none.
absl::StatusOr<const toml::array*> ReadTables(const toml::table& table, std::string_view key) {
  const toml::node* const node = table.get(key);
  if (node == nullptr) return nullptr;
  const toml::array* const array = node->as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    return Wrong(node->source(), Cat("each ", key, " is a table, below [[", key, "]]"));
  }
  return array;
}

absl::StatusOr<TokenHash> ParseHash(const toml::table& table) {
  KERF_ASSIGN_OR_RETURN(const std::string text, ReadText(table, "sha256"));
  TokenHash hash{};
  const auto digit = [](char character) -> int {
    if (character >= '0' && character <= '9') return character - '0';
    if (character >= 'a' && character <= 'f') return character - 'a' + 10;
    return -1;
  };
  const auto wrong = [&] {
    return Wrong(table.get("sha256")->source(),
                 "sha256 is 64 hexadecimal digits in lower case, of the token");
  };
  if (text.size() != 2 * hash.size()) return wrong();
  for (std::size_t index = 0; index < hash.size(); ++index) {
    const int high = digit(text[2 * index]);
    const int low = digit(text[2 * index + 1]);
    if (high < 0 || low < 0) return wrong();
    hash[index] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return hash;
}

absl::StatusOr<std::int64_t> ParseExpiry(const toml::node& node) {
  const auto* const time = node.as_date_time();
  if (time == nullptr || !time->get().offset.has_value()) {
    return Wrong(node.source(), "expires is a time with its zone, as 2027-06-01T00:00:00Z");
  }
  const toml::date_time& at = time->get();
  const std::chrono::year_month_day day(std::chrono::year(at.date.year),
                                        std::chrono::month(at.date.month),
                                        std::chrono::day(at.date.day));
  const auto since = std::chrono::sys_days(day).time_since_epoch() +
                     std::chrono::hours(at.time.hour) + std::chrono::minutes(at.time.minute) -
                     std::chrono::minutes(at.offset->minutes);
  return std::chrono::duration_cast<std::chrono::seconds>(since).count() + at.time.second;
}

absl::Status CheckPattern(const toml::node& node, std::string_view pattern) {
  std::string_view name = pattern;
  if (name.ends_with('*')) name.remove_suffix(1);
  if (name.empty() && !pattern.empty()) return absl::OkStatus();
  if (ValidateRepositoryName(name).ok()) return absl::OkStatus();
  return Wrong(node.source(), Cat("'", pattern,
                                  "' is no name of a repository, 1 to 64 of [A-Za-z0-9._-], with "
                                  "one * at its end at most"));
}

absl::StatusOr<std::vector<std::string>> ParsePatterns(const toml::table& table) {
  const toml::node* const node = table.get("repositories");
  const toml::array* const array = node == nullptr ? nullptr : node->as_array();
  if (array == nullptr || array->empty() || !array->is_homogeneous(toml::node_type::string)) {
    return Wrong(node == nullptr ? table.source() : node->source(),
                 "repositories is an array of \"strings\", one at least");
  }
  std::vector<std::string> patterns;
  patterns.reserve(array->size());
  for (const toml::node& element : *array) {
    patterns.push_back(element.as_string()->get());
    KERF_RETURN_IF_ERROR(CheckPattern(element, patterns.back()));
  }
  return patterns;
}

absl::Status AddGrant(const toml::table& table, AccessEntry& entry) {
  KERF_RETURN_IF_ERROR(CheckKeys(table, {"role", "repositories"}));
  KERF_ASSIGN_OR_RETURN(const std::string role, ReadText(table, "role"));
  if (role == kFrontRole) {
    if (table.contains("repositories")) {
      return Wrong(table.get("repositories")->source(),
                   "a front has no repositories: those who call it have");
    }
    entry.is_front = true;
    return absl::OkStatus();
  }
  const auto* const known = std::find_if(kRoles.begin(), kRoles.end(),
                                         [&](const auto& named) { return named.first == role; });
  if (known == kRoles.end()) {
    return Wrong(table.get("role")->source(),
                 Cat("'", role, "' is no role: read, write, gc, admin or front"));
  }
  KERF_ASSIGN_OR_RETURN(std::vector<std::string> patterns, ParsePatterns(table));
  entry.grants.push_back({known->second, std::move(patterns)});
  return absl::OkStatus();
}

absl::Status AddGrants(const toml::table& table, AccessEntry& entry) {
  KERF_ASSIGN_OR_RETURN(const toml::array* const grants, ReadTables(table, "grant"));
  if (grants == nullptr) return absl::OkStatus();
  std::size_t pattern_count = 0;
  for (const toml::node& grant : *grants) {
    KERF_RETURN_IF_ERROR(AddGrant(*grant.as_table(), entry));
    if (!entry.grants.empty()) pattern_count += entry.grants.back().repositories.size();
    if (pattern_count > kMaxPatterns) {
      return Wrong(grant.source(),
                   Cat("more than ", kMaxPatterns, " repositories of one identity"));
    }
  }
  return absl::OkStatus();
}

// Whether anybody can be proven to be called so: a token in the place of its ID is a slip of the
// pen, and would let nobody in.
bool IsWhole(Proof proof, std::string_view name) {
  const std::string_view rest = name.substr(name.find('/') + 1);
  switch (proof) {
    case Proof::kToken:
      return IsTokenId(rest);
    case Proof::kJwt: {
      const std::size_t end = rest.find('#');
      return end != std::string_view::npos && end > 0 && end + 1 < rest.size();
    }
    case Proof::kUser: {
      std::uint32_t user = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), user);
      return error == std::errc() && Cat(user) == rest;
    }
    default:
      return true;
  }
}

// One of a quota's numbers.
struct QuotaKey {
  std::string_view name;
  std::optional<std::uint64_t> Quota::* number;
  // No entries: a repository that takes none. At a lower rate a message takes longer than clients
  // wait.
  std::int64_t min = 1;
  std::int64_t max = 0;
};
constexpr std::array<QuotaKey, 5> kQuotaKeys = {
    {{"max_streams", &Quota::max_streams, 2, 1'000'000},
     {"max_connections", &Quota::max_connections, 2, 1'000'000},
     {"max_entries", &Quota::max_entries, 0, 1'000'000'000'000'000},
     {"max_bytes_per_second", &Quota::max_bytes_per_second, 65'536, 1'000'000'000'000},
     {"max_calls_per_second", &Quota::max_calls_per_second, 1, 1'000'000}}};

absl::StatusOr<Quota> ParseQuota(const toml::table& table) {
  Quota quota;
  for (const QuotaKey& key : kQuotaKeys) {
    const toml::node* const node = table.get(key.name);
    if (node == nullptr) continue;
    const auto* const number = node->as_integer();
    if (number == nullptr || number->get() < key.min || number->get() > key.max) {
      return Wrong(node->source(), Cat(key.name, " is ", key.min, " to ", key.max));
    }
    quota.*key.number = static_cast<std::uint64_t>(number->get());
  }
  return quota;
}

absl::StatusOr<AccessEntry> ParseEntry(const toml::table& table) {
  KERF_RETURN_IF_ERROR(
      CheckKeys(table, {"name", "sha256", "expires", "grant", "max_streams", "max_connections",
                        "max_bytes_per_second", "max_calls_per_second"}));
  AccessEntry entry;
  KERF_ASSIGN_OR_RETURN(entry.name, ReadText(table, "name"));
  const std::optional<Proof> proof = ProofOf(entry.name);
  if (!proof.has_value() || !IsWhole(*proof, entry.name)) {
    return Wrong(table.get("name")->source(),
                 Cat("a name is 1 to ", kMaxIdentityBytes,
                     " visible characters of ASCII: the first URI or DNS name of a certificate, "
                     "token/ID with an ID of [a-z0-9-], jwt/ISSUER#SUBJECT or user/NUMBER"));
  }
  if (*proof == Proof::kToken) {
    KERF_ASSIGN_OR_RETURN(entry.token_hash, ParseHash(table));
  } else if (table.contains("sha256")) {
    return Wrong(table.get("sha256")->source(), "sha256 is for tokens: name = \"token/ID\"");
  }
  if (const toml::node* const expires = table.get("expires"); expires != nullptr) {
    KERF_ASSIGN_OR_RETURN(entry.expires_at_s, ParseExpiry(*expires));
  }
  KERF_ASSIGN_OR_RETURN(entry.quota, ParseQuota(table));
  KERF_RETURN_IF_ERROR(AddGrants(table, entry));
  return entry;
}

absl::StatusOr<std::vector<RepositoryEntry>> ParseRepositories(const toml::table& root) {
  std::vector<RepositoryEntry> repositories;
  KERF_ASSIGN_OR_RETURN(const toml::array* const tables, ReadTables(root, "repository"));
  if (tables == nullptr) return repositories;
  if (tables->size() > kMaxRepositoryEntries) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("more than ", kMaxRepositoryEntries, " quotas of repositories")));
  }
  for (const toml::node& node : *tables) {
    const toml::table& table = *node.as_table();
    KERF_RETURN_IF_ERROR(CheckKeys(table, {"name", "max_streams", "max_entries",
                                           "max_bytes_per_second", "max_calls_per_second"}));
    RepositoryEntry entry;
    KERF_ASSIGN_OR_RETURN(entry.pattern, ReadText(table, "name"));
    KERF_RETURN_IF_ERROR(CheckPattern(*table.get("name"), entry.pattern));
    KERF_ASSIGN_OR_RETURN(entry.quota, ParseQuota(table));
    const auto is_same = [&](const auto& other) { return other.pattern == entry.pattern; };
    if (std::any_of(repositories.begin(), repositories.end(), is_same)) {
      return Wrong(table.source(), Cat("'", entry.pattern, "' stands in the file twice"));
    }
    repositories.push_back(std::move(entry));
  }
  std::sort(repositories.begin(), repositories.end(), [](const auto& left, const auto& right) {
    const auto rank = [](const std::string& pattern) {
      return std::pair(!pattern.ends_with('*'), pattern.size());
    };
    return rank(left.pattern) > rank(right.pattern);
  });
  return repositories;
}

absl::StatusOr<std::vector<IssuerEntry>> ParseIssuers(const toml::table& root) {
  std::vector<IssuerEntry> issuers;
  KERF_ASSIGN_OR_RETURN(const toml::array* const tables, ReadTables(root, "issuer"));
  if (tables == nullptr) return issuers;
  for (const toml::node& node : *tables) {
    const toml::table& table = *node.as_table();
    KERF_RETURN_IF_ERROR(CheckKeys(table, {"name", "audience", "keys"}));
    IssuerEntry issuer;
    KERF_ASSIGN_OR_RETURN(issuer.name, ReadText(table, "name"));
    KERF_ASSIGN_OR_RETURN(issuer.audience, ReadText(table, "audience"));
    KERF_ASSIGN_OR_RETURN(issuer.keys_path, ReadText(table, "keys"));
    // Behind it a name goes on with whom the token is about.
    if (issuer.name.empty() || issuer.name.find('#') != std::string::npos) {
      return Wrong(table.get("name")->source(), "an issuer's name is a URL without a #");
    }
    if (issuer.audience.empty() || issuer.keys_path.empty()) {
      return Wrong(table.source(), "audience and keys are not empty");
    }
    const auto is_same = [&](const IssuerEntry& other) { return other.name == issuer.name; };
    if (std::any_of(issuers.begin(), issuers.end(), is_same)) {
      return Wrong(table.source(), Cat("'", issuer.name, "' stands in the file twice"));
    }
    if (issuers.size() >= kMaxIssuers) {
      return Wrong(table.source(), Cat("more than ", kMaxIssuers, " issuers"));
    }
    issuers.push_back(std::move(issuer));
  }
  return issuers;
}

}  // namespace

absl::StatusOr<AccessRules> AccessRules::Parse(std::string_view text) {
  KERF_RETURN_IF_ERROR(CheckTomlDepth(text));
  const toml::parse_result parsed = toml::parse(text);
  if (parsed.failed()) return Wrong(parsed.error().source(), parsed.error().description());
  KERF_RETURN_IF_ERROR(CheckKeys(parsed.table(), {"identity", "issuer", "repository"}));
  KERF_ASSIGN_OR_RETURN(const toml::array* const identities,
                        ReadTables(parsed.table(), "identity"));
  AccessRules rules;
  KERF_ASSIGN_OR_RETURN(rules.issuers_, ParseIssuers(parsed.table()));
  KERF_ASSIGN_OR_RETURN(rules.repositories_, ParseRepositories(parsed.table()));
  // A file that is written anew has nothing in it for a moment.
  if (identities == nullptr || identities->empty()) {
    return absl::InvalidArgumentError(
        "it names nobody, so nobody could do anything: at least one [[identity]] is needed");
  }
  if (identities->size() > kMaxEntries) {
    return absl::InvalidArgumentError(ToAbsl(Cat("more than ", kMaxEntries, " identities")));
  }
  for (const toml::node& node : *identities) {
    KERF_ASSIGN_OR_RETURN(AccessEntry entry, ParseEntry(*node.as_table()));
    const auto [place, is_new] = rules.entries_.try_emplace(entry.name, entry);
    if (!is_new) {
      return Wrong(node.source(), Cat("'", entry.name, "' stands in the file twice"));
    }
  }
  return rules;
}

const AccessEntry* AccessRules::Find(std::string_view name) const {
  const auto found = entries_.find(ToAbsl(name));
  return found == entries_.end() ? nullptr : &found->second;
}

Quota AccessRules::QuotaOf(std::string_view repository) const {
  for (const RepositoryEntry& entry : repositories_) {
    if (Matches(entry.pattern, repository)) return entry.quota;
  }
  return {};
}

bool Matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

}  // namespace kerf::access
