// What a RapidCutter asks for, kept, so that cutting alone can be measured: asked the same again,
// it gets the same answers at the price of a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/hint_source.h"
#include "kernels/rapid/rapid_cutter.h"

namespace kerf::bench {

// One recording, then any number of replays. The cutter is a function of its input and of these
// answers, so it asks in the same order each time; who replays compares the chunks. Not
// thread-safe, and not to be moved while a cutter has it.
class RapidTape final : public HintSource {
 public:
  // Passes questions on to `source`, which outlives the recording.
  void BeginRecording(DigestAlgorithm algorithm, HintSource* source);
  // Answers from the beginning of the tape on.
  void BeginReplay();
  // Whether the replay so far asked exactly for what there is.
  bool WasReplayedWhole() const;

  Hint Find(const Digest& digest) override;
  // For RapidSettings::fingerprint.
  FingerprintChunks Fingerprints();

 private:
  void Fingerprint(std::span<const std::span<const std::uint8_t>> pieces,
                   std::span<Digest> digests);

  DigestAlgorithm algorithm_ = DigestAlgorithm::kBlake3;
  // Null: this is a replay.
  HintSource* source_ = nullptr;
  std::vector<Hint> hints_;
  std::vector<Digest> digests_;
  std::size_t next_hint_ = 0;
  std::size_t next_digest_ = 0;
  bool is_overrun_ = false;
};

}  // namespace kerf::bench
