#include "kernels/bench/rapid_tape.h"

#include <algorithm>

namespace kerf::bench {

void RapidTape::BeginRecording(DigestAlgorithm algorithm, HintSource* source) {
  algorithm_ = algorithm;
  source_ = source;
  hints_.clear();
  digests_.clear();
}

void RapidTape::BeginReplay() {
  source_ = nullptr;
  next_hint_ = 0;
  next_digest_ = 0;
  is_overrun_ = false;
}

bool RapidTape::WasReplayedWhole() const {
  return !is_overrun_ && next_hint_ == hints_.size() && next_digest_ == digests_.size();
}

Hint RapidTape::Find(const Digest& digest) {
  if (source_ != nullptr) return hints_.emplace_back(source_->Find(digest));
  if (next_hint_ < hints_.size()) return hints_[next_hint_++];
  is_overrun_ = true;
  return {};
}

FingerprintChunks RapidTape::Fingerprints() {
  return [this](std::span<const std::span<const std::uint8_t>> pieces, std::span<Digest> digests) {
    Fingerprint(pieces, digests);
  };
}

void RapidTape::Fingerprint(std::span<const std::span<const std::uint8_t>> pieces,
                            std::span<Digest> digests) {
  if (source_ != nullptr) {
    FingerprintMany(algorithm_, pieces, digests);
    digests_.insert(digests_.end(), digests.begin(), digests.end());
    return;
  }
  if (digests.size() > digests_.size() - next_digest_) {
    is_overrun_ = true;
    return;
  }
  std::copy_n(digests_.begin() + static_cast<std::ptrdiff_t>(next_digest_), digests.size(),
              digests.begin());
  next_digest_ += digests.size();
}

}  // namespace kerf::bench
