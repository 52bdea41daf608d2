// Kernels by number: what a launch names, on both sides of the plug-in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kerf::cuda {

template <class... Kernels>
struct KernelTypes {
  static constexpr std::size_t kCount = sizeof...(Kernels);

  // Of each kernel's Args, by number.
  static constexpr std::array<std::uint32_t, kCount> kArgsBytes = {
      std::uint32_t{sizeof(typename Kernels::Args)}...};

  template <class Kernel>
  static constexpr std::size_t NumberOf() {
    static_assert((std::is_same_v<Kernel, Kernels> + ...) == 1, "not a kernel of the list");
    std::size_t number = 0;
    const bool is_there = ((std::is_same_v<Kernel, Kernels> || (++number, false)) || ...);
    return is_there ? number : kCount;
  }
};

}  // namespace kerf::cuda
