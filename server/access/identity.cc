#include "server/access/identity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/strings.h"

namespace kerf::access {
namespace {

constexpr std::array<std::pair<Proof, std::string_view>, 5> kProofs = {
    {{Proof::kNone, "none"},
     {Proof::kCertificate, "certificate"},
     {Proof::kToken, "token"},
     {Proof::kJwt, "jwt"},
     {Proof::kUser, "user"}}};

// What those names begin with that no certificate may have.
constexpr std::array<std::pair<Proof, std::string_view>, 3> kPrefixes = {
    {{Proof::kToken, "token/"}, {Proof::kJwt, "jwt/"}, {Proof::kUser, "user/"}}};

bool IsVisible(char character) { return character > ' ' && character <= '~'; }

}  // namespace

std::string_view NameOf(Proof proof) {
  for (const auto& [known, name] : kProofs) {
    if (known == proof) return name;
  }
  return "none";
}

std::optional<Proof> ProofOf(std::string_view name) {
  if (name.empty() || name.size() > kMaxIdentityBytes) return std::nullopt;
  if (!std::all_of(name.begin(), name.end(), IsVisible)) return std::nullopt;
  for (const auto& [proof, prefix] : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    return name.size() > prefix.size() ? std::optional(proof) : std::nullopt;
  }
  return Proof::kCertificate;
}

bool IsNameOf(Proof proof, std::string_view name) { return ProofOf(name) == proof; }

bool IsIssuedBy(std::string_view issuer, std::string_view name) {
  constexpr std::string_view kJwtPrefix = "jwt/";
  if (!name.starts_with(kJwtPrefix)) return false;
  name.remove_prefix(kJwtPrefix.size());
  return name.substr(0, name.find('#')) == issuer && name.size() > issuer.size();
}

std::string EncodeIdentity(const Identity& identity) {
  std::string text = Cat(NameOf(identity.proof), " ", identity.name);
  if (identity.expires_at_s.has_value()) text += Cat(" ", *identity.expires_at_s);
  return text;
}

std::optional<Identity> DecodeIdentity(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(space + 1);
  const std::string_view name = rest.substr(0, rest.find(' '));
  const std::optional<Proof> proof = ProofOf(name);
  if (!proof.has_value() || NameOf(*proof) != text.substr(0, space)) return std::nullopt;
  Identity identity{*proof, std::string(name)};
  // Only the one has an end of its own, and never none.
  const bool has_end = name.size() < rest.size();
  if (has_end != (*proof == Proof::kJwt)) return std::nullopt;
  if (!has_end) return identity;
  const std::string_view end = rest.substr(name.size() + 1);
  std::int64_t expires_at_s = 0;
  const auto [last, error] = std::from_chars(end.data(), end.data() + end.size(), expires_at_s);
  if (error != std::errc() || last != end.data() + end.size()) return std::nullopt;
  identity.expires_at_s = expires_at_s;
  return identity;
}

}  // namespace kerf::access
