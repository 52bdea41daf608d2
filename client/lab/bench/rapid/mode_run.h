// One way of cutting, measured over a series of versions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lab/bench/rapid/failing_hints.h"
#include "client/lab/bench/rapid/local_index.h"
#include "client/lab/bench/rapid/series.h"
#include "kernels/bench/rapid_tape.h"
#include "kernels/chunker.h"
#include "kernels/rapid/rapid_cutter.h"

namespace kerf::bench {

struct RapidMode {
  // "regular", "exact", "ff", "ff+rwt", "ff+mt", "ff+rwt+fpt".
  std::string name;
  // Without hints the base algorithm alone cuts.
  HintKind hints = HintKind::kNone;
  // None is exact mode.
  std::optional<AcceptanceCriterion> criterion = std::nullopt;
  std::size_t list_length = SizeList::kDefaultSizes;
  // Every hint fails.
  bool is_worst_case = false;
};

// What one pass has found, the same in every pass.
struct ModeFacts {
  std::uint64_t chunk_count = 0;
  // Of the whole series: all bytes, and those of chunks that are there once.
  std::uint64_t total_bytes = 0;
  std::uint64_t unique_bytes = 0;
  // Of the later versions.
  std::uint64_t later_bytes = 0;
  std::uint64_t later_duplicate_bytes = 0;
  std::uint64_t later_scanned_bytes = 0;
  RapidCounters counters;
};

// CPU seconds that each version took: of one thread, so that other programs add little to them.
using VersionSeconds = std::vector<double>;

// Lengths of all chunks, in order.
using CutList = std::vector<std::uint32_t>;

// Runs passes over `series`. Not thread-safe, not movable.
class ModeRun {
 public:
  // `base` cuts by `profile`; all outlive the run.
  ModeRun(const Series* series, const Chunker* base, const Profile& profile, DigestAlgorithm digest,
          RapidMode mode);
  ModeRun(const ModeRun&) = delete;
  ModeRun& operator=(const ModeRun&) = delete;

  const RapidMode& mode() const { return mode_; }
  const ModeFacts& facts() const { return facts_; }

  // The first pass: not measured, but recorded and checked. DataLoss if chunks do not cover their
  // files, have other fingerprints than their bytes, or a chunk breaks the profile's bounds; in
  // exact mode, if cuts are not `regular`; if a hint held that must fail. `regular` is what
  // regular cutting has found, null for that itself.
  absl::Status Check(const CutList* regular);
  const CutList& cuts() const { return cuts_; }

  // Cutting alone: fingerprints and what is known of them are taken from the first pass. DataLoss
  // if the cuts are others than in the first pass.
  absl::StatusOr<VersionSeconds> CutAlone();
  // Cutting, fingerprinting, and looking up and putting in all chunks, beginning with an empty
  // index.
  absl::StatusOr<VersionSeconds> CutHashAndLookUp();

 private:
  LocalIndexSettings IndexSettings() const;
  // Without an index nothing is looked up and put in, and regular cutting does not fingerprint.
  VersionSeconds RunPass(HintSource* hints, LocalIndex* index,
                         const FingerprintChunks& fingerprint);
  void CutRegularly(Bytes file, LocalIndex* index);
  void CutWithHints(RapidCutter& cutter, Bytes file, LocalIndex* index);
  absl::Status CheckChunks() const;
  // That the last pass has cut as the first one.
  absl::Status CheckCuts() const;
  void CollectFacts();

  const Series* const series_;
  const Chunker* const base_;
  const Profile profile_;
  const DigestAlgorithm digest_;
  const RapidMode mode_;
  std::unique_ptr<FailingHints> failing_;
  RapidTape tape_;
  // Of the pass that ran last.
  std::vector<RapidChunk> chunks_;
  // Where each version's chunks end in it.
  std::vector<std::size_t> version_ends_;
  RapidCounters counters_;
  // Of the first pass.
  CutList cuts_;
  ModeFacts facts_;
};

}  // namespace kerf::bench
