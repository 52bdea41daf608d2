// What the machine has found that a GPU would not forgive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kerf::cuda::ptx {

enum class FindingKind : std::uint8_t {
  kOutOfBounds,
  kMisaligned,
  // Read, and written by nobody: not by the batch before either.
  kUninitialised,
  // Two threads touch one place, one of them writes, and nothing orders them.
  kRace,
  // Not all threads of a block wait at the same barrier.
  kDivergence,
  // Loaded as what no thread of the launch writes (ld.global.nc), and written in it.
  kReadOnlyWritten,
  kDivisionByZero,
  kEndless,
};

const char* NameOf(FindingKind kind);

struct Finding {
  FindingKind kind;
  // What, and where.
  std::string text;
};

// Not thread-safe.
class Findings {
 public:
  // Whether another one would be kept: of thousands the first few say what there is to say.
  bool HasRoom() const { return all_.size() < kMostKept; }
  void Add(FindingKind kind, std::string text);

  bool empty() const { return count_ == 0; }
  // With those that were not kept.
  std::uint64_t count() const { return count_; }
  const std::vector<Finding>& all() const { return all_; }
  bool Has(FindingKind kind) const;
  // A line for each.
  std::string Text() const;
  void Clear();

 private:
  static constexpr std::size_t kMostKept = 20;
  std::vector<Finding> all_;
  std::uint64_t count_ = 0;
};

}  // namespace kerf::cuda::ptx
