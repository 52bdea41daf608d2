// When digests were written last, so far as that saves a commit the look at what a lookup has seen
// (docs/adr/0025).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf {

// Of one index. A lookup takes Now, then reads; a commit that has written takes note, and then
// lets others see that it is done. So who has read that a digest has no entry, and finds it
// unwritten since the moment that he took before, knows that it has none yet.
//
// It has one number for all digests that begin alike, of whatever repository: one that has met
// another there counts as written, and costs a look. Nothing is ever believed for a digest that
// was written.
//
// Of one part (PartOf) one caller writes and asks at a time, and from before it asks until it has
// taken note of what it has written on the strength of the answer. Now and DisbelieveAll are
// thread-safe.
class LastWrites {
 public:
  static constexpr std::size_t kPartBits = 5;
  static constexpr std::size_t kPartCount = std::size_t{1} << kPartBits;

  // What was written before is not known: no moment before this one is believed.
  LastWrites();

  static std::size_t PartOf(const Digest& digest) { return digest.bytes[0] >> (8 - kPartBits); }

  // Never 0, and never one of an index that was gone before: those of a process count on.
  std::uint64_t Now() const;

  // False also where it is not sure. `moment`: of Now, taken before it was read that the digest
  // has no entry; 0: it was not.
  bool IsUnwrittenSince(const Digest& digest, std::uint64_t moment) const {
    return moment != 0 && moment >= believed_from_.load(std::memory_order_relaxed) &&
           moment >= slots_[SlotOf(digest)];
  }

  // Once all readers that begin now see what was written, or it was not written at all.
  void Note(std::span<const IndexEntry* const> written);

  // What became of a write is not known: no moment is believed any more, of now or later.
  void DisbelieveAll() { believed_from_.store(UINT64_MAX, std::memory_order_relaxed); }

 private:
  // A hundred thousand chunks between their lookups and their commits, as of a dozen streams, meet
  // another one's write once in three times; those of one stream once in a hundred. 2 MiB, of
  // which an index that nobody writes touches nothing.
  static constexpr std::size_t kSlotBits = 18;
  static_assert(kSlotBits >= kPartBits && kSlotBits <= 24, "a slot belongs to one part");

  struct Free {
    void operator()(std::uint64_t* slots) const { std::free(slots); }
  };

  // By the first bits, as PartOf: in the order in which commits go through them.
  static std::size_t SlotOf(const Digest& digest) {
    const std::size_t begin =
        std::size_t{digest.bytes[0]} << 16 | std::size_t{digest.bytes[1]} << 8 | digest.bytes[2];
    return begin >> (24 - kSlotBits);
  }

  // A moment behind the last write, 0 for none since it began.
  const std::unique_ptr<std::uint64_t[], Free> slots_;
  std::atomic<std::uint64_t> believed_from_;
};

}  // namespace kerf
