// What parity of a pack of 64 MiB costs: making it, and reading a pack that has lost a sector.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "client/store/format/pack_files.h"
#include "client/store/parity/mender.h"
#include "client/store/parity/pack_sums.h"
#include "client/store/parity/parity_maker.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kPackBytes = std::size_t{64} << 20;
// Of what a restore reads at once.
constexpr std::uint64_t kBlockBytes = std::uint64_t{512} << 10;

// In memory, so that no disk is measured.
class Pack {
 public:
  Pack() {
    std::filesystem::create_directories(folder_.path() + "/packs/00");
    std::filesystem::create_directories(folder_.path() + "/tmp");
    KERF_CHECK(WriteParityPercent(folder_.path(), 5).ok());
    std::vector<std::uint8_t> bytes(kPackBytes);
    Random(1).Fill(bytes);
    std::FILE* const file = std::fopen(path().c_str(), "wb");
    KERF_CHECK(file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
    std::fclose(file);
    sums_.Add(0, bytes);
  }

  void Make(unsigned percent) const { KERF_CHECK(MakeParity(path(), id_, sums_, percent).ok()); }
  void LoseSector() const {
    std::FILE* const file = std::fopen(path().c_str(), "r+b");
    KERF_CHECK(file != nullptr && std::fseek(file, kPackBytes / 2, SEEK_SET) == 0 &&
               std::fwrite("lost", 1, 4, file) == 4);
    std::fclose(file);
  }
  std::string path() const { return PackFilePath(folder_.path() + "/packs", id_, ".pack"); }
  const PackId& id() const { return id_; }

 private:
  const PackId id_ = *ParsePackId("00112233445566778899aabbccddeeff");
  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  PackSums sums_;
};

void Report(benchmark::State& state, std::uint64_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
  state.counters["cpu_s_per_GB"] =
      benchmark::Counter(static_cast<double>(state.iterations() * bytes) / 1e9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_Make(benchmark::State& state) {
  const Pack pack;
  while (state.KeepRunning()) pack.Make(static_cast<unsigned>(state.range(0)));
  Report(state, kPackBytes);
}
BENCHMARK(BM_Make)->Arg(1)->Arg(5)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

// What the writer of a pack adds to its writing, in all stores, so that parity is made of nothing
// else.
void BM_Sum(benchmark::State& state) {
  std::vector<std::uint8_t> bytes(kPackBytes);
  Random(1).Fill(bytes);
  while (state.KeepRunning()) {
    PackSums sums;
    for (std::uint64_t at = 0; at < kPackBytes; at += kBlockBytes) {
      PackSums block;
      block.Add(at, std::span<const std::uint8_t>(bytes).subspan(at, kBlockBytes));
      sums.AddAll(block);
    }
    KERF_CHECK(sums.end() == kPackBytes);
  }
  Report(state, kPackBytes);
}
BENCHMARK(BM_Sum)->Unit(benchmark::kMillisecond);

void BM_ReadBlockWithALostSector(benchmark::State& state) {
  const Pack pack;
  pack.Make(5);
  pack.LoseSector();
  while (state.KeepRunning()) {
    const auto mender = Mender::Open(pack.path(), pack.id());
    KERF_CHECK(mender.ok() && mender->Read(kPackBytes / 2, kBlockBytes).ok());
  }
}
BENCHMARK(BM_ReadBlockWithALostSector)->Unit(benchmark::kMillisecond);

void BM_ReadAll(benchmark::State& state) {
  const Pack pack;
  pack.Make(5);
  pack.LoseSector();
  while (state.KeepRunning()) KERF_CHECK(CheckMendable(pack.path(), pack.id()).ok());
  Report(state, kPackBytes);
}
BENCHMARK(BM_ReadAll)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kerf::agent

BENCHMARK_MAIN();
