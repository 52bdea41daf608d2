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

// Goes on with `hash` over bytes[from, to) and returns the first position whose hash has no bit of
// `mask`, or `to`. One test a byte and a chain of one shift-and-add: about a cycle a byte, which
// stepping by two or four bytes did not beat (kernels/bench).
template <typename Word>
std::size_t Scan(const Word* gear, const std::uint8_t* bytes, std::size_t from, std::size_t to,
                 Word mask, Word& hash) {
  Word rolled = hash;
  std::size_t index = from;
  for (; index < to; ++index) {
    rolled = static_cast<Word>(rolled << 1) + gear[bytes[index]];
    if ((rolled & mask) == 0) break;
  }
  hash = rolled;
  return index;
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
