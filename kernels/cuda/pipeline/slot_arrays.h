// Who is asked for the arrays of a slot (TakeSelectionMemory and its like): first one that counts,
// then one that hands out what the device has given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace kerf::cuda {

// Of each array Device::AllocateArrays takes whole ones.
inline constexpr std::size_t kArrayAlignmentBytes = 256;

// Notes how large each is.
class ArraySizes {
 public:
  template <class T>
  T* operator()(std::size_t count) {
    sizes_bytes_.push_back(count * sizeof(T));
    return nullptr;
  }

  std::span<const std::size_t> sizes_bytes() const { return sizes_bytes_; }
  // As they lie one behind the other.
  std::size_t total_bytes() const {
    std::size_t total_bytes = 0;
    for (const std::size_t size_bytes : sizes_bytes_) {
      total_bytes +=
          (size_bytes + kArrayAlignmentBytes - 1) / kArrayAlignmentBytes * kArrayAlignmentBytes;
    }
    return total_bytes;
  }

 private:
  std::vector<std::size_t> sizes_bytes_;
};

// Of the same arrays, in the same order.
class ArrayPlaces {
 public:
  // What Device::AllocateArrays has answered.
  explicit ArrayPlaces(std::span<std::uint8_t* const> arrays) : arrays_(arrays) {}

  template <class T>
  T* operator()(std::size_t) {
    KERF_CHECK(!arrays_.empty());
    std::uint8_t* const place = arrays_.front();
    arrays_ = arrays_.subspan(1);
    return reinterpret_cast<T*>(place);
  }

 private:
  std::span<std::uint8_t* const> arrays_;
};

}  // namespace kerf::cuda
