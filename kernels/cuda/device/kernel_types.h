// Kernels by number: what a launch names, on both sides of the plug-in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <typeinfo>

namespace kerf::cuda {

template <class... Kernels>
struct KernelTypes {
  static constexpr std::size_t kCount = sizeof...(Kernels);

  // Of each kernel's Args, by number.
  static constexpr std::array<std::uint32_t, kCount> kArgsBytes = {
      std::uint32_t{sizeof(typename Kernels::Args)}...};

  // Of their names, in order: FNV-1a of what the linker calls them, which is the same for every
  // compiler that may have made a part of the program.
  static std::uint64_t NamesHash() {
    std::uint64_t hash = 0xCBF29CE484222325u;
    for (const char* name : {typeid(Kernels).name()...}) {
      // With the 0 at its end.
      do {
        hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001B3u;
      } while (*name++ != 0);
    }
    return hash;
  }

  template <class Kernel>
  static constexpr std::size_t NumberOf() {
    static_assert((std::is_same_v<Kernel, Kernels> + ...) == 1, "not a kernel of the list");
    std::size_t number = 0;
    const bool is_there = ((std::is_same_v<Kernel, Kernels> || (++number, false)) || ...);
    return is_there ? number : kCount;
  }
};

}  // namespace kerf::cuda
