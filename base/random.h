// The seeded generator of tests, fuzzing, simulations and jitter. Not for keys or tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kerf {

// SplitMix64 (Steele, Lea, Flood 2014): the same sequence on every machine for one seed. Not
// thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t value = (state_ += 0x9E3779B97F4A7C15u);
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
  }

  // Uniform in [0, bound); 0 if bound is 0. The bias is below bound / 2^64.
  std::uint64_t Below(std::uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }

  // Uniform in [low, high], both included.
  std::uint64_t Between(std::uint64_t low, std::uint64_t high) {
    return low + Below(high - low + 1);
  }

  // True once in `times` calls on average.
  bool OneIn(std::uint64_t times) { return Below(times) == 0; }

  void Fill(std::span<std::uint8_t> bytes) {
    std::size_t position = 0;
    while (position < bytes.size()) {
      const std::uint64_t value = Next();
      const std::size_t count =
          bytes.size() - position < sizeof value ? bytes.size() - position : sizeof value;
      std::memcpy(bytes.data() + position, &value, count);
      position += count;
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace kerf
