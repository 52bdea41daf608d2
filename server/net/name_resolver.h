// Hosts' names to addresses, without making whoever asks wait.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf {

// One of: numbers, as connect wants them.
using HostAddresses = std::vector<std::string>;
// May block. Called by one thread for each host at a time.
using LookUpHost = std::function<absl::StatusOr<HostAddresses>(const std::string& host)>;

// getaddrinfo's answer. Unavailable with what it says.
absl::StatusOr<HostAddresses> LookUpHostInSystem(const std::string& host);

// Its owner's thread's own. A lookup that hangs goes on behind its back, also when it is gone.
class NameResolver {
 public:
  explicit NameResolver(LookUpHost look_up);
  ~NameResolver();

  // The host itself if it is a number. Else the answer to a lookup that ended within the last
  // second, or that nobody has been given yet; if there is none, one is begun unless it is under
  // way, and nothing is returned: ask again.
  std::optional<absl::StatusOr<HostAddresses>> Find(const std::string& host);

 private:
  struct Shared;
  // Whoever looks up has it, too.
  const std::shared_ptr<Shared> shared_;
};

}  // namespace kerf
