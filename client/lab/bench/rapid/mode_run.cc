#include "client/lab/bench/rapid/mode_run.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/lab/bench/process_costs.h"
#include "kernels/cut_and_fingerprint.h"

namespace kerf::bench {
namespace {

// So much of a file is cut before what was found goes into the index, as where data is committed
// while more of it arrives.
constexpr std::size_t kStepBytes = 8 << 20;

absl::Status WrongError(const RapidMode& mode, std::string_view what) {
  return absl::DataLossError(Cat(mode.name, ": ", what));
}

}  // namespace

ModeRun::ModeRun(const Series* series, const Chunker* base, const Profile& profile,
                 DigestAlgorithm digest, RapidMode mode)
    : series_(series), base_(base), profile_(profile), digest_(digest), mode_(std::move(mode)) {
  if (mode_.is_worst_case) {
    failing_ = std::make_unique<FailingHints>(*series, *base, IndexSettings(), mode_.criterion);
  }
}

LocalIndexSettings ModeRun::IndexSettings() const {
  return {.profile = profile_,
          .digest = digest_,
          .hints = mode_.hints,
          .list_length = mode_.list_length,
          .is_exact = mode_.hints != HintKind::kNone && !mode_.criterion};
}

absl::Status ModeRun::Check(const CutList* regular) {
  LocalIndex index(IndexSettings());
  tape_.BeginRecording(digest_,
                       failing_ != nullptr ? static_cast<HintSource*>(failing_.get()) : &index);
  RunPass(&tape_, &index, tape_.Fingerprints());
  KERF_RETURN_IF_ERROR(CheckChunks());
  cuts_.clear();
  for (const RapidChunk& chunk : chunks_) {
    cuts_.push_back(static_cast<std::uint32_t>(chunk.length_bytes));
  }
  const bool must_be_regular = !mode_.criterion || mode_.is_worst_case;
  if (regular != nullptr && must_be_regular && cuts_ != *regular) {
    return WrongError(mode_, "the cuts are not those of regular cutting");
  }
  if (mode_.is_worst_case && counters_.hints_accepted != 0) {
    return WrongError(mode_, "a hint that must fail was accepted");
  }
  CollectFacts();
  return absl::OkStatus();
}

absl::StatusOr<VersionSeconds> ModeRun::CutAlone() {
  tape_.BeginReplay();
  VersionSeconds seconds = RunPass(&tape_, nullptr, tape_.Fingerprints());
  if (mode_.hints != HintKind::kNone && !tape_.WasReplayedWhole()) {
    return WrongError(mode_, "another pass asked for other things");
  }
  KERF_RETURN_IF_ERROR(CheckCuts());
  return seconds;
}

absl::StatusOr<VersionSeconds> ModeRun::CutHashAndLookUp() {
  LocalIndex index(IndexSettings());
  HintSource* const hints = failing_ != nullptr ? static_cast<HintSource*>(failing_.get()) : &index;
  VersionSeconds seconds = RunPass(hints, &index, {});
  KERF_RETURN_IF_ERROR(CheckCuts());
  return seconds;
}

VersionSeconds ModeRun::RunPass(HintSource* hints, LocalIndex* index,
                                const FingerprintChunks& fingerprint) {
  chunks_.clear();
  version_ends_.clear();
  RapidCutter cutter(base_, profile_, {digest_, mode_.criterion, fingerprint}, hints);
  VersionSeconds seconds;
  for (const std::vector<Bytes>& version : series_->versions) {
    const double start_seconds = OwnCpuSeconds();
    for (const Bytes file : version) {
      if (mode_.hints == HintKind::kNone) {
        CutRegularly(file, index);
      } else {
        CutWithHints(cutter, file, index);
      }
    }
    seconds.push_back(OwnCpuSeconds() - start_seconds);
    version_ends_.push_back(chunks_.size());
  }
  counters_ = cutter.counters();
  return seconds;
}

void ModeRun::CutRegularly(Bytes file, LocalIndex* index) {
  if (index == nullptr) {
    while (!file.empty()) {
      RapidChunk& chunk = chunks_.emplace_back();
      chunk.length_bytes = base_->NextCut(file);
      chunk.was_scanned = true;
      file = file.subspan(chunk.length_bytes);
    }
    return;
  }
  CutAndFingerprint(*base_, digest_, file,
                    [&](std::span<const Bytes> pieces, std::span<const Digest> digests) {
                      for (std::size_t at = 0; at < pieces.size(); ++at) {
                        chunks_.push_back({pieces[at].size(), digests[at], true, false});
                        index->Add(digests[at]);
                      }
                    });
}

void ModeRun::CutWithHints(RapidCutter& cutter, Bytes file, LocalIndex* index) {
  cutter.BeginFile();
  if (index != nullptr) index->BeginFile();
  const std::size_t step_bytes = std::max(kStepBytes, 2 * cutter.window_bytes());
  while (!file.empty()) {
    const bool is_end = file.size() <= step_bytes;
    const Bytes visible = is_end ? file : file.first(step_bytes);
    const std::size_t first = chunks_.size();
    const std::size_t cut_bytes = cutter.Cut(visible, is_end, &chunks_);
    if (index != nullptr) {
      index->Record(visible.first(cut_bytes), std::span(chunks_).subspan(first), is_end);
    }
    file = file.subspan(cut_bytes);
  }
}

absl::Status ModeRun::CheckChunks() const {
  std::size_t at = 0;
  for (const std::vector<Bytes>& version : series_->versions) {
    for (const Bytes file : version) {
      std::vector<Bytes> pieces;
      const std::size_t first = at;
      for (Bytes rest = file; !rest.empty(); ++at) {
        if (at == chunks_.size()) return WrongError(mode_, "chunks do not cover the files");
        const std::size_t length = chunks_[at].length_bytes;
        if (length == 0 || length > rest.size() || length > profile_.max_bytes ||
            (length < profile_.min_bytes && length != rest.size())) {
          return WrongError(mode_, Cat("a chunk of ", length, " bytes cannot be"));
        }
        pieces.push_back(rest.first(length));
        rest = rest.subspan(length);
      }
      std::vector<Digest> digests(pieces.size());
      FingerprintMany(digest_, pieces, digests);
      for (std::size_t index = 0; index < digests.size(); ++index) {
        if (digests[index] != chunks_[first + index].digest) {
          return WrongError(mode_, "a fingerprint is not that of the chunk's bytes");
        }
      }
    }
  }
  if (at != chunks_.size()) return WrongError(mode_, "there are more chunks than data");
  return absl::OkStatus();
}

absl::Status ModeRun::CheckCuts() const {
  const bool is_same = std::ranges::equal(
      chunks_, cuts_, {}, [](const RapidChunk& chunk) { return chunk.length_bytes; });
  return is_same ? absl::OkStatus() : WrongError(mode_, "another pass cut otherwise");
}

void ModeRun::CollectFacts() {
  facts_ = {};
  facts_.counters = counters_;
  facts_.chunk_count = chunks_.size();
  absl::flat_hash_set<Digest, DigestHash> seen;
  std::size_t at = 0;
  for (std::size_t version = 0; version < version_ends_.size(); ++version) {
    for (; at < version_ends_[version]; ++at) {
      const RapidChunk& chunk = chunks_[at];
      const bool is_new = seen.insert(chunk.digest).second;
      facts_.total_bytes += chunk.length_bytes;
      if (is_new) facts_.unique_bytes += chunk.length_bytes;
      if (version == 0) continue;
      facts_.later_bytes += chunk.length_bytes;
      if (!is_new) facts_.later_duplicate_bytes += chunk.length_bytes;
      if (chunk.was_scanned) facts_.later_scanned_bytes += chunk.length_bytes;
    }
  }
}

}  // namespace kerf::bench
