// The published tests of a predicted chunk end (RapidCDC: Ni, Jiang, SoCC 2019, section 3.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/rapid/size_list.h"

namespace kerf {

enum class AcceptanceCriterion : std::uint8_t {
  // Fast-forwarding only: whatever is predicted.
  kFf,
  // And the rolling window test holds there.
  kFfRwt,
  // And the chunk's last byte, its marker, is that of the chunk that made the prediction.
  kFfMt,
  // As kFfRwt, and the chunk's fingerprint is known.
  kFfRwtFpt,
};

// What can be told without a fingerprint; kFfRwtFpt is kFfRwt here, and the caller makes the
// fingerprint test. `bytes` as for Chunker::NextCut, `base` cuts by `profile`. Whatever the
// criterion, a chunk that is shorter than min_bytes, unless the data ends with it, longer than
// max_bytes or longer than the data is refused. Pure.
bool AcceptsEnd(AcceptanceCriterion criterion, const Chunker& base, const Profile& profile,
                std::span<const std::uint8_t> bytes, NextSize predicted);

}  // namespace kerf
