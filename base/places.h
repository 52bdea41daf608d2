// How many places of something each of many has.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace kerf {

// Holds only those who have some. Thread-safe.
class Places {
 public:
  // A place, until it is destroyed or reset; an empty one is none.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept
        : places_(std::exchange(other.places_, nullptr)), owner_(std::move(other.owner_)) {}
    Hold& operator=(Hold&& other) noexcept {
      Reset();
      places_ = std::exchange(other.places_, nullptr);
      owner_ = std::move(other.owner_);
      return *this;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { Reset(); }

    void Reset() {
      if (Places* const places = std::exchange(places_, nullptr)) places->Leave(owner_);
    }

   private:
    friend class Places;
    Hold(Places* places, std::string_view owner) : places_(places), owner_(owner) {}

    Places* places_ = nullptr;
    std::string owner_;
  };

  // One more for `owner`, which this outlives; nothing: he has `limit` already.
  std::optional<Hold> Enter(std::string_view owner, std::uint64_t limit) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = counts_.try_emplace(std::string(owner), 0);
    if (place->second < limit) {
      ++place->second;
      return Hold(this, owner);
    }
    if (is_new) counts_.erase(place);
    return std::nullopt;
  }

 private:
  void Leave(const std::string& owner) {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(owner);
    if (--found->second == 0) counts_.erase(found);
  }

  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::uint64_t> counts_;
};

}  // namespace kerf
