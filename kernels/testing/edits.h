// The next version of a file, made by seeded edits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace kerf {

enum class EditKinds : std::uint8_t {
  // Inserts, deletes and overwrites.
  kMixed,
  // What moves the bytes behind it.
  kInsertDelete,
  kOverwrite,
};

struct EditRule {
  std::size_t edit_count = 0;
  // Bytes that one edit inserts, deletes or overwrites.
  std::size_t min_edit_bytes = 1;
  std::size_t max_edit_bytes = 1;
  EditKinds kinds = EditKinds::kMixed;
  // Edits lie in this share of the file, at its front: above 0, at most 1.
  double spread = 1;
};

// Edits that would go beyond the end are cut off there.
std::vector<std::uint8_t> MakeEdited(Random& random, std::span<const std::uint8_t> bytes,
                                     const EditRule& rule);

}  // namespace kerf
