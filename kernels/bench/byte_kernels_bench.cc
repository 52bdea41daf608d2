// Cutting by bytes on one core as a share of reading the same bytes, in one run: for each rule,
// backend and kind of bytes, from memory and from the second-level cache. Every result is compared
// with the reference first. Run:
//   bazel run //kernels/bench:byte_kernels_bench [-- PROFILE...]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/profile.h"
#include "kernels/reference/reference.h"
#include "kernels/registry.h"
#include "kernels/testing/inputs.h"
#include "kernels/vector/read_ceiling.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

struct Source {
  std::string_view name;
  std::size_t size_bytes;
  // Passes over the bytes that are one measurement.
  int pass_count;
};

constexpr std::array<Source, 2> kSources = {{{"dram", 256 << 20, 1}, {"l2", 512 << 10, 64}}};
constexpr std::array<std::string_view, 3> kKinds = {"random", "text", "constant"};
constexpr std::size_t kCheckedBytes = 4 << 20;
constexpr int kMeasurementCount = 7;

// Seconds that one measurement takes.
template <typename Pass>
double Time(const Source& source, const Pass& pass) {
  const auto start = std::chrono::steady_clock::now();
  for (int count = 0; count < source.pass_count; ++count) pass();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

volatile std::uint64_t sink;

std::size_t CutAll(const Chunker& chunker, Bytes bytes) {
  std::size_t chunks = 0;
  for (; !bytes.empty(); ++chunks) bytes = bytes.subspan(chunker.NextCut(bytes));
  return chunks;
}

void Check(const Chunker& chunker, const Profile& profile, Bytes bytes) {
  bytes = bytes.first(std::min(bytes.size(), kCheckedBytes));
  while (!bytes.empty()) {
    const std::size_t length = chunker.NextCut(bytes);
    KERF_CHECK(length == ReferenceNextCut(profile, bytes));
    bytes = bytes.subspan(length);
  }
}

void Measure(const Source& source, std::string_view kind, std::span<const std::string_view> names) {
  const std::vector<std::uint8_t> bytes =
      MakeInput(kind, kind == "constant" ? 0 : 1, source.size_bytes);
  for (const std::string_view name : names) {
    const Profile profile = *ParseProfile(name);
    for (const std::string_view backend : BackendsFor(profile)) {
      if (backend == "plain") continue;
      const std::unique_ptr<Chunker> chunker = *MakeChunkerOf(backend, profile);
      Check(*chunker, profile, bytes);
      const std::size_t chunks = CutAll(*chunker, bytes);
      double ceiling_time = 1e9;
      double time = 1e9;
      // By turns, so that another program's noise meets both.
      for (int measurement = 0; measurement < kMeasurementCount; ++measurement) {
        time = std::min(time, Time(source, [&] { sink = CutAll(*chunker, bytes); }));
        for (const ReadBytes read : Readers()) {
          ceiling_time = std::min(ceiling_time, Time(source, [&] { sink = read(bytes); }));
        }
      }
      const double total = static_cast<double>(source.size_bytes) * source.pass_count;
      const double ceiling = total / ceiling_time;
      const double speed = total / time;
      std::printf("%-5.*s %-9.*s %-11.*s %-11.*s %7.2f GB/s  %5.2f of %6.2f  average %zu\n",
                  static_cast<int>(source.name.size()), source.name.data(),
                  static_cast<int>(kind.size()), kind.data(), static_cast<int>(name.size()),
                  name.data(), static_cast<int>(backend.size()), backend.data(), speed / 1e9,
                  speed / ceiling, ceiling / 1e9, bytes.size() / chunks);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace kerf

int main(int argc, char** argv) {
  std::vector<std::string_view> names(argv + 1, argv + argc);
  if (names.empty()) {
    names = {"ram-8k", "ae-max-8k", "ae-min-8k", "maxp-8k", "mincdc-8k", "seqcdc-8k", "seqcdc-16k"};
  }
  for (const kerf::Source& source : kerf::kSources) {
    for (const std::string_view kind : kerf::kKinds) kerf::Measure(source, kind, names);
  }
  return 0;
}
