#include "kernels/scalar/scalar_backend.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/reference/fastcdc.h"
#include "kernels/reference/fastcdc2020.h"

namespace kerf {
namespace {

template <typename Word>
struct Masks {
  Word strict;
  Word loose;
};

template <typename Word>
Word Roll(const Word* gear, Word hash, std::uint8_t byte) {
  return static_cast<Word>(hash << 1) + gear[byte];
}

// Goes on with `hash` over bytes[from, to) and returns the first position whose hash has no bit of
// `mask`, or `to`.
template <typename Word>
std::size_t ScanOne(const Word* gear, const std::uint8_t* bytes, std::size_t from, std::size_t to,
                    Word mask, Word& hash) {
  Word rolled = hash;
  std::size_t index = from;
  for (; index < to; ++index) {
    rolled = Roll(gear, rolled, bytes[index]);
    if ((rolled & mask) == 0) break;
  }
  hash = rolled;
  return index;
}

// What is scanned by three hashes at once: each of them waits for itself at every byte.
constexpr std::size_t kSegmentBytes = 384;
constexpr std::size_t kBlockBytes = 3 * kSegmentBytes;
constexpr std::size_t kCacheLineBytes = 64;
// The processor's own prefetching ends with each page.
constexpr std::size_t kPrefetchBytes = 4096;

// As ScanOne. A hash sees as many bytes as it has bits: the second and the third begin so far in
// front of their segments.
template <typename Word>
std::size_t Scan(const Word* gear, const std::uint8_t* bytes, std::size_t from, std::size_t to,
                 Word mask, Word& hash) {
  constexpr std::size_t kWindowBytes = 8 * sizeof(Word);
  static_assert(kWindowBytes <= kSegmentBytes && kSegmentBytes % 2 == 0);
  const auto hash_before = [=](const std::uint8_t* end) {
    Word before = 0;
    for (const std::uint8_t* byte = end - kWindowBytes; byte != end; ++byte) {
      before = Roll(gear, before, *byte);
    }
    return before;
  };
  std::size_t start = from;
  for (; start + kBlockBytes <= to; start += kBlockBytes) {
    const std::uint8_t* const block = bytes + start;
    for (std::size_t line = 0; line < kBlockBytes; line += kCacheLineBytes) {
      __builtin_prefetch(block + kPrefetchBytes + line);
    }
    Word hash_0 = hash;
    Word hash_1 = hash_before(block + kSegmentBytes);
    Word hash_2 = hash_before(block + 2 * kSegmentBytes);
    const auto roll_finds = [&](std::size_t index) {
      hash_0 = Roll(gear, hash_0, block[index]);
      hash_1 = Roll(gear, hash_1, block[kSegmentBytes + index]);
      hash_2 = Roll(gear, hash_2, block[2 * kSegmentBytes + index]);
      return (hash_0 & mask) == 0 || (hash_1 & mask) == 0 || (hash_2 & mask) == 0;
    };
    std::size_t index = 0;
    for (; index < kSegmentBytes; index += 2) {
      if (roll_finds(index)) [[unlikely]]
        break;
      if (roll_finds(index + 1)) [[unlikely]] {
        ++index;
        break;
      }
    }
    hash = hash_2;
    if (index == kSegmentBytes) continue;
    // What the segments in front of the find have left comes first.
    if ((hash_0 & mask) == 0) return start + index;
    std::size_t cut = ScanOne(gear, block, index + 1, kSegmentBytes, mask, hash_0);
    if (cut != kSegmentBytes) return start + cut;
    if ((hash_1 & mask) == 0) return start + kSegmentBytes + index;
    cut = ScanOne(gear, block, kSegmentBytes + index + 1, 2 * kSegmentBytes, mask, hash_1);
    return start + (cut != 2 * kSegmentBytes ? cut : 2 * kSegmentBytes + index);
  }
  return ScanOne(gear, bytes, start, to, mask, hash);
}

// FastCDC with tables, masks and the parity rule of its variant: what kernels/reference says, with
// everything that does not depend on the bytes taken out of the loop. chunker_test.cc holds the two
// equal.
template <typename Word>
class GearChunker final : public Chunker {
 public:
  // `unit` is 2 where the last byte of an odd size is not looked at, else 1.
  GearChunker(const Profile& profile, std::span<const Word, 256> gear, Masks<Word> masks,
              std::size_t unit)
      : gear_(gear.data()),
        masks_(masks),
        min_bytes_(profile.min_bytes),
        avg_bytes_(profile.avg_bytes),
        max_bytes_(profile.max_bytes),
        unit_(unit) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    KERF_CHECK(!bytes.empty());
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size <= min_bytes_) return size;
    const std::size_t end = size - size % unit_;
    const std::size_t middle = std::min(avg_bytes_, end);
    Word hash = 0;
    std::size_t cut = Scan(gear_, bytes.data(), min_bytes_, middle, masks_.strict, hash);
    if (cut == middle) cut = Scan(gear_, bytes.data(), middle, end, masks_.loose, hash);
    return cut == end ? size : cut;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  const Word* gear_;
  Masks<Word> masks_;
  std::size_t min_bytes_;
  std::size_t avg_bytes_;
  std::size_t max_bytes_;
  std::size_t unit_;
};

bool RunsHere() { return true; }

std::unique_ptr<Chunker> Make(const Profile& profile) {
  if (profile.algorithm != Algorithm::kFastCdc && profile.algorithm != Algorithm::kFastCdc2020) {
    return nullptr;
  }
  const std::uint32_t bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
  const std::uint32_t strict_bits = bits + profile.level;
  const std::uint32_t loose_bits = bits - profile.level;
  if (profile.algorithm == Algorithm::kFastCdc) {
    return std::make_unique<GearChunker<std::uint32_t>>(
        profile, FastCdcGear(),
        Masks<std::uint32_t>{FastCdcMask(strict_bits), FastCdcMask(loose_bits)}, 1);
  }
  return std::make_unique<GearChunker<std::uint64_t>>(
      profile, FastCdc2020Gear(),
      Masks<std::uint64_t>{FastCdc2020Mask(strict_bits), FastCdc2020Mask(loose_bits)}, 2);
}

}  // namespace

Backend ScalarBackend() { return {"scalar", RunsHere, Make}; }

}  // namespace kerf
