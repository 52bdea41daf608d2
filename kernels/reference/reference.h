// The specification of a profile's algorithm, whichever it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/profile.h"

namespace kerf {

// As Chunker::NextCut, by the plainest code. Pure.
std::size_t ReferenceNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

}  // namespace kerf
