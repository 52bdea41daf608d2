#include "server/access/identity.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace kerf::access {
namespace {

constexpr std::array<std::pair<Proof, std::string_view>, 4> kProofs = {
    {{Proof::kNone, "none"},
     {Proof::kCertificate, "certificate"},
     {Proof::kToken, "token"},
     {Proof::kUser, "user"}}};

// What those names begin with that no certificate may have.
constexpr std::array<std::pair<Proof, std::string_view>, 2> kPrefixes = {
    {{Proof::kToken, "token/"}, {Proof::kUser, "user/"}}};

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

std::string EncodeIdentity(const Identity& identity) {
  return Cat(NameOf(identity.proof), " ", identity.name);
}

std::optional<Identity> DecodeIdentity(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(space + 1);
  const std::optional<Proof> proof = ProofOf(name);
  if (!proof.has_value() || NameOf(*proof) != text.substr(0, space)) return std::nullopt;
  return Identity{*proof, std::string(name)};
}

}  // namespace kerf::access
