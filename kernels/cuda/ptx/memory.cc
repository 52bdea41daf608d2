#include "kernels/cuda/ptx/memory.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"

namespace kerf::cuda::ptx {

std::uint32_t Clock::Next() {
  // Some weeks of the tests' launches.
  KERF_CHECK(now < std::numeric_limits<std::uint32_t>::max());
  return ++now;
}

Cells::Cells(std::size_t size_bytes, unsigned unit_shift) : unit_shift_(unit_shift) {
  const std::size_t count = (size_bytes >> unit_shift) + 1;
  // All zero, and no page of it there before it is touched.
  cells_.reset(static_cast<Cell*>(std::calloc(count, sizeof(Cell))));
  KERF_CHECK(cells_ != nullptr);
}

void Memory::Taken(std::span<const std::span<std::uint8_t>> arrays) {
  const auto group = static_cast<std::uint32_t>(batch_times_.size());
  batch_times_.push_back(clock_.Next());
  for (const std::span<std::uint8_t> bytes : arrays) {
    const auto begin = reinterpret_cast<std::uint64_t>(bytes.data());
    const auto number = static_cast<std::uint32_t>(arrays_.size());
    arrays_.push_back(std::make_unique<Array>(
        Array{begin, begin + bytes.size(), Cells(bytes.size(), kWordShift), 0, group, number}));
  }
  std::sort(arrays_.begin(), arrays_.end(),
            [](const auto& a, const auto& b) { return a->begin < b->begin; });
}

Array* Memory::Find(std::uint64_t address, std::size_t size_bytes) const {
  const auto behind =
      std::upper_bound(arrays_.begin(), arrays_.end(), address,
                       [](std::uint64_t place, const auto& array) { return place < array->begin; });
  if (behind == arrays_.begin()) return nullptr;
  Array* const array = std::prev(behind)->get();
  return address + size_bytes <= array->end ? array : nullptr;
}

void Memory::CopiedIn(std::span<const std::uint8_t> bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(bytes.data());
  Array* const array = Find(address, bytes.size());
  KERF_CHECK(array != nullptr);
  const std::uint32_t now = clock_.Next();
  batch_times_[array->group] = now;
  const std::uint64_t offset = address - array->begin;
  if (offset <= array->copied_bytes) {
    // From the beginning on: what was behind it is of the batch before.
    array->copied_bytes = offset + bytes.size();
    return;
  }
  for (std::uint64_t each = offset; each < offset + bytes.size(); ++each) {
    array->cells.Of(each)->write_time = now;
  }
}

void Memory::CopiedOut(std::span<const std::uint8_t> bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(bytes.data());
  const Array* const array = Find(address, bytes.size());
  KERF_CHECK(array != nullptr);
  const std::uint64_t offset = address - array->begin;
  for (std::uint64_t each = std::max(offset, array->copied_bytes); each < offset + bytes.size();
       ++each) {
    if (array->cells.Of(each)->write_time >= BatchTime(*array)) continue;
    findings_.Add(FindingKind::kUninitialised,
                  Cat("a copy to the host of ", bytes.size(), " bytes, from byte ", offset,
                      " of an array of ", array->end - array->begin, ": byte ", each,
                      " was written by nobody"));
    return;
  }
}

void Memory::ForEachWritten(const VisitWritten& visit) const {
  for (const auto& array : arrays_) {
    const std::uint64_t unit_bytes = std::uint64_t{1} << array->cells.unit_shift();
    const std::uint64_t size_bytes = array->end - array->begin;
    for (std::uint64_t offset = 0; offset < size_bytes; offset += unit_bytes) {
      const std::uint32_t written = array->cells.Of(offset)->write_time;
      if (written == 0 || written < BatchTime(*array)) continue;
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(array->begin + offset);
      visit(array->number, offset, {bytes, std::min(unit_bytes, size_bytes - offset)});
    }
  }
}

std::uint64_t Memory::HashOfWritten() const {
  // A sum, since arrays lie in another order in each process.
  std::uint64_t sum = 0;
  ForEachWritten(
      [&](std::uint32_t array, std::uint64_t offset, std::span<const std::uint8_t> bytes) {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data(), bytes.size());
        sum += Random(Random(std::uint64_t{array} << 40 | offset).Next() ^ value).Next();
      });
  return sum;
}

void Memory::CountBytes(Array& array) {
  const std::uint64_t size_bytes = array.end - array.begin;
  Cells bytes(size_bytes, kByteShift);
  for (std::uint64_t offset = 0; offset < size_bytes; ++offset) {
    const Cell& word = *array.cells.Of(offset);
    if (word.write_time == 0) continue;
    *bytes.Of(offset) = {.write_time = word.write_time,
                         .read_time = 0,
                         .write_thread = word.write_thread,
                         .read_thread = 0,
                         .write_site = word.write_site,
                         .flags = 0};
  }
  array.cells = std::move(bytes);
}

}  // namespace kerf::cuda::ptx
