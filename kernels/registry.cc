#include "kernels/registry.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <mutex>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "kernels/cut_ahead.h"
#include "kernels/reference/plain_backend.h"
#include "kernels/scalar/scalar_backend.h"
#include "kernels/vector/vector_backends.h"

namespace kerf {
namespace {

// What a backend is measured on: enough for some dozen chunks, and little enough to stay in the
// second-level cache, so that the measurement takes a fraction of a millisecond.
constexpr std::size_t kSampleBytes = 256 << 10;
constexpr int kMeasurementCount = 3;
// What took this many times as long as another one at first is not measured again.
constexpr int kHopelessFactor = 4;

constexpr std::size_t kAlgorithmCount = static_cast<std::size_t>(Algorithm::kLast) + 1;

std::vector<Backend> MakeBackends() {
  std::vector<Backend> backends = {PlainBackend(), ScalarBackend()};
  for (const Backend& backend : VectorBackends()) backends.push_back(backend);
  return backends;
}

std::string NamesFor(const Profile& profile) {
  std::string names(kAutomaticBackend);
  for (const std::string_view name : BackendsFor(profile)) names = Cat(names, ", ", name);
  return names;
}

// Half of the bytes are random and half are letters: some rules skip most of one of the two.
std::vector<std::uint8_t> MakeSample() {
  std::vector<std::uint8_t> sample(kSampleBytes);
  Random random(1);
  for (std::size_t index = 0; index < sample.size(); ++index) {
    const std::uint64_t value = random.Next();
    sample[index] = static_cast<std::uint8_t>(index < sample.size() / 2 ? value : 'a' + value % 26);
  }
  return sample;
}

// `to_beat` is the best time of another backend.
std::chrono::nanoseconds Measure(const Chunker& chunker, std::span<const std::uint8_t> sample,
                                 std::chrono::nanoseconds to_beat) {
  auto best = std::chrono::nanoseconds::max();
  for (int round = 0; round < kMeasurementCount; ++round) {
    if (round > 0 && best / kHopelessFactor > to_beat) break;
    const auto start = std::chrono::steady_clock::now();
    for (std::span rest = sample; !rest.empty();) rest = rest.subspan(chunker.NextCut(rest));
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
  }
  return best;
}

const Backend& FastestBackend(const Profile& profile) {
  const std::vector<std::uint8_t> sample = MakeSample();
  const Backend* fastest = nullptr;
  auto best = std::chrono::nanoseconds::max();
  // The slowest come last.
  for (const Backend& backend : std::views::reverse(Backends())) {
    if (!backend.runs_here()) continue;
    const std::unique_ptr<Chunker> chunker = backend.make(profile);
    if (chunker == nullptr) continue;
    const std::chrono::nanoseconds time = Measure(*chunker, sample, best);
    if (time >= best) continue;
    best = time;
    fastest = &backend;
  }
  KERF_CHECK(fastest != nullptr);
  return *fastest;
}

// Which kernel is the fastest depends on the size of chunks too: wide ones have more to set up. By
// powers of two from the smallest average on; nothing changes behind the last class.
constexpr int kFirstSizeBits = 8;
constexpr int kSizeClassCount = 6;
static_assert(kMinAvgBytes == 1u << kFirstSizeBits);

std::size_t SizeClass(const Profile& profile) {
  const std::uint32_t typical_bytes = profile.mask_bits != 0 ? std::uint32_t{1} << profile.mask_bits
                                      : profile.avg_bytes != 0
                                          ? profile.avg_bytes
                                          : std::max(profile.window_bytes, profile.min_bytes);
  const int bits = static_cast<int>(std::bit_width(typical_bytes)) - 1 - kFirstSizeBits;
  return static_cast<std::size_t>(std::clamp(bits, 0, kSizeClassCount - 1));
}

// Null: measure.
std::atomic<const Backend*> forced_backend = nullptr;
// Null until measured.
std::array<std::array<std::atomic<const Backend*>, kSizeClassCount>, kAlgorithmCount>
    fastest_backends{};
std::mutex measuring;

const Backend& BackendFor(const Profile& profile) {
  const Backend* const forced = forced_backend;
  if (forced != nullptr && forced->make(profile) != nullptr) return *forced;
  std::atomic<const Backend*>& fastest =
      fastest_backends[static_cast<std::size_t>(profile.algorithm)][SizeClass(profile)];
  if (fastest == nullptr) {
    // One at a time: two measurements would disturb each other.
    const std::lock_guard lock(measuring);
    if (fastest == nullptr) fastest = &FastestBackend(profile);
  }
  return *fastest;
}

absl::StatusOr<const Backend*> FindBackend(std::string_view name) {
  std::string runnable(kAutomaticBackend);
  for (const Backend& backend : Backends()) {
    if (backend.name == name) {
      if (backend.runs_here()) return &backend;
      return absl::FailedPreconditionError(
          Cat("this processor cannot run the backend ", name, "; `auto` takes the fastest it can"));
    }
    runnable = Cat(runnable, ", ", backend.name);
  }
  return absl::InvalidArgumentError(Cat("there is no backend ", name, "; there are ", runnable));
}

}  // namespace

std::span<const Backend> Backends() {
  static const std::vector<Backend> backends = MakeBackends();
  return backends;
}

std::vector<std::string_view> BackendsFor(const Profile& profile) {
  std::vector<std::string_view> names;
  for (const Backend& backend : Backends()) {
    if (backend.runs_here() && backend.make(profile) != nullptr) names.push_back(backend.name);
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Chunker>> MakeChunkerOf(std::string_view name,
                                                       const Profile& profile) {
  if (name == kAutomaticBackend) return MakeChunker(profile);
  const absl::StatusOr<const Backend*> backend = FindBackend(name);
  if (!backend.ok()) return backend.status();
  if (std::unique_ptr<Chunker> chunker = MakeWithAhead(**backend, profile)) return chunker;
  return absl::InvalidArgumentError(Cat("the backend ", name, " does not implement ",
                                        FormatProfile(profile), "; on this machine ",
                                        NamesFor(profile), " do"));
}

std::string_view ChosenBackend(const Profile& profile) { return BackendFor(profile).name; }

absl::Status SetDefaultBackend(std::string_view name) {
  if (name == kAutomaticBackend) {
    forced_backend = nullptr;
    return absl::OkStatus();
  }
  const absl::StatusOr<const Backend*> backend = FindBackend(name);
  if (!backend.ok()) return backend.status();
  forced_backend = *backend;
  return absl::OkStatus();
}

std::unique_ptr<Chunker> MakeChunker(const Profile& profile) {
  return MakeWithAhead(BackendFor(profile), profile);
}

}  // namespace kerf
