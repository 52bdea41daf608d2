// Whether a backup's files are cut by its server or by itself.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/profile.h"

namespace kerf::agent {

enum class WhoCuts : std::uint8_t {
  kServer,
  // This process, where the server lets it: one from before it could be asked cuts itself.
  kAgent,
  // This process, if it has fast kernels for the profile and the server has no GPU for it.
  kFaster,
};

// "remote", "local" or "auto". InvalidArgument says so.
absl::StatusOr<WhoCuts> ParseWhoCuts(std::string_view text);

// What the stream asks for whose profile has that rule. The first time may take some milliseconds.
v1::Cutter CutterFor(WhoCuts who, const Profile& rule);

}  // namespace kerf::agent
