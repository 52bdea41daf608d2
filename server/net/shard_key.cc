#include "server/net/shard_key.h"

#include <algorithm>

#include "base/strings.h"
#include "server/errors/errors.h"

namespace kerf {

absl::Status CheckShardKey(std::string_view shard_key) {
  if (shard_key.empty()) return absl::OkStatus();
  const bool is_printable = std::all_of(shard_key.begin(), shard_key.end(),
                                        [](char letter) { return letter >= ' ' && letter <= '~'; });
  // HTTP/2 has none at the ends of a header: they could be gone at the next hop.
  const bool has_ends = shard_key.front() != ' ' && shard_key.back() != ' ';
  if (is_printable && has_ends && shard_key.size() <= kMaxShardKeyBytes) return absl::OkStatus();
  return MakeError(Reason::kBadField,
                   Cat("a shard key is at most ", kMaxShardKeyBytes,
                       " bytes of printable ASCII, and neither begins nor ends with a space"),
                   {{"field", kShardKeyMetadata}});
}

}  // namespace kerf
