#include "kernels/testing/guarded_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace kerf {

GuardedBytes::GuardedBytes(std::size_t capacity_bytes)
    : page_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      inner_bytes_((capacity_bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_) {
  void* const pages =
      mmap(nullptr, inner_bytes_ + 2 * page_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KERF_CHECK(pages != MAP_FAILED);
  pages_ = static_cast<std::uint8_t*>(pages);
  KERF_CHECK(inner_bytes_ == 0 ||
             mprotect(pages_ + page_bytes_, inner_bytes_, PROT_READ | PROT_WRITE) == 0);
}

GuardedBytes::~GuardedBytes() { munmap(pages_, inner_bytes_ + 2 * page_bytes_); }

std::span<const std::uint8_t> GuardedBytes::CopyToEnd(std::span<const std::uint8_t> bytes) {
  KERF_CHECK(bytes.size() <= inner_bytes_);
  std::uint8_t* const start = pages_ + page_bytes_ + inner_bytes_ - bytes.size();
  std::copy(bytes.begin(), bytes.end(), start);
  return {start, bytes.size()};
}

std::span<const std::uint8_t> GuardedBytes::CopyToStart(std::span<const std::uint8_t> bytes) {
  KERF_CHECK(bytes.size() <= inner_bytes_);
  std::uint8_t* const start = pages_ + page_bytes_;
  std::copy(bytes.begin(), bytes.end(), start);
  return {start, bytes.size()};
}

}  // namespace kerf
