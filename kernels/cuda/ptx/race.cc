// Which accesses are ordered, and what each leaves in a cell.
#include <algorithm>

#include "base/strings.h"
#include "kernels/cuda/ptx/machine.h"

namespace kerf::cuda::ptx {
namespace {

// Of Cell::flags, about its last time of reading or writing: other threads of the same barrier
// interval did so too; and so other blocks of the launch.
constexpr std::uint8_t kSeveralReaders = 1;
constexpr std::uint8_t kOtherBlocksRead = 2;
constexpr std::uint8_t kSeveralWriters = 4;
constexpr std::uint8_t kOtherBlocksWrote = 8;
// The last write was atomic.
constexpr std::uint8_t kAtomicWrite = 16;
// It was loaded as what no thread of the launch writes.
constexpr std::uint8_t kReadAsReadOnly = 32;
constexpr std::uint8_t kAboutReads = kSeveralReaders | kOtherBlocksRead | kReadAsReadOnly;
constexpr std::uint8_t kAboutWrites = kSeveralWriters | kOtherBlocksWrote | kAtomicWrite;

}  // namespace

// Of a time of this launch, of another block.
bool Machine::IsBehindBlockAt(std::uint32_t time) const {
  const auto behind =
      std::upper_bound(blocks_.begin(), blocks_.end(), time,
                       [](std::uint32_t at, const Block& block) { return at < block.begin_time; });
  return time <= std::prev(behind)->ordered_until;
}

bool Machine::IsBehindAllBlocks() const {
  return std::all_of(blocks_.begin(), blocks_.end() - 1,
                     [](const Block& block) { return block.ordered_until != 0; });
}

bool Machine::IsBehindWrite(const Cell& cell, const Thread& thread, const Place& place,
                            bool is_atomic) const {
  if (cell.write_time < place.since) return true;
  if (is_atomic && (cell.flags & kAtomicWrite) != 0) return true;
  if ((cell.flags & kOtherBlocksWrote) != 0 && !IsBehindAllBlocks()) return false;
  if (cell.write_time < block_time_) return IsBehindBlockAt(cell.write_time);
  if (cell.write_time < now_) return true;
  return cell.write_thread == thread.index && (cell.flags & kSeveralWriters) == 0;
}

bool Machine::IsBehindRead(const Cell& cell, const Thread& thread, const Place& place) const {
  if (cell.read_time < place.since) return true;
  if ((cell.flags & kOtherBlocksRead) != 0 && !IsBehindAllBlocks()) return false;
  if (cell.read_time < block_time_) return IsBehindBlockAt(cell.read_time);
  if (cell.read_time < now_) return true;
  return cell.read_thread == thread.index && (cell.flags & kSeveralReaders) == 0;
}

void Machine::Reads(Cell& cell, const Thread& thread, std::uint32_t site, Access access,
                    const Place& place) {
  if (cell.write_time >= place.since) {
    if (!IsBehindWrite(cell, thread, place, /*is_atomic=*/false)) {
      ReportPlace(FindingKind::kRace, thread, site, place,
                  Cat("it reads what thread ", cell.write_thread, " writes at line ",
                      kernel_->sites[cell.write_site].line));
    }
    if (access == Access::kReadOnly) {
      ReportPlace(FindingKind::kReadOnlyWritten, thread, site, place,
                  Cat("it loads as read-only what was written at line ",
                      kernel_->sites[cell.write_site].line));
    }
  }
  const std::uint8_t as_read_only = access == Access::kReadOnly ? kReadAsReadOnly : 0;
  if (cell.read_time == now_) {
    cell.flags |= as_read_only;
    if (cell.read_thread != thread.index) cell.flags |= kSeveralReaders;
    return;
  }
  if (cell.read_time < place.since) {
    cell.flags &= static_cast<std::uint8_t>(~kAboutReads);
  } else {
    cell.flags &= static_cast<std::uint8_t>(~kSeveralReaders);
    if (cell.read_time < block_time_) cell.flags |= kOtherBlocksRead;
  }
  cell.flags |= as_read_only;
  cell.read_time = now_;
  cell.read_thread = static_cast<std::uint16_t>(thread.index);
}

void Machine::Writes(Cell& cell, const Thread& thread, std::uint32_t site, Access access,
                     const Place& place) {
  const bool is_atomic = access == Access::kAtomic;
  if (!IsBehindWrite(cell, thread, place, is_atomic)) {
    ReportPlace(FindingKind::kRace, thread, site, place,
                Cat("it writes what thread ", cell.write_thread, " writes at line ",
                    kernel_->sites[cell.write_site].line));
  }
  if (cell.read_time >= place.since) {
    if (!IsBehindRead(cell, thread, place)) {
      ReportPlace(FindingKind::kRace, thread, site, place,
                  Cat("it writes what thread ", cell.read_thread, " reads"));
    }
    if ((cell.flags & kReadAsReadOnly) != 0) {
      ReportPlace(FindingKind::kReadOnlyWritten, thread, site, place,
                  Cat("it writes what thread ", cell.read_thread, " has loaded as read-only"));
    }
  }
  if (cell.write_time == now_) {
    if (cell.write_thread != thread.index) cell.flags |= kSeveralWriters;
  } else if (cell.write_time < place.since) {
    cell.flags &= static_cast<std::uint8_t>(~kAboutWrites);
  } else {
    cell.flags &= static_cast<std::uint8_t>(~kSeveralWriters);
    if (cell.write_time < block_time_) cell.flags |= kOtherBlocksWrote;
  }
  cell.flags &= static_cast<std::uint8_t>(~kAtomicWrite);
  if (is_atomic) cell.flags |= kAtomicWrite;
  cell.write_time = now_;
  cell.write_thread = static_cast<std::uint16_t>(thread.index);
  cell.write_site = static_cast<std::uint16_t>(site);
}

}  // namespace kerf::cuda::ptx
