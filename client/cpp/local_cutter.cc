#include "client/cpp/local_cutter.h"

#include <algorithm>

namespace kerf::client {

LocalCutter::LocalCutter(const Profile& profile, DigestAlgorithm algorithm)
    : algorithm_(algorithm),
      chunker_(MakeChunker(profile)),
      ahead_(chunker_->MakeAhead()),
      max_chunk_bytes_(chunker_->max_chunk_bytes()) {
  carry_.reserve(2 * max_chunk_bytes_);
}

void LocalCutter::Begin() {
  carry_.clear();
  if (ahead_ != nullptr) ahead_->Forget();
}

std::size_t LocalCutter::NextCut(std::span<const std::uint8_t> bytes) {
  const std::size_t length = ahead_ != nullptr ? ahead_->NextCut(bytes) : chunker_->NextCut(bytes);
  if (ahead_ != nullptr) ahead_->Pass(length);
  cut_.push_back(bytes.first(length));
  return length;
}

std::size_t LocalCutter::CutCarried(std::span<const std::uint8_t> bytes) {
  const std::size_t carried_bytes = carry_.size();
  std::size_t begin = 0;
  while (begin < carried_bytes) {
    const std::size_t missing_bytes = begin + max_chunk_bytes_ - carry_.size();
    const std::span<const std::uint8_t> rest = bytes.subspan(carry_.size() - carried_bytes);
    const std::size_t count = std::min(missing_bytes, rest.size());
    carry_.insert(carry_.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
    // Not certain: all that has come waits behind the last cut.
    if (count < missing_bytes) break;
    begin += NextCut(std::span(carry_).subspan(begin));
  }
  return begin;
}

void LocalCutter::Add(std::span<const std::uint8_t> bytes, const Take& take) {
  const std::size_t carried_bytes = carry_.size();
  const std::size_t cut_bytes = CutCarried(bytes);
  if (cut_bytes < carried_bytes) {
    Give(take);
    carry_.erase(carry_.begin(), carry_.begin() + static_cast<std::ptrdiff_t>(cut_bytes));
    return;
  }
  std::size_t position = cut_bytes - carried_bytes;
  while (bytes.size() - position >= max_chunk_bytes_) position += NextCut(bytes.subspan(position));
  Give(take);
  carry_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(position), bytes.end());
}

void LocalCutter::End(const Take& take) {
  for (std::size_t begin = 0; begin < carry_.size();) {
    begin += NextCut(std::span(carry_).subspan(begin));
  }
  Give(take);
  Begin();
}

void LocalCutter::Give(const Take& take) {
  if (cut_.empty()) return;
  digests_.resize(cut_.size());
  FingerprintMany(algorithm_, cut_, digests_);
  chunks_.clear();
  for (std::size_t index = 0; index < cut_.size(); ++index) {
    chunks_.push_back({digests_[index], static_cast<std::uint32_t>(cut_[index].size())});
  }
  cut_.clear();
  take(chunks_);
}

}  // namespace kerf::client
