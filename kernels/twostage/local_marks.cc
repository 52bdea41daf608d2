#include "kernels/twostage/local_marks.h"

#include <algorithm>

#include "kernels/reference/crc.h"
#include "kernels/reference/rabin.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

void ClearWords(std::size_t from, std::size_t to, const MarkWords& marks) {
  for (std::size_t start = from; start < to; start += kWordPositions) {
    const std::size_t word = start / kWordPositions % marks.loose.size();
    marks.loose[word] = marks.strict[word] = 0;
  }
}

void SetMark(std::size_t position, const MarkWords& marks) {
  const std::size_t word = position / kWordPositions % marks.loose.size();
  marks.strict[word] = marks.loose[word] |= std::uint64_t{1} << position % kWordPositions;
}

// Both hashes as a digest from which the byte that leaves the window has been taken.
class CrcSlide {
 public:
  static constexpr std::size_t kWindowBytes = kCrcWindowBytes;

  void Slide(std::uint8_t arriving, std::uint8_t leaving) {
    digest_ = CrcTable()[(digest_ ^ arriving) & 0xFF] ^ digest_ >> 8 ^ CrcOutTable()[leaving];
  }
  std::uint64_t digest() const { return digest_; }

 private:
  std::uint32_t digest_ = 0;
};

class RabinSlide {
 public:
  static constexpr std::size_t kWindowBytes = kRabinWindowBytes;

  // The roll begins with a one, which counts nothing once it has left the window.
  RabinSlide() {
    for (std::size_t count = 0; count < kRabinWindowBytes; ++count) roll_.Slide(0);
  }
  // It remembers what leaves.
  void Slide(std::uint8_t arriving, std::uint8_t) { roll_.Slide(arriving); }
  std::uint64_t digest() const { return roll_.digest(); }

 private:
  RabinRoll roll_;
};

template <typename Hash>
class HashMarker final : public Marker {
 public:
  explicit HashMarker(std::uint64_t mask) : mask_(mask) {}

  void Mark(Bytes bytes, std::size_t from, std::size_t to, const MarkWords& marks) const override {
    ClearWords(from, to, marks);
    Hash hash;
    const std::size_t start = from - std::min(from, Hash::kWindowBytes);
    for (std::size_t position = start; position < to; ++position) {
      const bool is_first_window = position - start < Hash::kWindowBytes;
      hash.Slide(bytes[position], is_first_window ? 0 : bytes[position - Hash::kWindowBytes]);
      if (position >= from && (hash.digest() & mask_) == 0) SetMark(position, marks);
    }
  }

 private:
  const std::uint64_t mask_;
};

// Greater than all within a window of it on both sides.
class MaximumMarker final : public Marker {
 public:
  explicit MaximumMarker(std::size_t window_bytes) : window_bytes_(window_bytes) {}

  void Mark(Bytes bytes, std::size_t from, std::size_t to, const MarkWords& marks) const override {
    ClearWords(from, to, marks);
    if (bytes.size() <= 2 * window_bytes_) return;
    const std::size_t limit = std::min(to, bytes.size() - window_bytes_);
    // Of window + 1 places in a row only that of their maximum can be one.
    for (std::size_t first = std::max(from, window_bytes_); first < limit;) {
      const std::size_t last = std::min(first + window_bytes_ + 1, limit);
      const auto range = bytes.subspan(first, last - first);
      const auto offset = std::max_element(range.begin(), range.end()) - range.begin();
      const std::size_t place = first + static_cast<std::size_t>(offset);
      if (StandsAlone(bytes, place)) SetMark(place, marks);
      first = last;
    }
  }

 private:
  bool StandsAlone(Bytes bytes, std::size_t place) const {
    const auto is_less = [&](std::uint8_t byte) { return byte < bytes[place]; };
    return std::ranges::all_of(bytes.subspan(place - window_bytes_, window_bytes_), is_less) &&
           std::ranges::all_of(bytes.subspan(place + 1, window_bytes_), is_less);
  }

  const std::size_t window_bytes_;
};

}  // namespace

std::unique_ptr<Marker> MakeLocalMarker(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kCrc:
      return std::make_unique<HashMarker<CrcSlide>>((std::uint64_t{1} << profile.mask_bits) - 1);
    case Algorithm::kRabin:
      return std::make_unique<HashMarker<RabinSlide>>(profile.avg_bytes - 1);
    case Algorithm::kMaxpLocal:
      return std::make_unique<MaximumMarker>(profile.window_bytes);
    default:
      return nullptr;
  }
}

}  // namespace kerf
