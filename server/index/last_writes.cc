#include "server/index/last_writes.h"

#include "base/check.h"

namespace kerf {
namespace {

// One for all indexes of the process: of one that is opened again, as after a fault of its disk,
// the moments lie behind those of the one that was closed.
std::atomic<std::uint64_t>& Moments() {
  static std::atomic<std::uint64_t> moments{0};
  return moments;
}

std::uint64_t NewMoment() { return Moments().fetch_add(1, std::memory_order_acq_rel) + 1; }

}  // namespace

// Pages come as they are written to.
LastWrites::LastWrites()
    : slots_(static_cast<std::uint64_t*>(
          std::calloc(std::size_t{1} << kSlotBits, sizeof(std::uint64_t)))),
      believed_from_(NewMoment()) {
  KERF_CHECK(slots_ != nullptr);
}

std::uint64_t LastWrites::Now() const { return Moments().load(std::memory_order_acquire); }

// Drawn behind the write, and that is what all of it hangs on. A reader whose moment is this one or
// a later one has taken it behind this line (acquire, of a release sequence), and so began to read
// behind the write, and has seen it. Who has not seen it has an earlier moment.
void LastWrites::Note(std::span<const IndexEntry* const> written) {
  const std::uint64_t moment = NewMoment();
  for (const IndexEntry* entry : written) slots_[SlotOf(entry->digest)] = moment;
}

}  // namespace kerf
