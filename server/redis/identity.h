// What an index in Redis is called, so that another one at its address is not taken for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf::redis {

// Written once, by the first kerfd that finds none (docs/adr/0008). A plain value.
struct IndexIdentity {
  // 32 lower-case hexadecimal digits.
  std::string id;
  // Of indexes in whose place this one came when all that they knew was gone; the last one first.
  std::vector<std::string> before;
};

// Of `before`; older ones are left out.
inline constexpr std::size_t kMaxIdsBefore = 8;

// "1 ID BEFORE...": the format's version comes first.
std::string FormatIdentity(const IndexIdentity& identity);
// FailedPrecondition unless `text` is one that FormatIdentity makes.
absl::StatusOr<IndexIdentity> ParseIdentity(std::string_view text);

std::string DrawIndexId();

// Of an index that comes in the place of `gone`, which may have an empty id: then it is the first.
IndexIdentity SuccessorOf(const IndexIdentity& gone, std::string id);

// Whether one who knows `mine` goes on with `seen`: it is the same, or has come in its place, or
// the one before it has come back.
bool IsSameLine(const IndexIdentity& mine, const IndexIdentity& seen);

}  // namespace kerf::redis
