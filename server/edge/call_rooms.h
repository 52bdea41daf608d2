// How much the calls of the Index service may hold while they are under way: however many wait for
// an index of which a part is gone, those that do not need that part get on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace kerf {

// Calls with short requests do not wait behind those with long ones: each kind has a room of its
// own. One repository has a part of each, so that others find room beside it; and what waits for
// the index for long moves to a third room. Not thread-safe.
class CallRooms {
 public:
  enum class Kind : std::uint8_t { kShort, kLong };
  enum class Entry : std::uint8_t {
    kEntered,
    // Its repository has all that one may have: those of others may pass it.
    kShareIsFull,
    // Those behind it of its kind are not to pass it: it would wait for ever.
    kRoomIsFull,
  };

  // What a call counts for at least: a short request may have a long answer.
  static constexpr std::size_t kMinCallBytes = 256 << 10;
  // Of each kind: four of the largest requests at the defaults, or as many short ones as there are
  // places for.
  static constexpr std::size_t kRoomBytes = 16 << 20;
  // Of these, by kind, for one repository, together with what waits for long.
  static constexpr std::array<std::size_t, 2> kShareBytes{12 << 20, 8 << 20};

  // Of calls that wait for long, all together.
  explicit CallRooms(std::size_t max_slow_bytes) : max_slow_bytes_(max_slow_bytes) {}

  static Kind KindOf(std::size_t bytes) {
    return bytes > kMinCallBytes ? Kind::kLong : Kind::kShort;
  }

  // A call of `bytes` bytes, of the repository of that name. One that is larger than the room has
  // it for itself.
  Entry Enter(const std::string& share, std::size_t bytes) {
    const std::size_t kind = IndexOf(bytes);
    const auto found = shares_.find(share);
    const std::size_t of_share = found == shares_.end() ? 0 : found->second[kind];
    if (of_share > 0 && of_share + bytes > kShareBytes[kind]) return Entry::kShareIsFull;
    if (quick_bytes_[kind] > 0 && quick_bytes_[kind] + bytes > kRoomBytes) {
      return Entry::kRoomIsFull;
    }
    quick_bytes_[kind] += bytes;
    shares_[share][kind] += bytes;
    return Entry::kEntered;
  }
  // It has waited for long: whether it has left its room for those that do.
  bool TurnSlow(std::size_t bytes) {
    if (slow_bytes_ + bytes > max_slow_bytes_) return false;
    quick_bytes_[IndexOf(bytes)] -= bytes;
    slow_bytes_ += bytes;
    return true;
  }
  // `is_slow`: as TurnSlow has said.
  void Leave(const std::string& share, std::size_t bytes, bool is_slow) {
    (is_slow ? slow_bytes_ : quick_bytes_[IndexOf(bytes)]) -= bytes;
    const auto found = shares_.find(share);
    found->second[IndexOf(bytes)] -= bytes;
    if (found->second[0] + found->second[1] == 0) shares_.erase(found);
  }

  // Goes once through all that wait, in the order in which they came. What does not go in is passed
  // by none of its kind that could keep it waiting: a large call would wait for as long as smaller
  // ones of its repository come and go.
  class Round {
   public:
    explicit Round(CallRooms* rooms) : rooms_(*rooms) {}

    // Whether that call is in.
    bool Enter(const std::string& share, std::size_t bytes) {
      const std::size_t kind = IndexOf(bytes);
      if (is_full_[kind] || full_shares_[kind].contains(share)) return false;
      const Entry entry = rooms_.Enter(share, bytes);
      if (entry == Entry::kRoomIsFull) is_full_[kind] = true;
      if (entry == Entry::kShareIsFull) full_shares_[kind].insert(share);
      return entry == Entry::kEntered;
    }
    // No other call goes in.
    bool is_over() const { return is_full_[0] && is_full_[1]; }

   private:
    CallRooms& rooms_;
    // By kind.
    std::array<bool, 2> is_full_{};
    std::array<absl::flat_hash_set<std::string>, 2> full_shares_;
  };

 private:
  static std::size_t IndexOf(std::size_t bytes) { return static_cast<std::size_t>(KindOf(bytes)); }

  const std::size_t max_slow_bytes_;
  std::array<std::size_t, 2> quick_bytes_{};
  std::size_t slow_bytes_ = 0;
  // Of repositories that have any, by kind, slow ones too.
  absl::flat_hash_map<std::string, std::array<std::size_t, 2>> shares_;
};

}  // namespace kerf
