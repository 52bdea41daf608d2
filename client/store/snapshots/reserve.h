// Bytes that a store keeps for the day on which its disk is full: what frees space must write a
// little first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kerf::agent {

// A plan in its old and its new form (at most a quarter of this each where the disk is full,
// collection.h), both copies of the epoch in theirs, the note of a generation, and blocks of
// directories that grow: small files take a block each, of up to 64 KiB.
inline constexpr std::uint64_t kReserveBytes = std::uint64_t{1} << 20;
// Whoever opens a store makes it where so many of it have room: a disk that is nearly full has
// other uses for it.
inline constexpr std::uint64_t kMinReserveRoom = 4;
// Less would be of no use: a block of each file.
inline constexpr std::uint64_t kMinReserveBytes = kReserveBytes / 8;

// Of the store in `directory`. Thread-safe; any number of processes may use it.
class Reserve {
 public:
  explicit Reserve(std::string_view directory);

  const std::string& path() const { return path_; }
  bool IsThere() const;
  // Durable on return. OK if it is there, where a collection is under way, which takes it back
  // itself, and where there is no room for it.
  absl::Status Make() const;
  // For whoever has spent it, as soon as that is done: makes it again, of what there is room for.
  absl::Status TakeBack() const;
  // Does `write`. Where there is no room for it, or a quota is used up, gives the reserve up and
  // does it again: what was done already must not be in the way.
  absl::Status Spend(const std::function<absl::Status()>& write) const;

 private:
  bool IsWhole() const;

  const std::string directory_;
  const std::string path_;
};

}  // namespace kerf::agent
