// Debian's Abseil has a string_view of its own (it is built as C++14). kerf's interfaces speak
// std::string_view; these few functions stand at the border.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kerf {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view FromAbsl(absl::string_view text) { return {text.data(), text.size()}; }

// The message of a status, without its code.
inline std::string_view MessageOf(const absl::Status& status) { return FromAbsl(status.message()); }

namespace strings_internal {
template <typename T>
decltype(auto) Adapt(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return ToAbsl(value);
  } else {
    return (value);
  }
}
}  // namespace strings_internal

// absl::StrCat that also takes std::string_view.
template <typename... Parts>
std::string Cat(const Parts&... parts) {
  return absl::StrCat(strings_internal::Adapt(parts)...);
}

// The same status with "context: " in front of its message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return {status.code(), ToAbsl(Cat(context, ": ", MessageOf(status)))};
}

}  // namespace kerf
