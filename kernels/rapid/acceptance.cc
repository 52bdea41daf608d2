#include "kernels/rapid/acceptance.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/rapid/cut_proof.h"

namespace kerf {

bool AcceptsEnd(AcceptanceCriterion criterion, const Chunker& base, const Profile& profile,
                std::span<const std::uint8_t> bytes, NextSize predicted) {
  const std::size_t length = predicted.length_bytes;
  if (length == 0 || length > std::min<std::size_t>(bytes.size(), profile.max_bytes)) return false;
  if (length < profile.min_bytes && length != bytes.size()) return false;
  switch (criterion) {
    case AcceptanceCriterion::kFf:
      return true;
    case AcceptanceCriterion::kFfMt:
      return bytes[length - 1] == predicted.marker;
    case AcceptanceCriterion::kFfRwt:
    case AcceptanceCriterion::kFfRwtFpt:
      return RollingWindowTest(base, profile, bytes, length);
  }
  KERF_CHECK(false && "a criterion that exists");
  return false;
}

}  // namespace kerf
