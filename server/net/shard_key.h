// The shard key of a call, by which fronts find its worker (docs/spec/routing.md). A worker holds
// it to the same rule, so that a client learns of a bad key before there is a front.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace kerf {

inline constexpr char kShardKeyMetadata[] = "kerf-shard-key";
inline constexpr std::size_t kMaxShardKeyBytes = 128;

// BAD_FIELD for what is none. An empty one is no key, and well.
absl::Status CheckShardKey(std::string_view shard_key);

// The same of a call's metadata.
template <typename Context>
absl::Status CheckShardKeyOf(const Context& context) {
  const auto found = context.client_metadata().find(kShardKeyMetadata);
  if (found == context.client_metadata().end()) return absl::OkStatus();
  return CheckShardKey({found->second.data(), found->second.size()});
}

}  // namespace kerf
