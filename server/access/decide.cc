#include "server/access/decide.h"

#include <algorithm>

namespace kerf::access {
namespace {

constexpr std::string_view kAllRepositories = "*";

Role RoleFor(Need need) {
  switch (need) {
    case Need::kRead:
      return Role::kRead;
    case Need::kWrite:
      return Role::kWrite;
    case Need::kGc:
      return Role::kGc;
    default:
      return Role::kAdmin;
  }
}

// What the file has taken back since: a token that was changed, an issuer that is trusted no more.
bool IsStillTaken(const AccessRules& rules, const Identity& identity) {
  if (identity.proof == Proof::kJwt) {
    return std::any_of(
        rules.issuers().begin(), rules.issuers().end(),
        [&](const IssuerEntry& issuer) { return IsIssuedBy(issuer.name, identity.name); });
  }
  if (identity.proof != Proof::kToken || !identity.proof_hash.has_value()) return true;
  const AccessEntry* const entry = rules.Find(identity.name);
  return entry != nullptr && entry->token_hash == identity.proof_hash;
}

bool IsGranted(const AccessEntry& entry, Need need, std::optional<std::string_view> repository) {
  const Role role = RoleFor(need);
  const auto is_for = [&](const std::string& pattern) {
    if (need == Need::kOperate) return pattern == kAllRepositories;
    return !repository.has_value() || Matches(pattern, *repository);
  };
  return std::any_of(entry.grants.begin(), entry.grants.end(), [&](const Grant& grant) {
    return grant.role >= role &&
           std::any_of(grant.repositories.begin(), grant.repositories.end(), is_for);
  });
}

}  // namespace

Decision Decide(const AccessRules& rules, std::int64_t now_s, const Identity& identity, Need need,
                std::optional<std::string_view> repository) {
  if (need == Need::kAnybody) return Decision::kAllowed;
  if (!IsNameOf(identity.proof, identity.name)) return Decision::kUnknown;
  if (identity.expires_at_s.has_value() && now_s >= *identity.expires_at_s) {
    return Decision::kExpired;
  }
  if (!IsStillTaken(rules, identity)) return Decision::kUnknown;
  const AccessEntry* const entry = rules.Find(identity.name);
  if (entry == nullptr) {
    // A token is only worth what the file says of it; of the others others say who they are.
    if (identity.proof == Proof::kToken) return Decision::kUnknown;
    return need == Need::kKnown ? Decision::kAllowed : Decision::kForbidden;
  }
  if (entry->expires_at_s.has_value() && now_s >= *entry->expires_at_s) return Decision::kExpired;
  if (need == Need::kKnown) return Decision::kAllowed;
  if (need == Need::kOperate && entry->is_front) return Decision::kAllowed;
  return IsGranted(*entry, need, repository) ? Decision::kAllowed : Decision::kForbidden;
}

Decision DecideToSpeak(const AccessRules& rules, std::int64_t now_s, const Identity& identity) {
  const Decision decision = Decide(rules, now_s, identity, Need::kKnown, std::nullopt);
  if (decision != Decision::kAllowed) return decision;
  const AccessEntry* const entry = rules.Find(identity.name);
  return entry != nullptr && entry->is_front ? Decision::kAllowed : Decision::kForbidden;
}

}  // namespace kerf::access
