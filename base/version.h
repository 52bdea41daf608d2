// The version of kerf and kerfd.
#pragma once

#include <string_view>

namespace kerf {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace kerf
