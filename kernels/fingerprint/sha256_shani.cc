// The processor's SHA instructions have a latency of several cycles and each round needs the one
// before: one message alone leaves them idle most of the time. Several messages fill the gaps.
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/fingerprint/sha256_constants.h"
#include "kernels/fingerprint/sha256_streams.h"

namespace kerf::sha256 {
namespace {

// The instructions want the words as (a, b, e, f) and (c, d, g, h), the first in the highest lane.
struct State {
  __m128i abef;
  __m128i cdgh;
};

State LoadState(const std::uint32_t* words) {
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1B);
  return {_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xF0)};
}

void StoreState(const State& state, std::uint32_t* words) {
  const __m128i feba = _mm_shuffle_epi32(state.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(state.cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 4), _mm_alignr_epi8(dchg, feba, 8));
}

template <std::size_t kStreams>
void Compress(Stream* const* streams, std::size_t block_count) {
  const __m128i byte_order = _mm_set_epi64x(0x0C0D0E0F08090A0B, 0x0405060700010203);
  State states[kStreams];
  for (std::size_t lane = 0; lane < kStreams; ++lane)
    states[lane] = LoadState(streams[lane]->words);
  for (; block_count > 0; --block_count) {
    State before[kStreams];
    // The last sixteen words of each message's schedule.
    __m128i schedule[kStreams][4];
    for (std::size_t lane = 0; lane < kStreams; ++lane) {
      before[lane] = states[lane];
      for (std::size_t quarter = 0; quarter < 4; ++quarter) {
        const __m128i bytes =
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(streams[lane]->bytes + 16 * quarter));
        schedule[lane][quarter] = _mm_shuffle_epi8(bytes, byte_order);
      }
      streams[lane]->bytes += kBlockBytes;
    }
#pragma GCC unroll 16
    for (std::size_t group = 0; group < 16; ++group) {
      const __m128i constants =
          _mm_load_si128(reinterpret_cast<const __m128i*>(kRoundConstants + 4 * group));
#pragma GCC unroll 4
      for (std::size_t lane = 0; lane < kStreams; ++lane) {
        State& state = states[lane];
        __m128i* const words = schedule[lane];
        const __m128i current = words[group % 4];
        const __m128i input = _mm_add_epi32(current, constants);
        state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, input);
        state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, _mm_shuffle_epi32(input, 0x0E));
        if (group >= 12) continue;
        const __m128i next = words[(group + 1) % 4];
        const __m128i last = words[(group + 3) % 4];
        const __m128i seven_back = _mm_alignr_epi8(last, words[(group + 2) % 4], 4);
        words[group % 4] = _mm_sha256msg2_epu32(
            _mm_add_epi32(_mm_sha256msg1_epu32(current, next), seven_back), last);
      }
    }
    for (std::size_t lane = 0; lane < kStreams; ++lane) {
      states[lane].abef = _mm_add_epi32(states[lane].abef, before[lane].abef);
      states[lane].cdgh = _mm_add_epi32(states[lane].cdgh, before[lane].cdgh);
    }
  }
  for (std::size_t lane = 0; lane < kStreams; ++lane)
    StoreState(states[lane], streams[lane]->words);
}

}  // namespace

void CompressShaNi(Stream* const* streams, std::size_t stream_count, std::size_t block_count) {
  switch (stream_count) {
    case 1:
      return Compress<1>(streams, block_count);
    case 2:
      return Compress<2>(streams, block_count);
    case 3:
      return Compress<3>(streams, block_count);
    default:
      return Compress<4>(streams, block_count);
  }
}

}  // namespace kerf::sha256
#endif
