#include "base/request_id.h"

#include <cstdint>
#include <random>

#include "base/hex.h"

namespace kerf {

std::string NewRequestId() {
  constexpr int kWords = 4;
  constexpr int kDigitsPerWord = 8;
  // Of each thread: the system's own random numbers cost a call of the system.
  static thread_local std::mt19937 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device()};
    return std::mt19937(seed);
  }();
  std::string id;
  for (int word = 0; word < kWords; ++word) {
    std::uint32_t bits = generator();
    for (int digit = 0; digit < kDigitsPerWord; ++digit, bits >>= 4) id += kHexDigits[bits & 0xF];
  }
  return id;
}

bool IsRequestId(std::string_view text) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= kMaxRequestIdBytes &&
         text.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace kerf
