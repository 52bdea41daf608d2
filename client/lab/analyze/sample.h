// Which files are looked at where all of them are too many.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::agent::analyze {

struct SampleCandidate {
  // What the file is called within its part, so that the versions of a file share it:
  // "src/main.c".
  std::string name;
  std::uint64_t size_bytes = 0;
};

// How many bytes of each candidate are taken, together at most `limit_bytes`: all of all if they
// fit. Otherwise names are put into an order that `seed` shuffles, and files are taken in that
// order as long as they fit. Files whose names differ in digits only stand together, so that
// versions ("go1.22.tar", "go1.23.tar") are taken or left together. A file so large that fewer than
// kLeastFiles would fit (or fewer than there are) is taken up to its share, from the front.
// Deterministic.
std::vector<std::uint64_t> ChooseSample(const std::vector<SampleCandidate>& candidates,
                                        std::uint64_t limit_bytes, std::uint64_t seed);

inline constexpr std::uint64_t kLeastFiles = 16;

}  // namespace kerf::agent::analyze
