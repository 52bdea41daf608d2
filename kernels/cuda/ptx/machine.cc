#include "kernels/cuda/ptx/machine.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::cuda::ptx {
namespace {

// What is between variables in shared memory that have names, and the kernel's own struct.
constexpr std::size_t kStaticSlotBytes = 16;
// What shared memory and registers have in them when a block begins.
constexpr std::uint8_t kGarbage = 0xA5;
// A thread's jumps back to its next barrier: a strip is some hundred bytes, a chunk's SHA-256 some
// thousand blocks.
constexpr std::uint32_t kMostJumps = 1u << 22;
// A block's barriers.
constexpr std::uint32_t kMostIntervals = 1u << 18;

// To PTX an address is a number.
std::uint8_t* AtAddress(std::uint64_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<std::uint8_t*>(address);
}

}  // namespace

void Machine::Run(const ModuleKernels& module, const Kernel& kernel,
                  std::span<const std::uint8_t> args, const LaunchShape& shape) {
  KERF_CHECK(args.size() == kernel.args_bytes && shape.block_count > 0 && shape.thread_count > 0);
  module_ = &module;
  kernel_ = &kernel;
  shape_ = shape;
  mutant_ = mutated_ == &module ? mutated_number_ : 0;
  random_ = Random(shape.seed);
  parameter_.assign((args.size() + 7) / 8, 0);
  std::memcpy(parameter_.data(), args.data(), args.size());
  launch_time_ = memory_.clock().Next();
  blocks_.clear();
  releases_.clear();
  array_of_site_.assign(kernel.sites.size(), nullptr);
  if (counter_ != nullptr) counter_->Begin(kernel, shape.thread_count);

  const std::size_t static_bytes = kStaticSlotBytes * module.static_shared_bytes.size();
  shared_.assign(static_bytes + shape.shared_bytes, kGarbage);
  const unsigned shift = kernel.has_small_shared_stores ? kByteShift : kWordShift;
  if (shared_cells_bytes_ < shared_.size() || shared_cells_.unit_shift() != shift) {
    shared_cells_ = Cells(shared_.size(), shift);
    shared_cells_bytes_ = shared_.size();
  }
  threads_.resize(shape.thread_count);
  kept_.resize(std::size_t{shape.thread_count} * kernel.kept_words);

  std::vector<std::uint32_t> order(shape.block_count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random_.Below(left)]);
  }
  for (const std::uint32_t block : order) {
    block_ = block;
    RunBlock();
  }
}

void Machine::RunBlock() {
  for (Block& block : blocks_) block.ordered_until = 0;
  now_ = block_time_ = memory_.clock().Next();
  blocks_.push_back({block_, block_time_, 0});
  taken_.clear();
  std::fill(shared_.begin(), shared_.end(), kGarbage);
  std::vector<Thread*> waiting;
  for (std::uint32_t index = 0; index < shape_.thread_count; ++index) {
    threads_[index] =
        Thread{.index = index, .kept = kept_.data() + std::size_t{index} * kernel_->kept_words};
    waiting.push_back(&threads_[index]);
  }
  for (std::uint32_t interval = 0; !waiting.empty(); ++interval) {
    Order(waiting);
    ++interval_count_;
    if (interval == kMostIntervals || RunInterval(waiting) == Stop::kEndless) {
      Report(FindingKind::kEndless, *waiting.front(), 0, "it does not end");
      return;
    }
    if (counter_ != nullptr) counter_->EndInterval();
    TakeWhatOthersReleased();
    now_ = memory_.clock().Next();
  }
}

// Those that are left wait at a barrier.
Stop Machine::RunInterval(std::vector<Thread*>& waiting) {
  const std::size_t before = waiting.size();
  std::size_t left = 0;
  for (Thread* const thread : waiting) {
    jumps_left_ = kMostJumps;
    const Stop stop = kernel_->run(*this, *thread);
    if (stop == Stop::kEndless) return stop;
    if (stop == Stop::kBarrier) waiting[left++] = thread;
  }
  waiting.resize(left);
  LookAtBarrier(waiting, before);
  return Stop::kBarrier;
}

void Machine::LookAtBarrier(const std::vector<Thread*>& waiting, std::size_t before) {
  if (waiting.empty()) return;
  const Thread& first = *waiting.front();
  if (waiting.size() < before) {
    Report(FindingKind::kDivergence, first, 0,
           Cat(before - waiting.size(), " of ", before,
               " threads have ended while others wait at the barrier of line ", first.line));
    return;
  }
  for (const Thread* thread : waiting) {
    if (thread->resume_at == first.resume_at) continue;
    Report(FindingKind::kDivergence, *thread, 0,
           Cat("it waits at the barrier of line ", thread->line, ", thread ", first.index,
               " at that of line ", first.line));
    return;
  }
}

// One that nobody promises: seldom up or down.
void Machine::Order(std::vector<Thread*>& threads) {
  const std::uint64_t kind = random_.Below(4);
  if (kind == 0) {
    std::sort(threads.begin(), threads.end());
  } else if (kind == 1) {
    std::sort(threads.begin(), threads.end(), std::greater<>());
  } else {
    for (std::size_t left = threads.size(); left > 1; --left) {
      std::swap(threads[left - 1], threads[random_.Below(left)]);
    }
  }
}

const std::uint8_t* Machine::Parameter(const Thread& thread, std::uint64_t address,
                                       std::size_t size_bytes, std::uint32_t site) {
  static constexpr std::uint8_t kZeros[16] = {};
  const std::uint64_t offset = address - kParameterBase;
  if (offset > kernel_->args_bytes || kernel_->args_bytes - offset < size_bytes) {
    Report(FindingKind::kOutOfBounds, thread, site,
           Cat("byte ", offset, " of an argument of ", kernel_->args_bytes));
    return kZeros;
  }
  if (offset % size_bytes != 0) {
    Report(FindingKind::kMisaligned, thread, site, Cat("byte ", offset, " of the argument"));
  }
  return reinterpret_cast<const std::uint8_t*>(parameter_.data()) + offset;
}

Array* Machine::ArrayOf(const Thread& thread, std::uint64_t address, std::size_t size_bytes,
                        std::uint32_t site) {
  Array*& array = array_of_site_[site];
  if (array == nullptr || address < array->begin || address + size_bytes > array->end) {
    Array* const found = memory_.Find(address, size_bytes);
    if (found == nullptr) {
      Report(FindingKind::kOutOfBounds, thread, site, Cat(size_bytes, " bytes of no array"));
      return nullptr;
    }
    array = found;
  }
  if (address % size_bytes == 0) return array;
  Report(FindingKind::kMisaligned, thread, site,
         Cat(size_bytes, " bytes at byte ", address - array->begin, " of an array of ",
             array->end - array->begin));
  return nullptr;
}

std::size_t Machine::FindShared(std::uint32_t address, std::size_t size_bytes) const {
  const std::size_t named = module_->static_shared_bytes.size();
  if (address >= kSharedBase) {
    const std::size_t offset = address - kSharedBase;
    if (offset + size_bytes > shape_.shared_bytes) return kNowhere;
    return kStaticSlotBytes * named + offset;
  }
  const std::size_t number = address / kStaticSlotBytes;
  const std::size_t within = address % kStaticSlotBytes;
  if (number == 0 || number > named) return kNowhere;
  if (within + size_bytes > module_->static_shared_bytes[number - 1]) return kNowhere;
  return kStaticSlotBytes * (number - 1) + within;
}

std::size_t Machine::SharedOffset(const Thread& thread, std::uint32_t address,
                                  std::size_t size_bytes, std::uint32_t site) {
  const std::size_t offset = FindShared(address, size_bytes);
  if (offset == kNowhere) {
    Report(FindingKind::kOutOfBounds, thread, site,
           Cat(size_bytes, " bytes at byte ", std::int64_t{address} - kSharedBase, " of ",
               shape_.shared_bytes, " bytes of shared memory"));
    return kNowhere;
  }
  if (offset % size_bytes == 0) return offset;
  Report(FindingKind::kMisaligned, thread, site,
         Cat(size_bytes, " bytes at byte ", offset, " of shared memory"));
  return kNowhere;
}

void Machine::FindUnwritten(const Thread& thread, std::uint32_t site, const Place& place,
                            std::size_t offset, std::size_t part_bytes) {
  if (part_bytes != 0) {
    unwritten_parts_ |= 1u << offset / part_bytes;
    return;
  }
  ReportPlace(FindingKind::kUninitialised, thread, site, place, "nobody has written it");
}

void Machine::UseUnwritten(const Thread& thread, std::uint32_t site) {
  Report(FindingKind::kUninitialised, thread, site, "it uses what nobody has written");
}

const std::uint8_t* Machine::ReadGlobal(Thread& thread, std::uint64_t address,
                                        std::size_t size_bytes, std::uint32_t site,
                                        bool is_read_only, std::size_t part_bytes) {
  unwritten_parts_ = 0;
  const Array* const array = ArrayOf(thread, address, size_bytes, site);
  if (array == nullptr) return Elsewhere();
  const std::uint64_t offset = address - array->begin;
  const Place place = PlaceIn(*array, offset);
  const Access access = is_read_only ? Access::kReadOnly : Access::kRead;
  const bool is_copied = offset + size_bytes <= array->copied_bytes;
  const std::uint32_t batch_time = memory_.BatchTime(*array);
  Cell* const cells = array->cells.Of(offset);
  const std::size_t count = array->cells.CountOf(size_bytes);
  for (std::size_t index = 0; index < count; ++index) {
    if (!is_copied && cells[index].write_time < batch_time) {
      FindUnwritten(thread, site, place, index << array->cells.unit_shift(), part_bytes);
    }
    Reads(cells[index], thread, site, access, place);
  }
  return AtAddress(address);
}

std::uint8_t* Machine::WriteGlobal(Thread& thread, std::uint64_t address, std::size_t size_bytes,
                                   std::uint32_t site) {
  Array* const array = ArrayOf(thread, address, size_bytes, site);
  if (array == nullptr) return Elsewhere();
  if (size_bytes < 4 && array->cells.unit_shift() == kWordShift) Memory::CountBytes(*array);
  const std::uint64_t offset = address - array->begin;
  const Place place = PlaceIn(*array, offset);
  Cell* cell = array->cells.Of(offset);
  for (std::size_t left = array->cells.CountOf(size_bytes); left > 0; --left, ++cell) {
    Writes(*cell, thread, site, Access::kWrite, place);
  }
  return AtAddress(address);
}

const std::uint8_t* Machine::ReadShared(Thread& thread, std::uint32_t address,
                                        std::size_t size_bytes, std::uint32_t site,
                                        std::size_t part_bytes) {
  unwritten_parts_ = 0;
  const std::size_t offset = SharedOffset(thread, address, size_bytes, site);
  if (offset == kNowhere) return Elsewhere();
  const Place place = SharedPlace(offset);
  Cell* const cells = shared_cells_.Of(offset);
  const std::size_t count = shared_cells_.CountOf(size_bytes);
  for (std::size_t index = 0; index < count; ++index) {
    if (cells[index].write_time < block_time_) {
      FindUnwritten(thread, site, place, index << shared_cells_.unit_shift(), part_bytes);
    }
    Reads(cells[index], thread, site, Access::kRead, place);
  }
  return shared_.data() + offset;
}

std::uint8_t* Machine::WriteShared(Thread& thread, std::uint32_t address, std::size_t size_bytes,
                                   std::uint32_t site) {
  const std::size_t offset = SharedOffset(thread, address, size_bytes, site);
  if (offset == kNowhere) return Elsewhere();
  const Place place = SharedPlace(offset);
  Cell* cell = shared_cells_.Of(offset);
  for (std::size_t left = shared_cells_.CountOf(size_bytes); left > 0; --left, ++cell) {
    Writes(*cell, thread, site, Access::kWrite, place);
  }
  return shared_.data() + offset;
}

namespace {

std::uint32_t Apply(Atomic operation, std::uint32_t before, std::uint32_t value) {
  switch (operation) {
    case Atomic::kAdd:
      return before + value;
    case Atomic::kMin:
      return std::min(before, value);
    case Atomic::kMax:
      return std::max(before, value);
    case Atomic::kInc:
      return before >= value ? 0 : before + 1;
    case Atomic::kOr:
      return before | value;
  }
  return before;
}

std::uint32_t ApplyAt(std::uint8_t* bytes, Atomic operation, std::uint32_t value) {
  std::uint32_t before = 0;
  std::memcpy(&before, bytes, sizeof before);
  const std::uint32_t after = Apply(operation, before, value);
  std::memcpy(bytes, &after, sizeof after);
  return before;
}

}  // namespace

std::uint32_t Machine::AtomicGlobal(Thread& thread, std::uint64_t address, Atomic operation,
                                    std::uint32_t value, std::uint32_t site) {
  const Array* const array = ArrayOf(thread, address, sizeof value, site);
  if (array == nullptr) return 0;
  const std::uint64_t offset = address - array->begin;
  const Place place = PlaceIn(*array, offset);
  Cell* cell = array->cells.Of(offset);
  for (std::size_t left = array->cells.CountOf(sizeof value); left > 0; --left, ++cell) {
    if (offset >= array->copied_bytes && cell->write_time < memory_.BatchTime(*array)) {
      FindUnwritten(thread, site, place, 0, 0);
    }
    Writes(*cell, thread, site, Access::kAtomic, place);
  }
  if (thread.fence_time == now_) releases_[address].push_back({blocks_.size() - 1, now_ - 1});
  thread.atomic_time = now_;
  thread.atomic_place = address;
  return ApplyAt(AtAddress(address), operation, value);
}

std::uint32_t Machine::AtomicShared(Thread& thread, std::uint32_t address, Atomic operation,
                                    std::uint32_t value, std::uint32_t site) {
  const std::size_t offset = SharedOffset(thread, address, sizeof value, site);
  if (offset == kNowhere) return 0;
  const Place place = SharedPlace(offset);
  Cell* cell = shared_cells_.Of(offset);
  for (std::size_t left = shared_cells_.CountOf(sizeof value); left > 0; --left, ++cell) {
    if (cell->write_time < block_time_) {
      FindUnwritten(thread, site, place, 0, 0);
    }
    Writes(*cell, thread, site, Access::kAtomic, place);
  }
  return ApplyAt(shared_.data() + offset, operation, value);
}

// Of what the whole block has done before its last barrier, an atomic behind it tells others; and
// what others have told at the place of an atomic in front of it, it takes.
void Machine::Fence(Thread& thread) {
  thread.fence_time = now_;
  if (thread.atomic_time != now_) return;
  const auto released = releases_.find(thread.atomic_place);
  if (released == releases_.end()) return;
  taken_.insert(taken_.end(), released->second.begin(), released->second.end());
}

// The barrier hands it to the block's other threads.
void Machine::TakeWhatOthersReleased() {
  for (const Release& release : taken_) {
    std::uint32_t& until = blocks_[release.block].ordered_until;
    until = std::max(until, release.until);
  }
  taken_.clear();
}

std::uint32_t Machine::Divide(const Thread& thread, std::uint32_t value, std::uint32_t by,
                              std::uint32_t site) {
  if (by != 0) return value / by;
  Report(FindingKind::kDivisionByZero, thread, site, Cat(value, " by 0"));
  return 0xFFFFFFFF;
}

void Machine::Report(FindingKind kind, const Thread& thread, std::uint32_t site,
                     const std::string& what) {
  if (!findings_.HasRoom()) return findings_.Add(kind, "");
  const Site& at = kernel_->sites[site];
  const bool has_site = kind != FindingKind::kDivergence && kind != FindingKind::kEndless;
  findings_.Add(
      kind,
      Cat(NameOfKernel(), ", ", module_->file, has_site ? Cat(":", at.line, ": ", at.text) : "",
          ", thread ", thread.index, " of block ", block_, " of ", shape_.block_count, ": ", what));
}

void Machine::ReportPlace(FindingKind kind, const Thread& thread, std::uint32_t site,
                          const Place& place, const std::string& what) {
  if (!findings_.HasRoom()) return findings_.Add(kind, "");
  Report(kind, thread, site,
         Cat("byte ", place.offset, " of ", place.space, " of ", place.array_bytes, ": ", what));
}

std::string Machine::NameOfKernel() const {
  int status = 0;
  char* const readable = abi::__cxa_demangle(kernel_->name, nullptr, nullptr, &status);
  std::string name = readable != nullptr ? readable : kernel_->name;
  std::free(readable);
  return name.substr(0, name.find(">("));
}

}  // namespace kerf::cuda::ptx
