#include "client/lab/bench/answer_check.h"

#include <cstring>

#include "base/strings.h"

namespace kerf::bench {
namespace {

absl::Status Wrong(std::size_t position, std::string_view what) {
  return absl::DataLossError(ToAbsl(Cat("chunk ", position, " is answered wrongly: ", what,
                                        " differs from what cutting and hashing here gives")));
}

}  // namespace

absl::Status AnswerCheck::Take(const v1::Chunks& chunks) {
  if (chunks.file_number() != 1) {
    return absl::DataLossError(
        ToAbsl(Cat("an answer about file ", chunks.file_number(), " of a stream of one file")));
  }
  for (const v1::Chunk& chunk : chunks.chunks()) {
    if (has_all()) {
      return absl::DataLossError(
          ToAbsl(Cat("more chunks are answered than the ", expected_.size(), " that there are")));
    }
    const LocalChunk& expected = expected_[answered_count_];
    if (chunk.end_offset() != expected.end_offset) return Wrong(answered_count_, "its end");
    if (chunk.digest().size() != digest_bytes_ ||
        std::memcmp(chunk.digest().data(), expected.digest.bytes.data(), digest_bytes_) != 0) {
      return Wrong(answered_count_, "its digest");
    }
    const std::uint64_t check = check_ == BytesCheck::kAnswered ? expected.check : 0;
    if (chunk.check() != check) return Wrong(answered_count_, "its check");
    if (chunk.verdict() == v1::VERDICT_DUPLICATE) {
      ++duplicate_count_;
    } else {
      new_positions_.push_back(answered_count_);
    }
    ++answered_count_;
  }
  return absl::OkStatus();
}

absl::Status AnswerCheck::TakeDone(const v1::FileDone& done) {
  const std::uint64_t size_bytes = expected_.empty() ? 0 : expected_.back().end_offset;
  if (is_done_ || !has_all() || done.file_number() != 1 || done.size_bytes() != size_bytes ||
      done.chunk_count() != expected_.size() ||
      done.new_chunk_count() != expected_.size() - duplicate_count_) {
    return absl::DataLossError(
        ToAbsl(Cat("the file is called done with ", done.chunk_count(), " chunks and ",
                   done.size_bytes(), " bytes; it has ", expected_.size(), " and ", size_bytes,
                   ", of which ", answered_count_, " chunks are answered")));
  }
  is_done_ = true;
  return absl::OkStatus();
}

void AnswerCheck::ForgetNew(std::size_t count) {
  new_positions_.erase(new_positions_.begin(),
                       new_positions_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace kerf::bench
