// Cutting and fingerprinting on one core, next to a plain read of the same bytes: the ceiling. Each
// result is compared with the reference before anything is measured. Run:
//   bazel run //kernels/bench:kernels_bench -- --benchmark_format=json
// The working set is the second argument in KiB: 256 stays in the second-level cache, 262144 comes
// from memory.
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/blake3.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/reference/blake3.h"
#include "kernels/reference/reference.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::array<const char*, 3> kKinds = {"random", "text", "constant"};
constexpr std::array<const char*, 4> kProfiles = {"fastcdc2020-8k", "fastcdc2020-64k", "fastcdc-8k",
                                                  "fastcdc-64k"};

void SetBytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

void BM_ReadOnly(benchmark::State& state) {
  const std::vector<std::uint8_t> bytes =
      MakeInput("random", 1, static_cast<std::size_t>(state.range(0)) << 10);
  const std::span words(reinterpret_cast<const std::uint64_t*>(bytes.data()), bytes.size() / 8);
  while (state.KeepRunning()) {
    std::array<std::uint64_t, 8> sums{};
    for (std::size_t index = 0; index + 8 <= words.size(); index += 8) {
      for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += words[index + lane];
    }
    benchmark::DoNotOptimize(sums);
  }
  SetBytes(state, bytes.size());
}
BENCHMARK(BM_ReadOnly)->Arg(256)->Arg(262144);

void BM_Cut(benchmark::State& state) {
  const Profile profile = *ParseProfile(kProfiles[static_cast<std::size_t>(state.range(0))]);
  const std::size_t size = static_cast<std::size_t>(state.range(1)) << 10;
  const char* const kind = kKinds[static_cast<std::size_t>(state.range(2))];
  const std::vector<std::uint8_t> bytes = MakeInput(kind, 1, size);
  const std::unique_ptr<Chunker> chunker = MakeChunker(profile);
  for (Bytes rest(bytes.data(), std::min<std::size_t>(size, 4 << 20)); !rest.empty();) {
    const std::size_t length = chunker->NextCut(rest);
    KERF_CHECK(length == ReferenceNextCut(profile, rest));
    rest = rest.subspan(length);
  }
  while (state.KeepRunning()) {
    for (Bytes rest = bytes; !rest.empty();) rest = rest.subspan(chunker->NextCut(rest));
  }
  SetBytes(state, size);
  state.SetLabel(std::string(kProfiles[static_cast<std::size_t>(state.range(0))]) + " " + kind);
}
BENCHMARK(BM_Cut)->ArgsProduct({{0, 1, 2, 3}, {256, 262144}, {0, 1, 2}});

std::vector<Bytes> CutEvery(Bytes bytes, std::size_t chunk_bytes) {
  std::vector<Bytes> chunks;
  while (!bytes.empty()) {
    chunks.push_back(bytes.first(std::min(chunk_bytes, bytes.size())));
    bytes = bytes.subspan(chunks.back().size());
  }
  return chunks;
}

// Arguments: algorithm, KiB in all, bytes a chunk, chunks a call (0: all).
void BM_Fingerprint(benchmark::State& state) {
  const auto algorithm = static_cast<DigestAlgorithm>(state.range(0));
  const std::size_t size = static_cast<std::size_t>(state.range(1)) << 10;
  const std::vector<std::uint8_t> bytes = MakeInput("random", 1, size);
  const std::vector<Bytes> chunks = CutEvery(bytes, static_cast<std::size_t>(state.range(2)));
  const std::size_t batch =
      state.range(3) == 0 ? chunks.size() : static_cast<std::size_t>(state.range(3));
  std::vector<Digest> digests(chunks.size());
  while (state.KeepRunning()) {
    for (std::size_t first = 0; first < chunks.size(); first += batch) {
      const std::size_t count = std::min(batch, chunks.size() - first);
      FingerprintMany(algorithm, std::span(chunks).subspan(first, count),
                      std::span(digests).subspan(first, count));
    }
    benchmark::DoNotOptimize(digests.data());
  }
  if (algorithm == DigestAlgorithm::kBlake3) {
    KERF_CHECK(digests.back() == Digest{Blake3Reference(chunks.back())});
  }
  SetBytes(state, size);
  state.SetLabel(std::string(DigestAlgorithmName(algorithm)));
}
BENCHMARK(BM_Fingerprint)
    ->ArgsProduct({{1, 2, 3}, {256, 262144}, {8000, 64000}, {0}})
    ->Args({1, 256, 8000, 1})
    ->Args({1, 256, 1000, 1})
    ->Args({1, 256, 1000, 0});

// Arguments: index of the backend, bytes a chunk.
void BM_Blake3Backend(benchmark::State& state) {
  const std::size_t index = static_cast<std::size_t>(state.range(0));
  if (index >= Blake3Backends().size()) {
    state.SkipWithError("this machine has no such backend");
    return;
  }
  const Blake3Backend& backend = Blake3Backends()[index];
  const std::vector<std::uint8_t> bytes = MakeInput("random", 1, 256 << 10);
  const std::vector<Bytes> chunks = CutEvery(bytes, static_cast<std::size_t>(state.range(1)));
  std::vector<Digest> digests(chunks.size());
  while (state.KeepRunning()) Blake3Many(backend, chunks, digests);
  KERF_CHECK(digests[0] == Digest{Blake3Reference(chunks[0])});
  SetBytes(state, bytes.size());
  state.SetLabel(std::string(backend.name));
}
BENCHMARK(BM_Blake3Backend)->ArgsProduct({{0, 1, 2, 3}, {8000}});

// What a worker does with each MiB: cut, then hash the chunks while they are in the cache.
void BM_CutAndFingerprint(benchmark::State& state) {
  const auto algorithm = static_cast<DigestAlgorithm>(state.range(0));
  const std::size_t size = static_cast<std::size_t>(state.range(1)) << 10;
  const std::vector<std::uint8_t> bytes = MakeInput("random", 1, size);
  const std::unique_ptr<Chunker> chunker = MakeChunker(*ParseProfile(kDefaultProfileName));
  constexpr std::size_t kBatchChunks = 64;
  std::vector<Bytes> chunks;
  std::vector<Digest> digests(kBatchChunks);
  while (state.KeepRunning()) {
    for (Bytes rest = bytes; !rest.empty();) {
      chunks.clear();
      while (!rest.empty() && chunks.size() < kBatchChunks) {
        chunks.push_back(rest.first(chunker->NextCut(rest)));
        rest = rest.subspan(chunks.back().size());
      }
      FingerprintMany(algorithm, chunks, std::span(digests).first(chunks.size()));
    }
  }
  SetBytes(state, size);
  state.SetLabel(std::string(DigestAlgorithmName(algorithm)));
}
BENCHMARK(BM_CutAndFingerprint)->ArgsProduct({{1, 2, 3}, {262144}});

}  // namespace
}  // namespace kerf

BENCHMARK_MAIN();
