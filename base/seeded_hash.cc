#include "base/seeded_hash.h"

#include <unistd.h>

#include <array>

#include "base/check.h"
#include "xxhash.h"

namespace kerf {
namespace {

using Secret = std::array<unsigned char, 192>;
static_assert(sizeof(Secret) >= XXH3_SECRET_SIZE_MIN);

const Secret& ProcessSecret() {
  static const Secret secret = [] {
    Secret drawn;
    KERF_CHECK(getentropy(drawn.data(), drawn.size()) == 0);
    return drawn;
  }();
  return secret;
}

}  // namespace

std::uint64_t SeededHash(std::string_view bytes) {
  const Secret& secret = ProcessSecret();
  return XXH3_64bits_withSecret(bytes.data(), bytes.size(), secret.data(), secret.size());
}

}  // namespace kerf
