// The body of each target; KERF_XXH3_TARGET and KERF_XXH3_NAME say which. xxHash itself chooses its
// vectors by what the file is compiled for; everything of it is private to the file.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/fingerprint/xxh3_target.h"

namespace kerf::xxh3 {
namespace {

static_assert(sizeof(XXH3_state_t) <= kStateBytes && alignof(XXH3_state_t) <= alignof(State));
static_assert(sizeof(XXH128_canonical_t) == kDigestBytes);

void Put(XXH128_hash_t hash, std::uint8_t* digest) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  for (std::size_t index = 0; index < kDigestBytes; ++index)
    digest[index] = canonical.digest[index];
}

std::uint64_t Hash64(const std::uint8_t* bytes, std::size_t count) {
  return XXH3_64bits(bytes, count);
}

void Hash128(const std::uint8_t* bytes, std::size_t count, std::uint8_t* digest) {
  Put(XXH3_128bits(bytes, count), digest);
}

void Reset(State* state) {
  auto* const inner = reinterpret_cast<XXH3_state_t*>(state);
  XXH3_INITSTATE(inner);
  XXH3_128bits_reset(inner);
}

void Update(State* state, const std::uint8_t* bytes, std::size_t count) {
  XXH3_128bits_update(reinterpret_cast<XXH3_state_t*>(state), bytes, count);
}

void Digest(const State* state, std::uint8_t* digest) {
  Put(XXH3_128bits_digest(reinterpret_cast<const XXH3_state_t*>(state)), digest);
}

}  // namespace

const Target KERF_XXH3_TARGET = {KERF_XXH3_NAME, Hash64, Hash128, Reset, Update, Digest};

}  // namespace kerf::xxh3
