// libkerf, driven by the conformance kit: docs/spec/conformance.md.
#include <optional>

#include "client/c/conformance/agent.h"
#include "client/c/conformance/kit.h"
#include "client/c/kerf.h"

int main() {
  using kerf::c::conformance::Json;
  kerf::c::conformance::Kit kit;
  kerf::c::conformance::Agent agent(kit);
  // Without collections, and a store in a folder: libkerf has neither.
  kit.Say(
      {{"client", std::string("libkerf/") + kerf_version()},
       {"protocol", 1},
       {"can", {"reader", "store", "lengths", "snapshot", "silence_s", "commit_bytes", "direct"}}});
  while (const std::optional<Json> told = kit.Next()) {
    const absl::StatusOr<Json> done = agent.Do(*told);
    kit.Say(done.ok() ? Json{{"ok", *done}}
                      : Json{{"error", kerf::c::conformance::ToldOf(done.status())}});
  }
  return 0;
}
