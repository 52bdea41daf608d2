// Puts many keys in the order of their bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kerf {

template <typename Owner>
struct OwnedKey {
  const Owner* owner = nullptr;
  // Of SortByKey alone.
  std::uint64_t part = 0;
};

// Compares eight bytes of the keys at a time, which lie side by side meanwhile, and not where the
// keys are: several times as fast as std::sort where most keys begin alike and then differ soon, as
// digests of one repository do. For other keys it is slower than that by no more than their length
// in parts. `key_of(*owner)` is the key; of keys that are equal any may be first.
template <typename Owner, typename KeyOf>
class KeySorter {
 public:
  using Key = OwnedKey<Owner>;

  explicit KeySorter(const KeyOf& key_of) : key_of_(key_of) {}

  void Sort(std::vector<Key>& keys) {
    if (keys.empty()) return;
    room_.resize(keys.size());
    SortFrom(keys, 0);
  }

 private:
  static constexpr std::size_t kPartBytes = sizeof(std::uint64_t);
  // Fewer are sorted at once.
  static constexpr std::size_t kMinSpread = 2048;
  static constexpr std::size_t kSpread = 256;
  // So far ahead memory is asked for.
  static constexpr std::size_t kAhead = 12;

  // As a number: keys of which it differs are in its order. What is behind the end counts as 0.
  static std::uint64_t PartOf(std::string_view key, std::size_t offset) {
    unsigned char bytes[kPartBytes] = {};
    if (key.size() >= offset + kPartBytes) {
      std::memcpy(bytes, key.data() + offset, kPartBytes);
    } else if (key.size() > offset) {
      std::memcpy(bytes, key.data() + offset, key.size() - offset);
    }
    std::uint64_t part = 0;
    for (const unsigned char byte : bytes) part = part << 8 | byte;
    return part;
  }

  static bool HasSmallerPart(const Key& a, const Key& b) { return a.part < b.part; }

  // Those that are equal up to `offset`.
  void SortFrom(std::span<Key> keys, std::size_t offset) {
    for (std::size_t index = 0; index < keys.size(); ++index) {
      if (index + kAhead < keys.size()) __builtin_prefetch(keys[index + kAhead].owner);
      keys[index].part = PartOf(key_of_(*keys[index].owner), offset);
    }
    // What most keys have in common is not compared again and again.
    const std::uint64_t common = keys[keys.size() / 2].part;
    const auto begin = std::partition(keys.begin(), keys.end(),
                                      [common](const Key& key) { return key.part < common; });
    const auto end =
        std::partition(begin, keys.end(), [common](const Key& key) { return key.part == common; });
    SortSide({keys.begin(), begin}, offset);
    SortBehind({begin, end}, offset);
    SortSide({end, keys.end()}, offset);
  }

  // By their parts, which are of `offset`, and those of one part by what is behind.
  void SortSide(std::span<Key> keys, std::size_t offset) {
    if (keys.size() >= kMinSpread) {
      SpreadAndSort(keys);
    } else {
      std::sort(keys.begin(), keys.end(), HasSmallerPart);
    }
    for (auto first = keys.begin(); first != keys.end();) {
      const auto last = std::find_if(first + 1, keys.end(),
                                     [first](const Key& key) { return key.part != first->part; });
      SortBehind({first, last}, offset);
      first = last;
    }
  }

  // The same as std::sort: in portions that fit into the first-level cache, if they are random.
  void SpreadAndSort(std::span<Key> keys) {
    int shift = 0;
    std::uint64_t differing = 0;
    for (const Key& key : keys) differing |= key.part ^ keys.front().part;
    while (shift < 56 && differing >> shift >= kSpread) shift += 8;
    std::array<std::size_t, kSpread + 1> ends{};
    const auto portion = [shift](const Key& key) { return key.part >> shift & (kSpread - 1); };
    for (const Key& key : keys) ++ends[portion(key) + 1];
    for (std::size_t index = 1; index <= kSpread; ++index) ends[index] += ends[index - 1];
    for (const Key& key : keys) room_[ends[portion(key)]++] = key;
    std::copy_n(room_.begin(), keys.size(), keys.begin());
    std::size_t first = 0;
    for (std::size_t index = 0; index < kSpread; ++index) {
      std::sort(keys.begin() + static_cast<std::ptrdiff_t>(first),
                keys.begin() + static_cast<std::ptrdiff_t>(ends[index]), HasSmallerPart);
      first = ends[index];
    }
  }

  // Those of which the part at `offset` is equal, too.
  void SortBehind(std::span<Key> keys, std::size_t offset) {
    if (keys.size() < 2) return;
    const bool all_go_on = std::all_of(keys.begin(), keys.end(), [&](const Key& key) {
      return key_of_(*key.owner).size() > offset + kPartBytes;
    });
    if (all_go_on) return SortFrom(keys, offset + kPartBytes);
    // Zeros at an end are like nothing there: only the lengths tell.
    std::sort(keys.begin(), keys.end(),
              [this](const Key& a, const Key& b) { return key_of_(*a.owner) < key_of_(*b.owner); });
  }

  const KeyOf& key_of_;
  // As many as there are keys.
  std::vector<Key> room_;
};

template <typename Owner, typename KeyOf>
void SortByKey(std::vector<OwnedKey<Owner>>& keys, const KeyOf& key_of) {
  KeySorter<Owner, KeyOf>(key_of).Sort(keys);
}

}  // namespace kerf
