// FastCDC 2020 as it is in the field, in its plainest form: the specification that runs. Faster
// forms are held equal to it by tests. Source: FastCDC (Xia et al., TPDS 2020) for the idea; table,
// masks and the two-byte step are those of the Rust registry's crate `fastcdc`, module v2020. Rules
// in docs/spec/chunking.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/profile.h"

namespace kerf {

// The length of the chunk that begins at bytes[0]; `bytes` as for Chunker::NextCut, `profile` valid
// and of this algorithm. Pure.
std::size_t FastCdc2020NextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

std::span<const std::uint64_t, 256> FastCdc2020Gear();

// The mask with `bits` one bits: kFastCdc2020MinMaskBits..kFastCdc2020MaxMaskBits.
std::uint64_t FastCdc2020Mask(std::uint32_t bits);

}  // namespace kerf
