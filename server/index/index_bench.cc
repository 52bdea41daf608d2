// How many digests a second one thread looks up and commits. KERF_BENCH_ENTRIES sets how many the
// index holds for the lookups (one million by default).
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/wait_for.h"
#include "server/index/memory_index.h"
#include "server/index/rocksdb_index.h"

namespace kerf {
namespace {

constexpr std::size_t kLookupBatch = 256;
constexpr std::size_t kCommitBatch = 1000;
const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

std::uint64_t HeldCount() {
  const char* text = std::getenv("KERF_BENCH_ENTRIES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1'000'000;
}

Digest DigestOf(std::uint64_t number) {
  Digest digest;
  Random random(number);
  random.Fill(digest.bytes);
  return digest;
}

void FillEntries(std::uint64_t first, std::vector<IndexEntry>& entries) {
  for (std::size_t index = 0; index < entries.size(); ++index) {
    entries[index] = {DigestOf(first + index), 8192, "pack 12345678 1234567"};
  }
}

// An index of a kind, and the folder that goes with it.
struct Held {
  explicit Held(const std::string& kind) {
    if (kind == "memory") {
      index = CreateMemoryIndex();
      return;
    }
    folder = Cat(std::filesystem::temp_directory_path().string(), "/kerf_index_bench.", getpid());
    std::filesystem::remove_all(folder);
    auto opened = OpenRocksDbIndex(folder, RocksDbIndexOptions{});
    KERF_CHECK(opened.ok());
    index = *std::move(opened);
  }
  ~Held() {
    index.reset();
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void Fill(std::uint64_t count) {
    std::vector<IndexEntry> entries(kCommitBatch);
    for (std::uint64_t first = 0; first < count; first += kCommitBatch) {
      FillEntries(first, entries);
      KERF_CHECK(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
    }
  }

  std::string folder;
  std::unique_ptr<Index> index;
};

void Lookups(benchmark::State& state, const std::string& kind, bool hit) {
  Held held(kind);
  const std::uint64_t held_count = HeldCount();
  held.Fill(held_count);
  Random random(1);
  std::vector<Digest> digests(kLookupBatch);
  std::vector<LookupResult> results(kLookupBatch);
  while (state.KeepRunning()) {
    state.PauseTiming();
    for (Digest& digest : digests) {
      digest = DigestOf(random.Below(held_count) + (hit ? 0 : std::uint64_t{1} << 40));
    }
    state.ResumeTiming();
    KERF_CHECK(WaitFor(held.index->Lookup(kRepository, 1, digests, results)).ok());
    KERF_CHECK((results[0].verdict == Verdict::kDuplicate) == hit);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kLookupBatch));
}

// Of what a lookup has seen before, as streams commit it, or of what nobody has looked for.
void Commits(benchmark::State& state, const std::string& kind, bool is_looked_up) {
  Held held(kind);
  std::uint64_t first = 0;
  std::vector<IndexEntry> entries(kCommitBatch);
  std::vector<Digest> digests(kCommitBatch);
  std::vector<LookupResult> results(kCommitBatch);
  while (state.KeepRunning()) {
    state.PauseTiming();
    FillEntries(first, entries);
    first += kCommitBatch;
    for (std::size_t index = 0; index < kCommitBatch; ++index) {
      digests[index] = entries[index].digest;
    }
    // Either way, so that caches are as warm.
    KERF_CHECK(WaitFor(held.index->Lookup(kRepository, 1, digests, results)).ok());
    for (std::size_t index = 0; index < kCommitBatch; ++index) {
      entries[index].absent_at = is_looked_up ? results[index].absent_at : 0;
    }
    state.ResumeTiming();
    KERF_CHECK(WaitFor(held.index->Commit(kRepository, 1, entries, false)).ok());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kCommitBatch));
}

BENCHMARK_CAPTURE(Lookups, memory_miss, "memory", false)->UseRealTime()->Iterations(2000);
BENCHMARK_CAPTURE(Lookups, memory_hit, "memory", true)->UseRealTime()->Iterations(2000);
BENCHMARK_CAPTURE(Lookups, rocksdb_miss, "rocksdb", false)->UseRealTime()->Iterations(2000);
BENCHMARK_CAPTURE(Lookups, rocksdb_hit, "rocksdb", true)->UseRealTime()->Iterations(2000);
BENCHMARK_CAPTURE(Commits, memory, "memory", false)->UseRealTime()->Iterations(1000);
BENCHMARK_CAPTURE(Commits, rocksdb, "rocksdb", false)->UseRealTime()->Iterations(1000);
BENCHMARK_CAPTURE(Commits, rocksdb_looked_up, "rocksdb", true)->UseRealTime()->Iterations(1000);

}  // namespace
}  // namespace kerf

BENCHMARK_MAIN();
