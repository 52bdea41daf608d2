// What the parameters of an algorithm may be.
#pragma once

#include <string>
#include <string_view>

#include "kernels/profile.h"

namespace kerf {

// Empty if the parameters that the algorithm has keys for are valid; else which key is wrong, its
// range, and why. `name` is the algorithm's. Pure.
std::string WhyProfileIsInvalid(const Profile& profile, std::string_view name);

}  // namespace kerf
