// Memory that files are read into: it begins at a page.
//
// A read copies page after page by `rep movsb`, which takes AMD's Zen 4 two and a half times as
// long where it writes 10 to 26 bytes further behind the beginning of a page than it reads, and
// malloc puts large pieces at 16: docs/adr/0023-local-cut.md has the figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace kerf {

// Of the machines that kerf is made for. One that has larger pages only loses the speed.
inline constexpr std::size_t kPageBytes = 4096;

inline constexpr std::size_t RoundUpToPages(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

struct PageDelete {
  void operator()(std::uint8_t* bytes) const {
    ::operator delete[](bytes, std::align_val_t{kPageBytes});
  }
};
using PageBytes = std::unique_ptr<std::uint8_t[], PageDelete>;

// Not set to anything.
inline PageBytes NewPageBytes(std::size_t size_bytes) {
  return PageBytes(
      static_cast<std::uint8_t*>(::operator new[](size_bytes, std::align_val_t{kPageBytes})));
}

// Of bytes alone; a template, as the standard wants it.
template <typename Byte>
struct PageAllocator {
  using value_type = Byte;

  Byte* allocate(std::size_t size_bytes) { return NewPageBytes(size_bytes).release(); }
  void deallocate(Byte* bytes, std::size_t /*size_bytes*/) { PageDelete{}(bytes); }
  bool operator==(const PageAllocator& /*other*/) const = default;
};
// Set to zeros, as any vector.
using PageVector = std::vector<std::uint8_t, PageAllocator<std::uint8_t>>;

}  // namespace kerf
