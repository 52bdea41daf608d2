// What a Redis holds, by its own word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/strings.h"

namespace kerf {

// Of the answer to INFO memory: bytes in use, less what waits for a disk that is busy.
inline std::uint64_t UsedMemoryIn(const std::string& info) {
  const auto number_of = [&info](std::string_view name) {
    const std::string begins = Cat("\n", name, ":");
    const std::size_t at = info.find(begins);
    KERF_CHECK(at != std::string::npos);
    const std::size_t begin = at + begins.size();
    std::uint64_t number = 0;
    KERF_CHECK(absl::SimpleAtoi(info.substr(begin, info.find('\r', begin) - begin), &number));
    return number;
  };
  return number_of("used_memory") - number_of("mem_aof_buffer");
}

}  // namespace kerf
