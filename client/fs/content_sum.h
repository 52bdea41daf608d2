// A checksum of a file's content: not of what an enemy made, but of what a disk may lose.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

namespace kerf::agent {

// Of bytes that come piece by piece. Not thread-safe.
class ContentSum {
 public:
  using Value = std::array<std::uint64_t, 2>;

  void Add(std::span<const std::uint8_t> bytes) {
    if (state_ == nullptr) {
      state_.reset(XXH3_createState());
      XXH3_128bits_reset(state_.get());
    }
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }

  // Zeros of no bytes.
  Value value() const {
    if (state_ == nullptr) return {};
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.low64, hash.high64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace kerf::agent
