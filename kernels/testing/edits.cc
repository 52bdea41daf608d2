#include "kernels/testing/edits.h"

#include <algorithm>

#include "base/check.h"

namespace kerf {
namespace {

struct Edit {
  bool inserts = false;
  bool deletes = false;
};

Edit PickEdit(Random& random, EditKinds kinds) {
  const std::uint64_t kind = random.Below(3);
  switch (kinds) {
    case EditKinds::kMixed:
      return {.inserts = kind != 1, .deletes = kind != 0};
    case EditKinds::kInsertDelete:
      return {.inserts = kind % 2 == 0, .deletes = kind % 2 != 0};
    case EditKinds::kOverwrite:
      return {.inserts = true, .deletes = true};
  }
  KERF_CHECK(false && "a kind of edits that exists");
  return {};
}

}  // namespace

std::vector<std::uint8_t> MakeEdited(Random& random, std::span<const std::uint8_t> bytes,
                                     const EditRule& rule) {
  KERF_CHECK(rule.min_edit_bytes <= rule.max_edit_bytes && rule.spread > 0 && rule.spread <= 1);
  const auto reach = static_cast<std::size_t>(static_cast<double>(bytes.size()) * rule.spread);
  std::vector<std::size_t> places(rule.edit_count);
  for (std::size_t& place : places) place = random.Below(reach + 1);
  std::ranges::sort(places);
  std::vector<std::uint8_t> edited;
  edited.reserve(bytes.size() + rule.edit_count * rule.max_edit_bytes);
  std::size_t done = 0;
  const auto copy_up_to = [&](std::size_t end) {
    if (end > done) {
      edited.insert(edited.end(), bytes.begin() + static_cast<std::ptrdiff_t>(done),
                    bytes.begin() + static_cast<std::ptrdiff_t>(end));
      done = end;
    }
  };
  for (const std::size_t place : places) {
    copy_up_to(place);
    std::vector<std::uint8_t> fresh(random.Between(rule.min_edit_bytes, rule.max_edit_bytes));
    random.Fill(fresh);
    const Edit edit = PickEdit(random, rule.kinds);
    if (edit.inserts) edited.insert(edited.end(), fresh.begin(), fresh.end());
    if (edit.deletes) done = std::min(done + fresh.size(), bytes.size());
  }
  copy_up_to(bytes.size());
  return edited;
}

}  // namespace kerf
