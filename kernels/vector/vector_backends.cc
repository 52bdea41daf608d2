#include "kernels/vector/vector_backends.h"

#include "hwy/highway.h"
#include "kernels/vector/byte_chunkers.h"

namespace kerf {
namespace {

template <long long kTarget>
std::unique_ptr<Chunker> Make(const Profile& profile) {
  for (const auto maker : {ByteChunkerMaker}) {
    const MakeVectorChunker make = maker(kTarget);
    if (make == nullptr) continue;
    if (std::unique_ptr<Chunker> chunker = make(profile)) return chunker;
  }
  return nullptr;
}

#if defined(__aarch64__)
bool HasNeon() { return true; }
#elif defined(__x86_64__)
// __builtin_cpu_supports also asks whether the operating system saves the registers.
bool HasSse4() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
         __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
}
bool HasAvx2() {
  return HasSse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("f16c");
}
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512cd");
}
bool HasAvx512Vbmi() {
  return HasAvx512() && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512ifma") &&
         __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("vaes") && __builtin_cpu_supports("gfni");
}
#endif

}  // namespace

std::vector<Backend> VectorBackends() {
  return {
#if defined(__x86_64__)
      {"sse4", HasSse4, Make<HWY_SSE4>},
      {"avx2", HasAvx2, Make<HWY_AVX2>},
      {"avx512", HasAvx512, Make<HWY_AVX3>},
      {"avx512vbmi", HasAvx512Vbmi, Make<HWY_AVX3_DL>},
#elif defined(__aarch64__)
      {"neon", HasNeon, Make<HWY_NEON>},
#endif
  };
}

}  // namespace kerf
