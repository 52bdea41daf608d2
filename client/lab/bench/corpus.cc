#include "client/lab/bench/corpus.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace kerf::bench {
namespace {

// The filling number of the segments that all fillings share.
constexpr std::uint64_t kShared = ~std::uint64_t{0};

// Mixes the parts so that neighbouring numbers give unrelated sequences.
std::uint64_t SegmentSeed(std::uint64_t seed, std::uint64_t filling, std::uint64_t segment) {
  const std::uint64_t of_filling = Random(seed ^ Random(filling).Next()).Next();
  return Random(of_filling ^ Random(segment).Next()).Next();
}

}  // namespace

Corpus::Corpus(std::uint64_t seed, std::uint64_t size_bytes) : seed_(seed), bytes_(size_bytes) {}

void Corpus::Fill(std::uint64_t filling, std::uint32_t duplicate_percent) {
  std::span<std::uint8_t> rest(bytes_);
  for (std::uint64_t segment = 0; !rest.empty(); ++segment) {
    const bool shared =
        (segment + 1) * duplicate_percent / 100 != segment * duplicate_percent / 100;
    const std::size_t count = std::min(rest.size(), kSegmentBytes);
    Random(SegmentSeed(seed_, shared ? kShared : filling, segment)).Fill(rest.first(count));
    rest = rest.subspan(count);
  }
}

std::span<const std::uint8_t> Corpus::Part(std::size_t index, std::size_t count) const {
  KERF_CHECK(index < count);
  const std::size_t begin = bytes_.size() * index / count;
  const std::size_t end = bytes_.size() * (index + 1) / count;
  return std::span(bytes_).subspan(begin, end - begin);
}

}  // namespace kerf::bench
