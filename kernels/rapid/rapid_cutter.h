// RapidCDC (Ni, Jiang, SoCC 2019) over any base algorithm: goes to the ends that hints predict, and
// scans where they fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/rapid/acceptance.h"
#include "kernels/rapid/hint_source.h"

namespace kerf {

// As FingerprintMany of one algorithm.
using FingerprintChunks = std::function<void(std::span<const std::span<const std::uint8_t>> chunks,
                                             std::span<Digest> digests)>;

struct RapidSettings {
  DigestAlgorithm digest_algorithm = DigestAlgorithm::kBlake3;
  // None is exact mode: the cuts are those of the base algorithm whatever the source knows, as long
  // as no run claims to be of exact cuts that is not (run_seal.h). With a criterion they depend on
  // what was stored before.
  std::optional<AcceptanceCriterion> criterion;
  // For who fingerprints elsewhere; FingerprintMany if empty.
  FingerprintChunks fingerprint;
};

struct RapidChunk {
  std::size_t length_bytes = 0;
  Digest digest;
  // The base algorithm found its end.
  bool was_scanned = false;
  // Its fingerprint is the one that a run predicted: who gave the run knows the chunk.
  bool is_in_run = false;

  friend bool operator==(const RapidChunk&, const RapidChunk&) = default;
};

struct RapidCounters {
  // Predicted ends that became cuts without a scan, and such that were tried and did not.
  std::uint64_t hints_accepted = 0;
  std::uint64_t hints_rejected = 0;
  // Chunks behind which nothing was predicted, because nothing was known or it was not here yet.
  std::uint64_t hints_absent = 0;
  std::uint64_t hints_late = 0;
  // Of hints_accepted, those from a size list, by their place in it (section 4.3, figure 14).
  std::array<std::uint64_t, SizeList::kMaxSizes> hits_by_position{};
  // Of hints_accepted, ends that a change has moved by a few bytes.
  std::uint64_t shifted_ends = 0;
  // In chunks whose end was scanned for, and in all others: together all bytes that were cut.
  std::uint64_t bytes_scanned = 0;
  std::uint64_t bytes_skipped = 0;
  // What is more than all bytes that were cut was fingerprinted in vain.
  std::uint64_t bytes_fingerprinted = 0;
};

// One file at a time. Not thread-safe.
class RapidCutter {
 public:
  // Of chunks fingerprinted at once, where a run predicts them; this many bytes at most, or one
  // chunk. It grows from one while predictions hold, so that less is fingerprinted in vain than was
  // before with success.
  static constexpr std::size_t kMaxBatchChunks = 32;
  static constexpr std::size_t kMaxBatchBytes = 256 << 10;
  // The same of chunks that are scanned, which grows once nothing is known of so many: a hint for
  // one that is not the last of its batch is not looked for.
  static constexpr std::size_t kMaxScanBatchChunks = 8;
  static constexpr std::size_t kMinUnknownChunks = 4;
  // How often a lost run is looked for behind what came in its place before it is given up. Each
  // time that it is not there costs the fingerprint of a chunk.
  static constexpr std::size_t kMaxResumesInVain = 2;
  // How far a change is assumed to have moved the end that a run predicts. So much of the data on
  // both sides of it is looked at before a criterion goes on without the run.
  static constexpr std::size_t kMaxShiftBytes = 256;

  // `base` cuts by `profile`; it and `hints` outlive the cutter.
  RapidCutter(const Chunker* base, const Profile& profile, RapidSettings settings,
              HintSource* hints);
  RapidCutter(const RapidCutter&) = delete;
  RapidCutter& operator=(const RapidCutter&) = delete;

  // A file begins here, or is resumed at a cut. `first` predicts what stands there.
  void BeginFile(const Hint& first = {});

  // Appends to `chunks` those at the front of `bytes` whose ends are certain, and returns how many
  // bytes these have. `bytes` begins where the last call left off; the file ends with it if
  // `is_end`, and then all of it is cut. Else cuts at least until fewer than window_bytes() are
  // left, so that a buffer of twice as many is never full.
  std::size_t Cut(std::span<const std::uint8_t> bytes, bool is_end,
                  std::vector<RapidChunk>* chunks);

  // What must be visible before a chunk is cut: the window of the rule and what covers it.
  std::size_t window_bytes() const { return 2 * base_->max_chunk_bytes(); }

  const RapidCounters& counters() const { return counters_; }

 private:
  using Bytes = std::span<const std::uint8_t>;
  using Chunks = std::vector<RapidChunk>;

  // What is left of the data: how a step sees it.
  struct Rest {
    Bytes bytes;
    bool is_end = false;
  };

  // Each cuts at least one chunk and returns the bytes cut, or 0 if it has no answer.
  std::size_t StepAlongRun(const Rest& rest, Chunks* chunks);
  std::size_t StepAlongRunByCriterion(const Rest& rest, Chunks* chunks);
  // Where the run's next chunk does not stand as it was: its end may have moved by a few bytes.
  std::size_t StepToShiftedEnd(const Rest& rest, Chunks* chunks);
  std::size_t StepBySizes(const Rest& rest, Chunks* chunks);
  std::size_t Scan(const Rest& rest, Chunks* chunks);

  // The rule's next cut.
  std::size_t ScanFor(Bytes bytes);
  // ProvesCut, or what is cheaper.
  bool Proves(Bytes bytes, std::size_t length);
  // So much was cut.
  void Pass(std::size_t length);

  // Asks what is known of the chunk that was cut last.
  void Ask();
  void TakeAnswer(Hint hint);
  void UseHint(Hint hint);
  // What the run predicted did not hold; what else is known of the last chunk may still.
  void LeaveRun();
  bool IsRunUsable(const CutRun& run) const;
  // A change is over sooner or later: the run that fails here may go on behind `scanned_bytes`, at
  // the chunk whose place in it is the nearest. Nobody has predicted that: it counts only if the
  // fingerprint is the run's, whatever the criterion.
  void RememberLostRun();
  void Resume(std::size_t scanned_bytes);

  // Whether a chunk of the run may end `offset` + its length behind the last cut.
  bool Fits(const Rest& rest, std::size_t offset, std::size_t run_index) const;
  // Compares the next chunks of the run with the bytes; whether at least one more matches.
  bool ExtendMatch(const Rest& rest);
  // Whether all that the rule looks at to make the next cut matches the run.
  bool IsCovered(const Rest& rest) const;
  // The same because the file ends there, in the run as in the data.
  bool IsCoveredByEnd(const Rest& rest) const;
  bool SizeHolds(const Rest& rest, NextSize predicted, const Digest& digest,
                 std::optional<Hint>* answer);

  void FingerprintAll(std::span<const Bytes> pieces, std::span<Digest> digests);
  // Once for each length, until a chunk is cut.
  Digest FingerprintFront(const Rest& rest, std::size_t length);
  void Emit(std::size_t length, const Digest& digest, bool was_scanned, Chunks* chunks);
  void CountCut(std::size_t count, std::size_t bytes, bool was_scanned);
  // The next `count` chunks of the run are cut.
  std::size_t TakeFromRun(std::size_t count, bool was_scanned, Chunks* chunks);

  const Chunker* const base_;
  // Null where the rule needs none.
  const std::unique_ptr<CutAhead> ahead_;
  const Profile profile_;
  const RapidSettings settings_;
  HintSource* const hints_;
  RapidCounters counters_;

  // Of the last chunk.
  std::optional<Digest> last_digest_;
  // What is predicted behind it. Its sizes are those of the last chunk only while is_fresh_.
  Hint hint_;
  bool is_fresh_ = false;
  // So many chunks of the run from hint_.next_index on have been found behind the last cut.
  std::size_t matched_ = 0;
  std::size_t matched_bytes_ = 0;
  // The one behind them has not.
  bool is_broken_ = false;
  std::size_t batch_ = 1;
  std::size_t scan_batch_ = 1;
  std::size_t unknown_in_a_row_ = 0;
  // Where the run failed from which the last chunks came; null if there is none, or it was found
  // again.
  std::shared_ptr<const CutRun> lost_run_;
  std::size_t lost_index_ = 0;
  std::size_t resumed_in_vain_ = 0;
  // hint_.run is what Resume guessed.
  bool is_resumed_ = false;
  // What is fingerprinted at once, for one step: here, since making them anew costs more than the
  // step.
  std::array<Bytes, kMaxBatchChunks> pieces_;
  std::array<Digest, kMaxBatchChunks> digests_;
  // Fingerprints of what may be the next chunk.
  std::vector<std::pair<std::size_t, Digest>> tried_;
};

}  // namespace kerf
