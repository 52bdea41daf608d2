// The entries between the scanner and the tree stream: filled in scan order, completed in any
// order, taken in scan order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "client/fs/incarnation.h"
#include "client/fs/node.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/format/tree_codec.h"

namespace kerf::agent {

struct BackupEntry {
  TreeEntry tree;
  NodeIdentity identity;
};

// What it takes of memory beside itself: names, attributes, extents and chunks, of which a tree may
// have many for a reason, or on purpose.
inline std::uint64_t MemoryOf(const BackupEntry& entry) {
  const Node& node = entry.tree.node;
  std::uint64_t bytes = node.path.size() + node.user.size() + node.group.size() +
                        node.hard_link_to.size() + node.link_target.size() +
                        node.extents.size() * sizeof(Extent) +
                        entry.tree.recipe.size() * sizeof(ChunkRef);
  for (const Xattr& xattr : node.xattrs) {
    bytes += sizeof xattr + xattr.name.size() + xattr.value.size();
  }
  return bytes;
}

// Thread-safe; Push and Pop belong to one thread.
class EntryWindow {
 public:
  enum class State : std::uint8_t { kPending, kComplete, kDropped };

  struct Slot {
    BackupEntry entry;
    // Parts that must be reported before the entry is complete: its recipe and its description.
    int open_parts = 0;
    bool dropped = false;
    // As it was scanned, if it has further names.
    std::optional<Incarnation> shared;
    // It is not certain to be that file any more.
    bool is_other_file = false;
    // A name to which it is linked if both hold the same.
    std::string may_be_link_to;
    // The name that it would have been linked to, had that not been lost.
    std::string instead_of;
    State state = State::kPending;
    // As the window counts it.
    std::uint64_t memory_bytes = 0;
  };

  // An entry that waits for `open_parts` reports; complete at once if that is 0.
  Slot* Push(BackupEntry entry, int open_parts) {
    auto slot = std::make_unique<Slot>();
    slot->entry = std::move(entry);
    slot->open_parts = open_parts;
    if (open_parts == 0) slot->state = State::kComplete;
    std::lock_guard lock(mutex_);
    Count(*slot);
    slots_.push_back(std::move(slot));
    return slots_.back().get();
  }

  // Back to where Pop has taken it from, to wait for `open_parts` reports.
  Slot* PutBack(std::unique_ptr<Slot> slot, int open_parts) {
    slot->open_parts = open_parts;
    slot->state = open_parts == 0 ? State::kComplete : State::kPending;
    std::lock_guard lock(mutex_);
    Count(*slot);
    slots_.push_front(std::move(slot));
    return slots_.front().get();
  }

  // `count` parts of the entry are there. What the caller wrote into the entry before is seen by
  // Pop.
  void CompleteParts(Slot* slot, int count) { FinishParts(slot, count, false); }

  // The same, but the entry is left out of the snapshot.
  void DropParts(Slot* slot, int count) { FinishParts(slot, count, true); }

  // Ends all waiting.
  void Abort() {
    std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

  // The first entry, once it is not pending; null if there is none, if the window has been aborted,
  // or if it is still pending and `wait` is false.
  std::unique_ptr<Slot> Pop(bool wait) {
    std::unique_lock lock(mutex_);
    if (slots_.empty()) return nullptr;
    const auto ready = [this] { return slots_.front()->state != State::kPending || aborted_; };
    if (wait) changed_.wait(lock, ready);
    if (aborted_ || !ready()) return nullptr;
    std::unique_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    memory_bytes_ -= std::exchange(slot->memory_bytes, 0);
    return slot;
  }

  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return slots_.size();
  }
  // MemoryOf all entries, of those that are pending as they came.
  std::uint64_t memory_bytes() const {
    std::lock_guard lock(mutex_);
    return memory_bytes_;
  }

 private:
  // With the lock, and while nobody else writes into the entry.
  void Count(Slot& slot) {
    memory_bytes_ -= slot.memory_bytes;
    slot.memory_bytes = MemoryOf(slot.entry);
    memory_bytes_ += slot.memory_bytes;
  }

  // The slot belongs to Pop as soon as no part is open.
  void FinishParts(Slot* slot, int count, bool drop) {
    std::lock_guard lock(mutex_);
    slot->open_parts -= count;
    slot->dropped = slot->dropped || drop;
    if (slot->open_parts > 0) return;
    slot->state = slot->dropped ? State::kDropped : State::kComplete;
    Count(*slot);
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Slot>> slots_;
  std::uint64_t memory_bytes_ = 0;
  bool aborted_ = false;
};

}  // namespace kerf::agent
