// The keys by which others sign JSON Web Tokens: a JWK Set (RFC 7517) of public keys.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/identity.h"

namespace kerf::access {

// Of RFC 7518 and 8037: those of public keys alone. "none" and HMAC are not known at all.
enum class SignatureAlgorithm : std::uint8_t { kRs256, kEs256, kEdDsa };

struct KeyFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

// One key, and the only algorithm that it is used with.
struct Jwk {
  // Empty: it has none.
  std::string id = {};
  SignatureAlgorithm algorithm = SignatureAlgorithm::kRs256;
  std::shared_ptr<EVP_PKEY> key = nullptr;
  // Of the key, whatever it is called.
  ProofHash hash = {};
};

// How many signatures a stranger may have looked at by one call.
inline constexpr std::size_t kMaxKeysOfOneName = 8;

// Immutable; copies share their keys. Thread-safe.
class JwkSet {
 public:
  // InvalidArgument for what is no JWK Set, has a key that cannot be one, a secret, more than
  // kMaxKeysOfOneName of one kind that nothing tells apart, or no key at all that can be used. Keys
  // of other kinds and uses are left out: sets have them.
  static absl::StatusOr<JwkSet> Parse(std::string_view text);

  const std::vector<Jwk>& keys() const { return keys_; }

 private:
  std::vector<Jwk> keys_;
};

}  // namespace kerf::access
