#include "client/agent/backup/who_cuts.h"

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/fingerprint/blake3.h"
#include "kernels/registry.h"

namespace kerf::agent {
namespace {

// Those that read a byte at a time, which a server is likely to do better than.
bool IsFast(std::string_view backend) { return backend != "plain" && backend != "scalar"; }

}  // namespace

absl::StatusOr<WhoCuts> ParseWhoCuts(std::string_view text) {
  if (text == "remote") return WhoCuts::kServer;
  if (text == "local") return WhoCuts::kAgent;
  if (text == "auto") return WhoCuts::kFaster;
  return absl::InvalidArgumentError(ToAbsl(Cat("--cut '", text, "': it is remote, local or auto")));
}

v1::Cutter CutterFor(WhoCuts who, const Profile& rule) {
  if (who == WhoCuts::kServer) return v1::CUTTER_UNSPECIFIED;
  if (who == WhoCuts::kAgent) return v1::CUTTER_CLIENT;
  const bool is_fast = IsFast(Blake3Backends().front().name) && IsFast(ChosenBackend(rule));
  return is_fast ? v1::CUTTER_CLIENT_UNLESS_GPU : v1::CUTTER_UNSPECIFIED;
}

}  // namespace kerf::agent
