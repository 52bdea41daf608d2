#include "client/store/check/read_subset.h"

#include <algorithm>
#include <cstddef>

#include "base/little_endian.h"

namespace kerf::agent {

std::vector<std::shared_ptr<const KnownPack>> ChoosePacks(
    std::vector<std::shared_ptr<const KnownPack>> packs, const ReadSubset& subset) {
  std::sort(packs.begin(), packs.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  if (subset.part_count > 0) {
    // Ids are random.
    std::erase_if(packs, [&](const auto& pack) {
      return LoadLittleEndian<std::uint64_t>(pack->id.bytes.data()) % subset.part_count !=
             subset.part - 1;
    });
  }
  if (subset.after.has_value()) {
    const auto next = std::find_if(packs.begin(), packs.end(),
                                   [&](const auto& pack) { return pack->id > *subset.after; });
    std::rotate(packs.begin(), next, packs.end());
  }
  if (subset.max_bytes > 0) {
    std::uint64_t sum_bytes = 0;
    std::size_t count = 0;
    while (count < packs.size() && sum_bytes < subset.max_bytes) {
      sum_bytes += packs[count++]->file_bytes;
    }
    packs.resize(count);
  }
  return packs;
}

}  // namespace kerf::agent
