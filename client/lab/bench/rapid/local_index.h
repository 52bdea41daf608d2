// An index in memory with its hints: what a chunk's look-up costs where no network is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/lab/bench/rapid/series.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/rapid/cut_run.h"
#include "kernels/rapid/hint_source.h"
#include "kernels/rapid/rapid_cutter.h"
#include "kernels/rapid/size_list.h"

namespace kerf::bench {

enum class HintKind : std::uint8_t {
  kNone,
  // A list of sizes in each entry, as published (RapidCDC, section 3.1).
  kSizes,
  // Runs of chunks, to which entries point.
  kRuns,
};

struct LocalIndexSettings {
  Profile profile;
  DigestAlgorithm digest = DigestAlgorithm::kBlake3;
  HintKind hints = HintKind::kNone;
  std::size_t list_length = SizeList::kDefaultSizes;
  // The cuts are the rule's, so that runs vouch for them.
  bool is_exact = false;
};

// Not thread-safe.
class LocalIndex final : public HintSource {
 public:
  static constexpr std::size_t kRunChunks = 1024;

  explicit LocalIndex(const LocalIndexSettings& settings) : settings_(settings) {}

  Hint Find(const Digest& digest) override;

  // Looks up and puts in. No hint comes of it.
  void Add(const Digest& digest) { EntryOf(digest); }

  // The next chunks of a file have been cut, those of `bytes`: looks up all of which no run has
  // said that they are known, and remembers what followed what.
  void BeginFile() { has_last_ = false; }
  void Record(Bytes bytes, std::span<const RapidChunk> chunks, bool is_end);

 private:
  struct Entry {
    SizeList next_sizes;
    std::shared_ptr<const CutRun> run;
    std::size_t next_index = 0;
  };

  std::uint32_t EntryOf(const Digest& digest);
  void RecordSizes(std::span<const RunChunk> chunks, bool is_end);
  void RecordRuns(std::span<const RapidChunk> cut, std::span<const RunChunk> chunks, bool is_end);
  std::shared_ptr<const CutRun> MakeRun(std::vector<RunChunk> chunks, bool ended_by_eof) const;

  const LocalIndexSettings settings_;
  absl::flat_hash_map<Digest, std::uint32_t, DigestHash> places_;
  std::vector<Entry> entries_;
  // The chunk in front of the next ones, if the file has one.
  bool has_last_ = false;
  RunChunk last_;
};

}  // namespace kerf::bench
