// One large range by two-stage chunking with 1 to 4 threads, next to the sequential kernel, which
// skips what lies before min, and to each backend's marks alone. Every result is compared with the
// reference before anything is measured. Run:
//   bazel run //kernels/bench:twostage_bench
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/chunker.h"
#include "kernels/parallel_cut.h"
#include "kernels/profile.h"
#include "kernels/registry.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

constexpr std::size_t kBytes = 256 << 20;
constexpr std::array<const char*, 2> kProfiles = {"gear-8k", "fastcdc-8k"};
constexpr std::array<const char*, 3> kKinds = {"random", "text", "constant"};

const std::vector<std::uint8_t>& Data(std::size_t kind) {
  static std::size_t made_kind = kKinds.size();
  static std::vector<std::uint8_t> made;
  if (made_kind != kind) made = MakeInput(kKinds[kind], 0, kBytes);
  made_kind = kind;
  return made;
}

std::vector<std::uint64_t> CutOneByOne(const Profile& profile,
                                       const std::vector<std::uint8_t>& bytes) {
  const std::unique_ptr<Chunker> chunker = MakeChunker(profile);
  std::vector<std::uint64_t> ends;
  for (std::size_t start = 0; start < bytes.size();) {
    start += chunker->NextCut(std::span(bytes).subspan(start));
    ends.push_back(start);
  }
  return ends;
}

// Arguments: kind, profile, threads; 0 threads are the sequential kernel.
void BM_CutInParallel(benchmark::State& state) {
  const std::vector<std::uint8_t>& bytes = Data(static_cast<std::size_t>(state.range(0)));
  const char* const name = kProfiles[static_cast<std::size_t>(state.range(1))];
  const Profile profile = *ParseProfile(name);
  const auto threads = static_cast<std::size_t>(state.range(2));
  if (threads != 0) {
    KERF_CHECK(CutInParallel(profile, bytes, {threads}) == CutOneByOne(profile, bytes));
  }
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(threads == 0 ? CutOneByOne(profile, bytes)
                                          : CutInParallel(profile, bytes, {threads}));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes.size()) * state.iterations());
  state.SetLabel(std::string(name) + " " + kKinds[static_cast<std::size_t>(state.range(0))] + " " +
                 std::string(ChosenBackend(profile)));
}
BENCHMARK(BM_CutInParallel)
    ->ArgsProduct({{0, 1, 2}, {0, 1}, {0, 1, 2, 3, 4}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kerf

BENCHMARK_MAIN();
