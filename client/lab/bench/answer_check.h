// Whether a server's answers about one file are those that cutting and hashing here gives: speed is
// only worth printing for a right result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/lab/bench/local_cut.h"
#include "kerf/v1/chunking.pb.h"

namespace kerf::bench {

// Whether a chunk's answer has a check of its bytes: a server that has not seen them has none.
enum class BytesCheck : std::uint8_t { kAnswered, kNone };

// For the first file of a stream. Not thread-safe.
class AnswerCheck {
 public:
  // `expected` must outlive it.
  AnswerCheck(std::span<const LocalChunk> expected, std::size_t digest_bytes, BytesCheck check)
      : expected_(expected), digest_bytes_(digest_bytes), check_(check) {}

  // DataLoss: an offset, digest or check differs from what is expected, or there are too many.
  absl::Status Take(const v1::Chunks& chunks);

  // DataLoss: the summary does not fit, or chunks are missing.
  absl::Status TakeDone(const v1::FileDone& done);

  std::size_t answered_count() const { return answered_count_; }
  std::size_t duplicate_count() const { return duplicate_count_; }
  bool has_all() const { return answered_count_ == expected_.size(); }
  bool is_done() const { return is_done_; }

  // Positions in `expected` that were answered NEW or UNVERIFIED and not taken from the front here.
  std::span<const std::size_t> new_positions() const { return new_positions_; }
  void ForgetNew(std::size_t count);

 private:
  const std::span<const LocalChunk> expected_;
  const std::size_t digest_bytes_;
  const BytesCheck check_;
  std::size_t answered_count_ = 0;
  std::size_t duplicate_count_ = 0;
  bool is_done_ = false;
  std::vector<std::size_t> new_positions_;
};

}  // namespace kerf::bench
