// What a stream knows of how its files go on, and what it learns of them: predictions for its
// cutter, verdicts that were asked for before the chunks came, and segments of what was cut.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/upload_profile.h"
#include "server/hints/hint_cache.h"
#include "server/hints/hint_view.h"
#include "server/hints/segment_recorder.h"
#include "server/index/index.h"
#include "server/session/digest_hash.h"
#include "server/worker/cut_buffer.h"

namespace kerf {

// Whether files are to be cut along hints: with a criterion, which says so, or where it is faster
// than to scan, fingerprints included, which cost more when fewer chunks are fingerprinted at once
// (docs/performance.md, RapidCDC).
bool IsWorthFollowing(const UploadProfile& profile);

// Whether an upload may be cut by the profile's criterion, if it has one: FailedPrecondition
// (CRITERION_NEEDS_HINTS) where there are no hints, null or of no use, for it is not to be cut
// otherwise behind its back.
absl::Status CheckCriterion(const HintCache* hints, const RepositoryId& repository,
                            const UploadProfile& profile);

// For one stream. Not thread-safe.
class FileHints {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A verdict is used no later than this behind its lookup: what was forgotten meanwhile would
  // still be called a duplicate. (The agent finds that out; it costs it a second round.)
  static constexpr std::chrono::seconds kMaxVerdictAge{2};
  // Of digests that are looked up before their chunks have come: kMinAhead once a file turns out to
  // be known, for each that came true kAheadForEach more, up to kMaxAhead at once, and one more for
  // kChunksForOne chunks of a known file. So a file that is known is soon asked for in large
  // pieces, and what is asked in vain is in proportion to what came. Nothing is asked ahead while
  // the index holds nothing of it. No verdict that can still be used is asked for anew.
  static constexpr std::size_t kMinAhead = 128;
  static constexpr std::size_t kMaxAhead = 2048;
  // While the verdicts of so many are known no more are asked for: little by little costs the index
  // more than at once.
  static constexpr std::size_t kEnoughAhead = kMaxAhead / 4;
  static constexpr std::size_t kAheadForEach = 4;
  static constexpr std::size_t kChunksForOne = 4;

  // `now` is a clock.
  FileHints(std::shared_ptr<HintCache> cache, const RepositoryId& repository,
            const UploadProfile& profile, std::function<TimePoint()> now);
  FileHints(const FileHints&) = delete;
  FileHints& operator=(const FileHints&) = delete;

  // For the cutter; as long-lived as this.
  HintSource* source() { return &view_; }

  // Whether all the digests are known to be duplicates. `results` has those that are; or it is
  // empty: none is.
  bool Foresee(std::span<const Digest> digests, std::vector<LookupResult>* results);
  // Whether what was foreseen last can still be used.
  bool is_foreseen_yet() const { return now_() - foreseen_since_ <= kMaxVerdictAge; }
  // The index has just held many chunks of the file in a row.
  bool is_known_file() const;
  // Appends what is likely to come behind the last of `digests`, to be looked up with what is asked
  // for. `is_followed`: the file is one that is known.
  void AppendAhead(bool is_followed, std::span<const Digest> digests, std::vector<Digest>* asked);
  // The answers for what AppendAhead has appended.
  void LearnAhead(std::span<const Digest> digests, std::span<LookupResult> results);
  // The index has been told to forget something.
  void DropVerdicts() { generations_ = {}; }
  // Digests that were looked up ahead so far.
  std::uint64_t asked_ahead_count() const { return asked_ahead_count_; }

  // A chunk was answered; they come in the order of the stream.
  void Answered(const CutChunk& chunk, const Digest& digest, Verdict verdict);
  // The file has ended behind the chunk that was answered last, if that was of this file.
  void FileEnded(std::uint64_t file_number);
  void FileAbandoned();
  // All chunks of the file up to there are in the index, or all of them.
  void Committed(std::uint64_t file_number, std::uint64_t durable_offset);
  void Done(std::uint64_t file_number);

  // What followed the chunk that was answered last. What is not here yet is fetched if the index
  // holds that chunk.
  Hint FindNext();

  std::size_t memory_bytes() const;
  // Memory is short: gives up what it can, and learns nothing more.
  void Shed();

 private:
  // An estimate from above: key, result, and the locator's own memory.
  static constexpr std::size_t kVerdictBytes =
      2 * (sizeof(Digest) + sizeof(LookupResult)) + kMaxLocatorBytes;
  // Of segments whose chunks are not committed yet: as many as a stream may have by default.
  static constexpr std::size_t kMaxRecordedBytes = std::size_t{8} << 20;

  const std::shared_ptr<HintCache> cache_;
  const std::shared_ptr<const HintScope> scope_;
  const std::function<TimePoint()> now_;
  HintView view_;
  // None once memory was short.
  std::optional<SegmentRecorder> recorder_;

  // For the next version of the file.
  void Record(const CutChunk& chunk, const Digest& digest);
  // The chunks have come: what is expected goes on behind them, or nowhere.
  void Advance(std::span<const Digest> digests);
  // How many of those that are expected have come or been replaced, where not all have come; 0:
  // none has.
  std::size_t FindEdited(std::span<const Digest> digests) const;
  // Where in what is held these chunks stand.
  void FindPlace(std::span<const Digest> digests);
  // The verdict that one of the newest `generation_count` generations has of a digest; null: none.
  const LookupResult* VerdictOf(const Digest& digest, std::size_t generation_count) const;
  // Whether the verdicts of the kEnoughAhead that are expected next are known.
  bool has_enough() const;
  // Appends what is expected and unknown to these generations, each digest once, as far as
  // may_ask_ goes.
  void AppendUnknown(std::size_t generation_count, std::vector<Digest>* asked) const;

  // With kNew those that were asked for in vain: what is new may be committed at any time.
  struct Generation {
    absl::flat_hash_map<Digest, LookupResult, SeededDigestHash> verdicts;
    // Of the oldest.
    TimePoint asked_at;
  };
  // The one that is filled, and the one before it.
  std::array<Generation, 2> generations_;
  TimePoint asked_at_;
  // When the oldest of the verdicts was asked for that were foreseen last.
  TimePoint foreseen_since_;
  // So many more may be asked for ahead.
  std::size_t may_ask_ = kMinAhead;
  // What is expected next, up to the cursor; nothing is while there is none.
  std::vector<Digest> expected_;
  std::optional<HintCache::Cursor> cursor_;
  std::uint64_t asked_ahead_count_ = 0;

  bool in_file_ = false;
  std::uint64_t file_number_ = 0;
  // Of the file, if there is one yet.
  std::optional<Digest> last_digest_;
  // Duplicates answered in a row.
  std::size_t run_length_ = 0;
  // The duplicates answered last, one behind the other in one file.
  std::vector<Digest> duplicates_;
  bool begins_file_ = false;
};

}  // namespace kerf
