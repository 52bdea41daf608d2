#include "base/overflow_user.h"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "base/small_file.h"

namespace kerf {
namespace {

// Where the system does not say (kernel/sys.c).
constexpr uid_t kOverflowUser = 65'534;
// The system takes no larger one.
constexpr uid_t kMaxOverflowUser = 65'535;
// Of all numbers but the last, which is no user's.
constexpr std::uint64_t kUserCount = 0xFFFF'FFFF;

std::string Read(const std::string& path) {
  constexpr std::size_t kMaxBytes = 16 << 10;
  return ReadSmallFile(path, kMaxBytes).value_or("");
}

// Whether every user has a number, as outside of all user namespaces.
bool NamesAll(std::string_view uid_map) {
  std::istringstream lines{std::string(uid_map)};
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  lines >> inside >> outside >> count;
  return !lines.fail() && inside == 0 && outside == 0 && count == kUserCount;
}

}  // namespace

bool MayBeAnybody(uid_t user) {
  if (user > kMaxOverflowUser) return false;
  return MayBeAnybody(user, Read("/proc/sys/kernel/overflowuid"), Read("/proc/self/uid_map"));
}

bool MayBeAnybody(uid_t user, std::string_view overflow_uid, std::string_view uid_map) {
  std::istringstream number{std::string(overflow_uid)};
  uid_t overflow = 0;
  if (!(number >> overflow)) overflow = kOverflowUser;
  return user == overflow && !NamesAll(uid_map);
}

}  // namespace kerf
