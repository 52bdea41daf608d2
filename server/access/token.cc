#include "server/access/token.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "base/strings.h"

namespace kerf::access {
namespace {

constexpr std::string_view kScheme = "bearer ";
constexpr std::string_view kPrefix = "kerf_";
constexpr std::size_t kMaxIdBytes = 32;
// Half of what a computer can guess: 22 of 62 letters are 128 bits.
constexpr std::size_t kMinSecretBytes = 22;
constexpr std::size_t kMaxSecretBytes = 128;

bool IsDigit(char character) { return character >= '0' && character <= '9'; }
bool IsLower(char character) { return character >= 'a' && character <= 'z'; }
bool IsUpper(char character) { return character >= 'A' && character <= 'Z'; }

bool IsOfId(char character) { return IsLower(character) || IsDigit(character) || character == '-'; }
bool IsOfSecret(char character) {
  return IsLower(character) || IsDigit(character) || IsUpper(character);
}

}  // namespace

// The scheme is written in any case (RFC 9110, 11.1).
std::string_view BearerOf(std::string_view authorization) {
  if (authorization.size() < kScheme.size()) return {};
  const auto is_same = [](char wanted, char shown) {
    return (IsUpper(shown) ? static_cast<char>(shown - 'A' + 'a') : shown) == wanted;
  };
  if (!std::equal(kScheme.begin(), kScheme.end(), authorization.begin(), is_same)) return {};
  return authorization.substr(kScheme.size());
}

bool IsTokenId(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdBytes &&
         std::all_of(text.begin(), text.end(), IsOfId);
}

std::optional<ShownToken> ParseToken(std::string_view token) {
  if (!token.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = token.substr(kPrefix.size());
  const std::size_t end = rest.find('_');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view id = rest.substr(0, end);
  if (!IsTokenId(id)) return std::nullopt;
  const std::string_view secret = rest.substr(end + 1);
  if (secret.size() < kMinSecretBytes || secret.size() > kMaxSecretBytes) return std::nullopt;
  if (!std::all_of(secret.begin(), secret.end(), IsOfSecret)) return std::nullopt;
  ShownToken shown{.name = Cat("token/", id), .hash = {}};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), shown.hash.data());
  return shown;
}

bool IsTokenOf(const ShownToken& shown, const AccessEntry* entry) {
  const TokenHash none{};
  const bool is_there = entry != nullptr && entry->token_hash.has_value();
  const TokenHash& wanted = is_there ? *entry->token_hash : none;
  const bool is_same = CRYPTO_memcmp(shown.hash.data(), wanted.data(), wanted.size()) == 0;
  return is_there && is_same;
}

}  // namespace kerf::access
