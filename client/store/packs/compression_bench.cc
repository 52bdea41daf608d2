// What each way to compress makes of files, and what it costs: compression_bench FILE...
// One thread, CPU time, the best of three rounds by turns; the first 64 MiB of each file, and all
// of them together.
#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "client/store/packs/block_compressor.h"
#include "client/store/packs/compression.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr int kRounds = 3;

struct Way {
  std::string_view name;
  std::string_view compression;
  Effort effort = Effort::kBrisk;
};
constexpr Way kWays[] = {{"default", "default"},
                         {"auto", "auto"},
                         {"auto, slow disk", "auto", Effort::kThorough},
                         {"fast", "fast"}};

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<std::uint8_t> ReadFront(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> bytes(kMaxFileBytes);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

std::size_t Compress(BlockCompressor& compressor, std::size_t block_bytes, Effort effort,
                     std::span<const std::uint8_t> bytes) {
  std::size_t stored_bytes = 0;
  while (!bytes.empty()) {
    const auto block = bytes.first(std::min(block_bytes, bytes.size()));
    const auto frame = compressor.Compress(block, effort);
    KERF_CHECK(frame.ok());
    stored_bytes += frame->empty() ? block.size() : frame->size();
    bytes = bytes.subspan(block.size());
  }
  return stored_bytes;
}

void Measure(const std::string& name, std::span<const std::uint8_t> bytes) {
  std::array<double, std::size(kWays)> seconds{};
  std::array<std::size_t, std::size(kWays)> stored_bytes{};
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t index = 0; index < std::size(kWays); ++index) {
      const Compression compression = *ParseCompression(kWays[index].compression);
      BlockCompressor compressor(compression);
      const double begin = CpuSeconds();
      stored_bytes[index] =
          Compress(compressor, compression.block_bytes, kWays[index].effort, bytes);
      const double took = CpuSeconds() - begin;
      seconds[index] = round == 0 ? took : std::min(seconds[index], took);
    }
  }
  for (std::size_t index = 0; index < std::size(kWays); ++index) {
    std::printf(
        "%-32s %-16s %8.1f MB/s  %6.2f %%\n", name.c_str(), std::string(kWays[index].name).c_str(),
        static_cast<double>(bytes.size()) / seconds[index] / 1e6,
        100.0 * static_cast<double>(stored_bytes[index]) / static_cast<double>(bytes.size()));
  }
}

}  // namespace
}  // namespace kerf::agent

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: compression_bench FILE...\n");
    return 2;
  }
  std::vector<std::uint8_t> all;
  for (int index = 1; index < argc; ++index) {
    const std::vector<std::uint8_t> bytes = kerf::agent::ReadFront(argv[index]);
    if (bytes.empty()) {
      std::fprintf(stderr, "compression_bench: there is nothing in %s\n", argv[index]);
      return 1;
    }
    const std::string path = argv[index];
    kerf::agent::Measure(path.substr(path.rfind('/') + 1), bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  if (argc > 2) kerf::agent::Measure("all", all);
  return 0;
}
