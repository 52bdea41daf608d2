#include "kernels/vector/vector_backends.h"

#include "hwy/highway.h"
#include "kernels/vector/byte_chunkers.h"
#include "kernels/vector/hash_chunkers.h"
#include "kernels/vector/linear_chunkers.h"
#include "kernels/vector/read_ceiling.h"

namespace kerf {
namespace {

template <long long kTarget>
std::unique_ptr<Chunker> Make(const Profile& profile) {
  for (const auto maker : {ByteChunkerMaker, HashChunkerMaker, LinearChunkerMaker}) {
    const MakeVectorChunker make = maker(kTarget);
    if (make == nullptr) continue;
    if (std::unique_ptr<Chunker> chunker = make(profile)) return chunker;
  }
  return nullptr;
}

#if defined(__aarch64__)
[[maybe_unused]] bool HasNeon() { return true; }
#elif defined(__x86_64__)
// __builtin_cpu_supports also asks whether the operating system saves the registers.
[[maybe_unused]] bool HasSse4() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
         __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
}
[[maybe_unused]] bool HasAvx2() {
  return HasSse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("f16c");
}
[[maybe_unused]] bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512cd");
}
[[maybe_unused]] bool HasAvx512Vbmi() {
  return HasAvx512() && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512ifma") &&
         __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("vaes") && __builtin_cpu_supports("gfni");
}
#endif

template <long long kTarget>
std::unique_ptr<Marker> MakeTargetMarker(const Profile& profile) {
  for (const auto maker : {ByteMarkerMaker, HashMarkerMaker, LinearMarkerMaker}) {
    const VectorMarkerMaker make = maker(kTarget);
    if (make == nullptr) continue;
    if (std::unique_ptr<Marker> marker = make(profile)) return marker;
  }
  return nullptr;
}

struct Target {
  Backend backend;
  ReadBytes reader;
  VectorMarkerMaker marker;
};

template <long long kTarget>
Target MakeTarget(std::string_view name, bool (*runs_here)()) {
  return {{name, runs_here, Make<kTarget>}, ReaderFor(kTarget), MakeTargetMarker<kTarget>};
}

// Those that this build was compiled for.
std::vector<Target> Targets() {
  return {
#if HWY_TARGETS & HWY_SSE4
      MakeTarget<HWY_SSE4>("sse4", HasSse4),
#endif
#if HWY_TARGETS & HWY_AVX2
      MakeTarget<HWY_AVX2>("avx2", HasAvx2),
#endif
#if HWY_TARGETS & HWY_AVX3
      MakeTarget<HWY_AVX3>("avx512", HasAvx512),
#endif
#if HWY_TARGETS & HWY_AVX3_DL
      MakeTarget<HWY_AVX3_DL>("avx512vbmi", HasAvx512Vbmi),
#endif
#if HWY_TARGETS & HWY_NEON
      MakeTarget<HWY_NEON>("neon", HasNeon),
#endif
  };
}

}  // namespace

std::vector<Backend> VectorBackends() {
  std::vector<Backend> backends;
  for (const Target& target : Targets()) backends.push_back(target.backend);
  return backends;
}

std::unique_ptr<Marker> MakeVectorMarker(std::string_view backend, const Profile& profile) {
  for (const Target& target : Targets()) {
    if (target.backend.name == backend) return target.marker(profile);
  }
  return nullptr;
}

std::vector<ReadBytes> Readers() {
  std::vector<ReadBytes> readers;
  for (const Target& target : Targets()) {
    if (target.backend.runs_here()) readers.push_back(target.reader);
  }
  return readers;
}

}  // namespace kerf
