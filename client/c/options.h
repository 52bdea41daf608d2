// Reads structs that callers of another release have made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/strings.h"
#include "client/c/error.h"

namespace kerf::c {

// No struct is near that.
inline constexpr std::size_t kMaxStructBytes = 4096;

// What `given` has: members that its caller did not know are 0. `first_bytes` is what the first
// release had of it. KERF_BAD_ARGUMENT if it is null, shorter than that, or says what this release
// cannot read.
template <typename Struct>
absl::StatusOr<Struct> ReadStruct(const Struct* given, std::size_t first_bytes,
                                  std::string_view name) {
  if (given == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, Cat(name, " is NULL"));
  const std::size_t size_bytes = given->struct_size;
  if (size_bytes < first_bytes || size_bytes > kMaxStructBytes) {
    return ErrorOf(KERF_BAD_ARGUMENT, Cat("struct_size of ", name, " is ", size_bytes,
                                          "; it is sizeof(", name, "), at least ", first_bytes));
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  const auto* const known_end = bytes + std::min(size_bytes, sizeof(Struct));
  if (std::any_of(known_end, bytes + size_bytes, [](unsigned char byte) { return byte != 0; })) {
    return ErrorOf(KERF_BAD_ARGUMENT,
                   Cat(name,
                       " has members that this libkerf does not know: it is older than the "
                       "header; leave them 0, or take a newer one"));
  }
  Struct known{};
  std::memcpy(&known, given, std::min(size_bytes, sizeof(Struct)));
  return known;
}

}  // namespace kerf::c
