#include "client/agent/top/worker_look.h"

#include <algorithm>

namespace kerf::agent {

const WorkerLook* FindLook(const WorkerLooks& looks, const std::string& address) {
  const auto found = std::find_if(looks.begin(), looks.end(),
                                  [&](const WorkerLook& look) { return look.address == address; });
  return found == looks.end() ? nullptr : &*found;
}

std::string StateOf(const WorkerLook& look) {
  if (!look.status.has_value()) return "lost";
  if (look.status->counts().draining()) return "draining";
  return look.status->degradations().empty() ? "serving" : "degraded";
}

std::size_t LostCountOf(const WorkerLooks& looks) {
  return static_cast<std::size_t>(std::count_if(
      looks.begin(), looks.end(), [](const WorkerLook& look) { return !look.status.has_value(); }));
}

}  // namespace kerf::agent
