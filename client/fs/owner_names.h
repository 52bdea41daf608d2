// Names of users and groups.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace kerf::agent {

// Asks the system once for each id. The empty string where there is no name. Not thread-safe.
class OwnerNames {
 public:
  const std::string& User(std::uint32_t uid);
  const std::string& Group(std::uint32_t gid);

 private:
  std::unordered_map<std::uint32_t, std::string> users_;
  std::unordered_map<std::uint32_t, std::string> groups_;
};

}  // namespace kerf::agent
