// Who may do what: the file of --access, as it was read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/access/identity.h"

namespace kerf::access {

// Each may do what those before it may.
enum class Role : std::uint8_t { kRead, kWrite, kGc, kAdmin };

inline constexpr std::size_t kMaxAccessFileBytes = std::size_t{4} << 20;

using TokenHash = ProofHash;

struct Grant {
  Role role = Role::kRead;
  // Names of repositories, or with one '*' at the end what they begin with.
  std::vector<std::string> repositories = {};
};

// Of what there is at each kerfd at most; nothing: no bound but that of everybody.
struct Quota {
  // Uploads at once.
  std::optional<std::uint64_t> max_streams = std::nullopt;
  // Of an identity: with its certificate, or from its user, at once.
  std::optional<std::uint64_t> max_connections = std::nullopt;
  // Of a repository, for each digest algorithm, and whichever kerfd they came to.
  std::optional<std::uint64_t> max_entries = std::nullopt;
  // Uploaded, on average.
  std::optional<std::uint64_t> max_bytes_per_second = std::nullopt;
  // Of the Index and Repository services, on average.
  std::optional<std::uint64_t> max_calls_per_second = std::nullopt;

  friend bool operator==(const Quota&, const Quota&) = default;
};

struct AccessEntry {
  // As of Identity.
  std::string name = {};
  // Of those whose proof is a token: SHA-256 of it.
  std::optional<TokenHash> token_hash = std::nullopt;
  // Seconds since 1970; from then on it is as if it were not there.
  std::optional<std::int64_t> expires_at_s = std::nullopt;
  Quota quota = {};
  // It may say who calls: a front.
  bool is_front = false;
  std::vector<Grant> grants = {};
};

struct RepositoryEntry {
  // As those of Grant.
  std::string pattern = {};
  Quota quota = {};
};

// Whose JSON Web Tokens are taken (JwtIssuer), and where their keys are.
struct IssuerEntry {
  std::string name = {};
  std::string audience = {};
  // As the file says it.
  std::string keys_path = {};
};

// Immutable, and thus thread-safe.
class AccessRules {
 public:
  // docs/spec/access.md has the form of the file. InvalidArgument names the line, and what is wrong
  // with it; a key that nobody knows is wrong, too.
  static absl::StatusOr<AccessRules> Parse(std::string_view text);

  // Null: nobody of this name.
  const AccessEntry* Find(std::string_view name) const;
  // Of the pattern that says most of this repository: its name, or else the longest one.
  Quota QuotaOf(std::string_view repository) const;
  std::size_t size() const { return entries_.size(); }
  const std::vector<IssuerEntry>& issuers() const { return issuers_; }

 private:
  absl::flat_hash_map<std::string, AccessEntry> entries_;
  // The more a pattern says, the earlier it stands.
  std::vector<RepositoryEntry> repositories_;
  std::vector<IssuerEntry> issuers_;
};

// Whether `name` is one of those that `pattern` stands for.
bool Matches(std::string_view pattern, std::string_view name);

}  // namespace kerf::access
