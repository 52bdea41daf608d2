#include "client/fs/owner_names.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <vector>

namespace kerf::agent {
namespace {

// A group with very many members needs more; its name is then left out.
constexpr std::size_t kMaxEntryBytes = 1 << 20;

// Calls `lookup(buffer)` with growing buffers; it returns an errno.
template <typename Lookup>
void WithBuffer(Lookup lookup) {
  std::vector<char> buffer(1024);
  while (lookup(buffer) == ERANGE && buffer.size() < kMaxEntryBytes) {
    buffer.resize(buffer.size() * 4);
  }
}

}  // namespace

const std::string& OwnerNames::User(std::uint32_t uid) {
  const auto [found, added] = users_.try_emplace(uid);
  if (added) {
    WithBuffer([&](std::vector<char>& buffer) {
      passwd entry{};
      passwd* result = nullptr;
      const int error = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &result);
      if (result != nullptr) found->second = entry.pw_name;
      return error;
    });
  }
  return found->second;
}

const std::string& OwnerNames::Group(std::uint32_t gid) {
  const auto [found, added] = groups_.try_emplace(gid);
  if (added) {
    WithBuffer([&](std::vector<char>& buffer) {
      group entry{};
      group* result = nullptr;
      const int error = getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &result);
      if (result != nullptr) found->second = entry.gr_name;
      return error;
    });
  }
  return found->second;
}

}  // namespace kerf::agent
