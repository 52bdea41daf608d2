// Where the buckets of a repository were when this process last found them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/fingerprint/digest.h"
#include "server/redis/buckets.h"

namespace kerf {

// Thread-safe. A guess only: who asks finds out whether it still holds. Of a base bucket of which
// something was learned it takes a byte for each path of the greatest length that was learned, and
// no more than for paths of kMaxBits; of longer ones it remembers one length for all that begin
// alike.
class KnownPaths {
 public:
  static constexpr int kMaxBits = 12;

  explicit KnownPaths(int base_bits) : base_bits_(base_bits) {}

  // Of the bucket of `digest`; nothing if nothing was learned of its base bucket.
  std::optional<std::string> PathOf(const Digest& digest) const;

  // The bucket of this path below `base` is there, and so no other on the way to it or behind it.
  void Learn(std::uint32_t base, std::string_view path);

 private:
  // By the first bits of a path, of which there are as many as the size needs.
  using Lengths = std::vector<std::uint8_t>;

  const int base_bits_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<std::uint32_t, Lengths> lengths_;
};

}  // namespace kerf
