#include "server/access/gate.h"

#include <grpcpp/generic/async_generic_service.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "server/access/token.h"
#include "server/errors/errors.h"
#include "server/listener/client_peer.h"
#include "server/logging/rated_log.h"
#include "server/metrics/catalog.h"

namespace kerf::access {
namespace {

struct RefusalInfo {
  std::string_view name;
  // For the caller: nothing that he has not said himself.
  std::string_view message;
};

constexpr std::array<RefusalInfo, kRefusalCount> kRefusals = {{
    {"no_proof",
     "who calls? Show a certificate that this server's --tls-client-ca knows, or a token"},
    {"token_in_the_clear",
     "a token was sent in the clear, where others may have read it: it is not taken, and has to be "
     "changed; show tokens over TLS or a unix socket"},
    {"bad_token", "the token is not one of this server's"},
    {"expired", "what the caller is known by has expired: an operator must renew it"},
    {"front_without_caller", "a front that does not say who has called it: give it --access, too"},
    // NotYours has its words.
    {"forbidden", ""},
}};

std::optional<std::string_view> MetadataOf(const grpc::CallbackServerContext& context,
                                           const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

// Whether its issuer still signs with the key by which it was proven.
bool IsKeyStillThere(const Identity& identity, const std::vector<JwtIssuer>& issuers) {
  if (identity.proof != Proof::kJwt || !identity.proof_hash.has_value()) return true;
  return std::any_of(issuers.begin(), issuers.end(), [&](const JwtIssuer& issuer) {
    const std::vector<Jwk>& keys = issuer.keys.keys();
    return IsIssuedBy(issuer.name, identity.name) &&
           std::any_of(keys.begin(), keys.end(),
                       [&](const Jwk& jwk) { return jwk.hash == identity.proof_hash; });
  });
}

}  // namespace

std::string_view NameOf(Refusal refusal) {
  return kRefusals[static_cast<std::size_t>(refusal)].name;
}

absl::StatusOr<Identity> Gate::Admit(const grpc::GenericCallbackServerContext& context,
                                     Identity* proven) const {
  return Admit(context, NeedOf(context.method()), proven);
}

absl::StatusOr<Identity> Gate::Admit(const grpc::CallbackServerContext& context, Need need,
                                     Identity* proven) const {
  if (is_open() || need == Need::kAnybody) return Identity{};
  const std::shared_ptr<const AccessState> state = source_->current();
  KERF_ASSIGN_OR_RETURN(Identity identity, Identify(context, need, *state));
  if (proven != nullptr) *proven = identity;
  const Decision decision =
      Decide(state->rules, AccessSource::now_s(), identity, need, /*repository=*/std::nullopt);
  KERF_RETURN_IF_ERROR(StatusOf(decision, identity));
  return identity;
}

absl::Status Gate::Check(const Identity& identity, Need need,
                         std::optional<std::string_view> repository) const {
  if (is_open()) return absl::OkStatus();
  const std::shared_ptr<const AccessState> state = source_->current();
  const std::int64_t now_s = AccessSource::now_s();
  if (identity.front != nullptr) {
    KERF_RETURN_IF_ERROR(
        StatusOf(DecideToSpeak(state->rules, now_s, *identity.front), *identity.front));
  }
  if (!IsKeyStillThere(identity, state->issuers)) return Refuse(Refusal::kBadToken, identity);
  return StatusOf(Decide(state->rules, now_s, identity, need, repository), identity);
}

absl::StatusOr<Identity> Gate::Identify(const grpc::CallbackServerContext& context, Need need,
                                        const AccessState& state) const {
  KERF_ASSIGN_OR_RETURN(Identity identity, IdentifyPeer(context, state));
  const auto said = MetadataOf(context, kIdentityMetadata);
  // Whoever is no front, or no longer, speaks for himself alone, whatever he says.
  if (DecideToSpeak(state.rules, AccessSource::now_s(), identity) != Decision::kAllowed) {
    return identity;
  }
  // Of its own it only asks how a worker is.
  if (!said.has_value() && !NamesRepository(need)) return identity;
  std::optional<Identity> caller = DecodeIdentity(said.value_or(""));
  // One that says two things has let somebody say one of them.
  const bool is_one = context.client_metadata().count(kIdentityMetadata) == 1;
  if (!caller.has_value() || !is_one) return Refuse(Refusal::kFrontWithoutCaller, identity);
  caller->front = std::make_shared<const Identity>(std::move(identity));
  return *std::move(caller);
}

absl::StatusOr<Identity> Gate::IdentifyPeer(const grpc::CallbackServerContext& context,
                                            const AccessState& state) const {
  const SeenClient seen = SeenOf(context);
  if (const auto authorization = MetadataOf(context, kAuthorizationMetadata);
      authorization.has_value()) {
    // Of two proofs others may have looked at the other one.
    if (context.client_metadata().count(kAuthorizationMetadata) > 1) {
      return Refuse(Refusal::kBadToken, Identity{});
    }
    return IdentifyToken(*authorization, seen.is_private, state);
  }
  if (auto identity = IdentityOf(seen)) return *std::move(identity);
  return Refuse(Refusal::kNoProof, Identity{});
}

std::optional<Identity> Gate::IdentityOf(const SeenClient& seen) {
  if (IsNameOf(Proof::kCertificate, seen.certificate)) {
    return Identity{Proof::kCertificate, seen.certificate};
  }
  if (seen.user.has_value()) return Identity{Proof::kUser, Cat("user/", *seen.user)};
  return std::nullopt;
}

absl::StatusOr<Identity> Gate::IdentifyToken(std::string_view authorization, bool is_private,
                                             const AccessState& state) const {
  const std::string_view token = BearerOf(authorization);
  const std::optional<ShownToken> own = ParseToken(token);
  Identity shown;
  if (own.has_value()) shown = {.proof = Proof::kToken, .name = own->name};
  if (!is_private) return Refuse(Refusal::kTokenInTheClear, shown);
  if (own.has_value()) {
    if (!IsTokenOf(*own, state.rules.Find(own->name))) return Refuse(Refusal::kBadToken, shown);
    shown.proof_hash = own->hash;
    return shown;
  }
  JwtCaller caller = CallerOf(token, state.issuers, AccessSource::now_s());
  switch (caller.verdict) {
    case JwtVerdict::kGood:
      return std::move(caller.identity);
    case JwtVerdict::kExpired:
      return Refuse(Refusal::kExpired, shown);
    case JwtVerdict::kBad:
      break;
  }
  return Refuse(Refusal::kBadToken, shown);
}

absl::Status Gate::StatusOf(Decision decision, const Identity& identity) const {
  switch (decision) {
    case Decision::kAllowed:
      return absl::OkStatus();
    case Decision::kUnknown:
      return Refuse(identity.proof == Proof::kToken ? Refusal::kBadToken : Refusal::kNoProof,
                    identity);
    case Decision::kExpired:
      return Refuse(Refusal::kExpired, identity);
    case Decision::kForbidden:
      break;
  }
  return Refuse(Refusal::kForbidden, identity);
}

absl::Status Gate::Refuse(Refusal refusal, const Identity& identity) const {
  const RefusalInfo& info = kRefusals[static_cast<std::size_t>(refusal)];
  refused_[static_cast<std::size_t>(refusal)].Add();
  const absl::Status status =
      refusal == Refusal::kForbidden ? NotYours() : MakeError(Reason::kUnknownCaller, info.message);
  LogRated(LogLevel::kWarning, Cat("refused: ", info.name),
           Cat("refused a call: ", MessageOf(status)),
           {{"identity", identity.name}, {"proof", std::string(NameOf(identity.proof))}});
  return status;
}

Quota Gate::QuotaOf(const Identity& identity) const {
  if (is_open()) return {};
  const std::shared_ptr<const AccessState> state = source_->current();
  const AccessEntry* const entry = state->rules.Find(identity.name);
  return entry == nullptr ? Quota() : entry->quota;
}

Identity Gate::Seen(const SeenClient& seen) const {
  return is_open() ? Identity{} : IdentityOf(seen).value_or(Identity{});
}

std::optional<std::uint64_t> Gate::MaxConnectionsOf(const SeenClient& seen) const {
  const std::optional<Identity> identity = IdentityOf(seen);
  return identity.has_value() ? QuotaOf(*identity).max_connections : std::nullopt;
}

Quota Gate::QuotaOfRepository(std::string_view repository) const {
  if (is_open()) return {};
  return source_->current()->rules.QuotaOf(repository);
}

void Gate::AddMetrics(metrics::Page& page) const {
  if (is_open()) return;
  for (std::size_t index = 0; index < kRefusalCount; ++index) {
    page.Add(metrics::kAccessRefused, refused_[index].value(), {kRefusals[index].name});
  }
}

}  // namespace kerf::access
