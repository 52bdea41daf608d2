// Who calls, as far as it was proven.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kerf::access {

enum class Proof : std::uint8_t {
  // There was none: nobody knows who it is.
  kNone,
  // Of TLS.
  kCertificate,
  kToken,
  // A JSON Web Token, which somebody else has signed.
  kJwt,
  // The user of a process at the other end of a unix socket.
  kUser,
};

// As logs, metrics and metadata have it.
std::string_view NameOf(Proof proof);

inline constexpr std::size_t kMaxIdentityBytes = 256;

// SHA-256 of what proves somebody.
using ProofHash = std::array<std::uint8_t, 32>;

struct Identity {
  Proof proof = Proof::kNone;
  // A certificate's first URI, or else its first DNS name; "token/ID"; "jwt/ISS#SUB"; "user/1000".
  // Visible ASCII, 1 to kMaxIdentityBytes; empty without a proof.
  std::string name = {};
  // Of a proof that says itself when it ends: seconds since 1970.
  std::optional<std::int64_t> expires_at_s = std::nullopt;
  // Of a proof that can be taken back: of a token itself, of a JSON Web Token the key that has
  // signed it. Only who has looked at the proof has it: nobody is told.
  std::optional<ProofHash> proof_hash = std::nullopt;
  // The front that has said so; null: whoever it is has come himself.
  std::shared_ptr<const Identity> front = nullptr;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// Whether something may be a name that was proven so: each proof has names of its own.
bool IsNameOf(Proof proof, std::string_view name);
// By which proof somebody of this name comes; nothing: it is no name.
std::optional<Proof> ProofOf(std::string_view name);

// Whether a name is one of those of this issuer of JSON Web Tokens, whose own name has no '#'.
bool IsIssuedBy(std::string_view issuer, std::string_view name);

// As a front tells its workers who has called it: the proof, the name and, if there is one, the
// end, with spaces between them. Nothing: it is not what EncodeIdentity gives.
std::string EncodeIdentity(const Identity& identity);
std::optional<Identity> DecodeIdentity(std::string_view text);

}  // namespace kerf::access
