#include "client/lab/analyze/count.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf::agent::analyze {
namespace {

// Those of a hash are uniform already.
struct FirstBytes {
  std::size_t operator()(const Xxh3Digest& digest) const {
    std::size_t value = 0;
    std::memcpy(&value, digest.data(), sizeof value);
    return value;
  }
};

class Counter {
 public:
  explicit Counter(std::size_t part_count) { figures_.new_bytes_by_part.resize(part_count); }

  void Add(Bytes bytes, std::uint32_t part) {
    figures_.total_bytes += bytes.size();
    ++figures_.chunk_count;
    if (!seen_.insert(Xxh3Of128(bytes)).second) return;
    figures_.unique_bytes += bytes.size();
    figures_.new_bytes_by_part[part] += bytes.size();
  }

  CountFigures Take() {
    figures_.unique_chunk_count = seen_.size();
    return std::move(figures_);
  }

 private:
  CountFigures figures_;
  absl::flat_hash_set<Xxh3Digest, FirstBytes> seen_;
};

}  // namespace

std::optional<CountFigures> CountUnique(const Chunker& chunker, const Corpus& corpus,
                                        const std::atomic<bool>& cancelled,
                                        std::atomic<std::uint64_t>& done_bytes) {
  // So that a large file shows progress too.
  constexpr std::uint64_t kReportBytes = 16 << 20;
  Counter counter(corpus.parts.size());
  std::vector<std::uint32_t> sizes;
  std::uint64_t unreported_bytes = 0;
  for (const CorpusFile& file : corpus.files) {
    for (Bytes rest = corpus.BytesOf(file); !rest.empty();) {
      const std::size_t length = chunker.NextCut(rest);
      counter.Add(rest.first(length), file.part);
      sizes.push_back(static_cast<std::uint32_t>(length));
      rest = rest.subspan(length);
      unreported_bytes += length;
      if (unreported_bytes < kReportBytes) continue;
      done_bytes += std::exchange(unreported_bytes, 0);
      if (cancelled) return std::nullopt;
    }
  }
  done_bytes += unreported_bytes;
  CountFigures figures = counter.Take();
  figures.sizes = DistributionOf(sizes);
  return figures;
}

CountFigures CountWholeFiles(const Corpus& corpus) {
  Counter counter(corpus.parts.size());
  for (const CorpusFile& file : corpus.files) counter.Add(corpus.BytesOf(file), file.part);
  return counter.Take();
}

SizeDistribution DistributionOf(std::vector<std::uint32_t>& sizes) {
  SizeDistribution distribution;
  if (sizes.empty()) return distribution;
  std::sort(sizes.begin(), sizes.end());
  // The smallest size that at least that share of the chunks does not exceed.
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(sizes.size()));
    return sizes[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  distribution.min_bytes = sizes.front();
  distribution.p5_bytes = at(0.05);
  distribution.p25_bytes = at(0.25);
  distribution.p50_bytes = at(0.50);
  distribution.p75_bytes = at(0.75);
  distribution.p95_bytes = at(0.95);
  distribution.max_bytes = sizes.back();
  auto begin = sizes.begin();
  for (std::uint32_t up_to = std::bit_ceil(sizes.front()); begin != sizes.end(); up_to *= 2) {
    const auto end = std::upper_bound(begin, sizes.end(), up_to);
    distribution.histogram.push_back({up_to, static_cast<std::uint64_t>(end - begin)});
    begin = end;
  }
  return distribution;
}

}  // namespace kerf::agent::analyze
