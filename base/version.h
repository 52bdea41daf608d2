// The version of kerf: of its programs, images and clients. tools/ci/versions.py holds all that
// name it to this one, and CHANGELOG.md; docs/upgrade.md says how it goes on.
#pragma once

#include <string_view>

namespace kerf {

inline constexpr std::string_view kVersion = "0.2.0-dev";

}  // namespace kerf
