#include "client/store/parity/pack_sums.h"

#include <algorithm>

#include "client/store/parity/parity_layout.h"

namespace kerf::agent {
namespace {

Digest SumOf(std::span<const std::uint8_t> bytes) {
  return Fingerprint(DigestAlgorithm::kXxh3_128, bytes);
}

}  // namespace

void PackSums::Add(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t left_bytes = kDigestPieceBytes - offset % kDigestPieceBytes;
    const auto part = bytes.first(std::min<std::uint64_t>(bytes.size(), left_bytes));
    const Part added{part.size(), SumOf(part)};
    const auto [first, last] = parts_.equal_range(offset);
    if (std::none_of(first, last, [&](const auto& known) { return known.second == added; })) {
      parts_.emplace(offset, added);
    }
    offset += part.size();
    bytes = bytes.subspan(part.size());
  }
  end_ = std::max(end_, offset);
}

void PackSums::AddAll(const PackSums& others) {
  parts_.insert(others.parts_.begin(), others.parts_.end());
  end_ = std::max(end_, others.end_);
}

std::vector<PackSums::Range> PackSums::Gaps() const {
  std::vector<Range> gaps;
  std::uint64_t at = 0;
  for (const auto& [offset, part] : parts_) {
    if (offset > at) gaps.push_back({at, offset - at});
    at = std::max(at, offset + part.size_bytes);
  }
  return gaps;
}

bool PackSums::Match(std::uint64_t offset, std::span<const std::uint8_t> bytes) const {
  const std::uint64_t end = offset + bytes.size();
  std::uint64_t at = offset;
  const auto behind = parts_.lower_bound(offset + kDigestPieceBytes);
  for (auto next = parts_.lower_bound(offset); next != behind; ++next) {
    const auto& [begin, part] = *next;
    if (begin > at || begin + part.size_bytes > end) return false;
    if (SumOf(bytes.subspan(begin - offset, part.size_bytes)) != part.sum) return false;
    at = std::max(at, begin + part.size_bytes);
  }
  return at == end;
}

}  // namespace kerf::agent
