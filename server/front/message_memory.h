// What the messages that are on their way through a front hold, in one direction of its uploads.
#pragma once

#include <cstddef>

#include "base/memory_budget.h"

namespace kerf {

// Each upload has a share of its own, so that one that stalls takes nothing from the others; what a
// message is larger, and what is read ahead of it, comes from a pool that all calls have in common.
// Thread-safe. Must outlive every message in it.
class MessageMemory {
 public:
  MessageMemory(std::size_t share_bytes, std::size_t pool_bytes)
      : share_bytes_(share_bytes), pool_(pool_bytes), all_(pool_bytes) {}

  // Of all messages, in shares and beyond.
  std::size_t used_bytes() const { return all_.used_bytes(); }
  // The most that was ever used at once.
  std::size_t peak_bytes() const { return all_.peak_bytes(); }

 private:
  friend class HeldMessages;

  const std::size_t share_bytes_;
  MemoryBudget pool_;
  // Counts, and has no limit.
  MemoryBudget all_;
};

// What one call holds of it, given back by itself. Not thread-safe.
class HeldMessages {
 public:
  // Without a share all is of the pool.
  HeldMessages(MessageMemory* memory, bool has_share)
      : memory_(memory),
        share_bytes_(has_share ? memory->share_bytes_ : 0),
        beyond_share_(&memory->pool_),
        all_(&memory->all_) {}

  const MessageMemory* memory() const { return memory_; }
  // Counts what is there now, and what is kept free for a message that is being read ahead. False
  // if the pool has no room for it; it is counted all the same.
  bool Set(std::size_t bytes, std::size_t ahead_bytes = 0);
  bool is_beyond_share() const { return beyond_share_.bytes() > 0; }
  // For a message of so many bytes that a call reads while it still holds others. Half of the pool
  // is for messages alone that are larger than a share: false, and nothing, if the rest has no
  // room. Whoever holds nothing needs no leave: no call waits for another one.
  bool TryKeepAhead(std::size_t ahead_bytes);
  // What the next message is taken to be as large as: a share, for whoever keeps to his is never
  // to be ended for it, or what has been larger already.
  std::size_t AheadBytes(std::size_t last_bytes) const {
    return last_bytes > share_bytes_ ? last_bytes : share_bytes_;
  }

 private:
  std::size_t BeyondShare(std::size_t bytes) const {
    return bytes > share_bytes_ ? bytes - share_bytes_ : 0;
  }

  MessageMemory* const memory_;
  const std::size_t share_bytes_;
  Reservation beyond_share_;
  Reservation all_;
};

}  // namespace kerf
