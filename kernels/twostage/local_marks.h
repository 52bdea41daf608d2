// Plain markers of the rules whose marks hold wherever a chunk begins.
#pragma once

#include <memory>

#include "kernels/profile.h"
#include "kernels/twostage/mark.h"

namespace kerf {

// crc, rabin and maxp-local; none for other algorithms.
std::unique_ptr<Marker> MakeLocalMarker(const Profile& profile);

}  // namespace kerf
