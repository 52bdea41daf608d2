// The kernels against the specification on a processor for which there is only a compiler and an
// emulator: without gtest and without libraries. tools/cross builds and runs it.
//   cross_check BACKEND...: fails unless exactly these backends run here, and all of them are
//   right.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "kernels/backend.h"
#include "kernels/fingerprint/blake3.h"
#include "kernels/reference/blake3.h"
#include "kernels/reference/reference.h"
#include "kernels/scalar/scalar_backend.h"
#include "kernels/testing/guarded_bytes.h"
#include "kernels/vector/vector_backends.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kMaxInputBytes = 4000;
constexpr int kRoundCount = 20'000;
constexpr int kHashRoundCount = 300;
constexpr std::size_t kMaxHashedBytes = 9000;

// Small parameters, so that short inputs have many chunks; the emulator is slow.
Profile RandomProfile(Random& random) {
  Profile profile;
  profile.algorithm =
      static_cast<Algorithm>(random.Below(static_cast<std::uint64_t>(Algorithm::kLast) + 1));
  profile.window_bytes = static_cast<std::uint32_t>(random.Between(64, 300));
  profile.min_bytes = profile.window_bytes;
  profile.avg_bytes = 256;
  profile.max_bytes = static_cast<std::uint32_t>(random.Between(2 * 300 + 1, 1500));
  profile.level = static_cast<std::uint32_t>(random.Below(kMaxLevel + 1));
  profile.mask_bits = 8;
  profile.mode = random.OneIn(2) ? SequenceMode::kIncreasing : SequenceMode::kDecreasing;
  profile.sequence_length = static_cast<std::uint32_t>(random.Between(1, 6));
  profile.skip_trigger = static_cast<std::uint32_t>(random.Between(1, 60));
  profile.skip_bytes = static_cast<std::uint32_t>(random.Between(0, 100));
  if (profile.algorithm == Algorithm::kFastCdc2020) {
    // It has no masks of fewer bits, and steps by two bytes.
    profile.avg_bytes = 1024;
    profile.level = 0;
    profile.min_bytes &= ~1u;
    profile.max_bytes = 1200;
  } else if (profile.algorithm == Algorithm::kCrc || profile.algorithm == Algorithm::kFixed) {
    profile.min_bytes = std::max(profile.min_bytes, kCrcWindowBytes);
  } else if (profile.algorithm != Algorithm::kSeqCdc && profile.algorithm != Algorithm::kMinCdc) {
    profile.min_bytes = std::min(profile.min_bytes, profile.avg_bytes);
  }
  return profile;
}

// Random bytes of an alphabet that is often small: many are equal.
std::vector<std::uint8_t> RandomInput(Random& random, std::size_t max_bytes) {
  std::vector<std::uint8_t> bytes(random.Between(1, max_bytes));
  const std::uint64_t letters = std::array<std::uint64_t, 5>{1, 2, 4, 26, 256}[random.Below(5)];
  const std::uint64_t first = random.Below(256 - letters + 1);
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(first + random.Below(letters));
  }
  return bytes;
}

std::vector<Backend> RunnableBackends() {
  std::vector<Backend> backends = {ScalarBackend()};
  for (const Backend& backend : VectorBackends()) {
    if (backend.runs_here()) backends.push_back(backend);
  }
  return backends;
}

// The number of cuts that were compared, or nothing if one was wrong.
bool CheckCuts(const std::vector<Backend>& backends, std::uint64_t seed, std::uint64_t& cut_count) {
  Random random(seed);
  GuardedBytes guarded(kMaxInputBytes);
  for (int round = 0; round < kRoundCount; ++round) {
    const Profile profile = RandomProfile(random);
    Bytes rest = guarded.CopyToEnd(RandomInput(random, kMaxInputBytes));
    std::vector<std::unique_ptr<Chunker>> chunkers;
    chunkers.reserve(backends.size());
    for (const Backend& backend : backends) chunkers.push_back(backend.make(profile));
    while (!rest.empty()) {
      const std::size_t expected = ReferenceNextCut(profile, rest);
      for (std::size_t index = 0; index < backends.size(); ++index) {
        if (chunkers[index] == nullptr) continue;
        ++cut_count;
        const std::size_t length = chunkers[index]->NextCut(rest);
        if (length == expected) continue;
        std::fprintf(stderr, "%s, algorithm %d, round %d, seed %llu: %zu bytes, not %zu\n",
                     std::string(backends[index].name).c_str(), static_cast<int>(profile.algorithm),
                     round, static_cast<unsigned long long>(seed), length, expected);
        return false;
      }
      rest = rest.subspan(expected);
    }
  }
  return true;
}

bool CheckHashes(std::uint64_t seed) {
  Random random(seed);
  for (int round = 0; round < kHashRoundCount; ++round) {
    std::vector<std::vector<std::uint8_t>> inputs(random.Between(1, 5));
    for (auto& input : inputs) input = RandomInput(random, kMaxHashedBytes);
    const std::vector<Bytes> chunks(inputs.begin(), inputs.end());
    std::vector<Digest> digests(chunks.size());
    for (const Blake3Backend& backend : Blake3Backends()) {
      Blake3Many(backend, chunks, digests);
      for (std::size_t index = 0; index < chunks.size(); ++index) {
        if (digests[index] == Digest{Blake3Reference(chunks[index])}) continue;
        std::fprintf(stderr, "BLAKE3 %s, round %d, seed %llu: a digest is wrong\n",
                     std::string(backend.name).c_str(), round,
                     static_cast<unsigned long long>(seed));
        return false;
      }
    }
  }
  return true;
}

int Run(const std::vector<std::string_view>& wanted) {
  const std::vector<Backend> backends = RunnableBackends();
  std::vector<std::string_view> names;
  names.reserve(backends.size());
  for (const Backend& backend : backends) names.push_back(backend.name);
  if (names != wanted) {
    std::fprintf(stderr, "the backends that run here are others than those asked for:");
    for (const std::string_view name : names)
      std::fprintf(stderr, " %s", std::string(name).c_str());
    std::fprintf(stderr, "\n");
    return 1;
  }
  const char* const text = std::getenv("KERF_TEST_SEED");
  const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
  std::uint64_t cut_count = 0;
  if (!CheckCuts(backends, seed, cut_count) || !CheckHashes(seed)) return 1;
  std::printf("%llu cuts of %zu backends and all BLAKE3 digests are the reference's\n",
              static_cast<unsigned long long>(cut_count), backends.size());
  return 0;
}

}  // namespace
}  // namespace kerf

int main(int argc, char** argv) {
  return kerf::Run(std::vector<std::string_view>(argv + 1, argv + argc));
}
