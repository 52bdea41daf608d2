#include "kernels/rapid/size_list.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/strings.h"
#include "kernels/profile.h"
#include "kernels/rapid/packing.h"

namespace kerf {
namespace {

constexpr std::uint8_t kVersion = 1;

absl::Status Unreadable(std::string_view why) {
  return absl::DataLossError(ToAbsl(Cat("size list: ", why, "; it is a hint and may be dropped")));
}

}  // namespace

void SizeList::Hit(NextSize next, std::size_t max_sizes) {
  KERF_CHECK(max_sizes >= 1 && max_sizes <= kMaxSizes);
  KERF_CHECK(next.length_bytes >= 1 && next.length_bytes <= kMaxMaxBytes);
  // Where it stood, or the first place behind the list.
  std::size_t place = 0;
  while (place < count_ && sizes_[place].length_bytes != next.length_bytes) ++place;
  count_ = std::min(std::max(count_, place + 1), max_sizes);
  for (std::size_t index = std::min(place, max_sizes - 1); index > 0; --index) {
    sizes_[index] = sizes_[index - 1];
  }
  sizes_[0] = next;
}

std::vector<std::uint8_t> SizeList::Pack() const {
  std::vector<std::uint8_t> bytes = {static_cast<std::uint8_t>(kVersion << 4 | count_)};
  for (const NextSize& next : sizes()) {
    rapid_packing::AppendVarint(next.length_bytes, bytes);
    bytes.push_back(next.marker);
  }
  return bytes;
}

absl::StatusOr<SizeList> SizeList::Unpack(std::span<const std::uint8_t> bytes) {
  rapid_packing::Reader reader(bytes);
  const std::optional<std::uint8_t> head = reader.Byte();
  if (!head) return Unreadable("no bytes");
  if (*head >> 4 != kVersion) {
    return Unreadable(Cat("version ", *head >> 4, ", this kerf reads ", int{kVersion}));
  }
  SizeList list;
  const std::size_t count = *head & 0x0F;
  if (count > kMaxSizes) return Unreadable(Cat(count, " sizes, at most ", kMaxSizes));
  for (; list.count_ < count; ++list.count_) {
    const std::optional<std::uint32_t> length = reader.Varint();
    const std::optional<std::uint8_t> marker = reader.Byte();
    if (!length || !marker) return Unreadable(Cat("cut off in size ", list.count_));
    if (*length == 0 || *length > kMaxMaxBytes) {
      return Unreadable(Cat("size ", list.count_, " is ", *length, ", not 1 to ", kMaxMaxBytes));
    }
    for (const NextSize& other : list.sizes()) {
      if (other.length_bytes == *length) return Unreadable(Cat("two sizes of ", *length));
    }
    list.sizes_[list.count_] = {*length, *marker};
  }
  if (!reader.empty()) return Unreadable("bytes behind its end");
  return list;
}

bool operator==(const SizeList& left, const SizeList& right) {
  return std::ranges::equal(left.sizes(), right.sizes());
}

}  // namespace kerf
