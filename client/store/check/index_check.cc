#include "client/store/check/index_check.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/packs/chunk_index.h"

namespace kerf::agent {
namespace {

// How often what looks wrong is looked at while collections go on.
constexpr int kMaxRounds = 4;

class IndexCheck {
 public:
  IndexCheck(const Store& store, ReadableIndex& index, const IndexCheckOptions& options)
      : store_(store), index_(index), options_(options), packs_(store.packs_directory()) {
    packs_.EndWhen(options_.is_cancelled);
  }

  absl::StatusOr<IndexCheckReport> Run();

 private:
  // What an answer means, for what the store holds.
  enum class State {
    kKnown,
    kUnverified,
    kMissing,
    kElsewhere,
    kWrongLength,
    kGone,
    kOutdated,
    // Neither of them has it.
    kNowhere,
  };

  State StateOf(const Digest& digest, const IndexAnswer& answer) const;
  absl::Status LookUpChunks();
  absl::Status LookUp(std::span<const Digest> digests, std::vector<Digest>& suspects);
  absl::Status ScanEntries();
  enum class Side { kStore, kIndex };
  absl::Status Decide(Side side, std::span<const Digest> suspects);
  void Count(State state, const Digest& digest, const IndexAnswer& answer);
  void Report(IndexFinding::Kind kind, const Digest& digest, const IndexAnswer& answer);
  absl::Status Progress() const {
    return options_.on_progress ? options_.on_progress(progress_) : absl::OkStatus();
  }

  const Store& store_;
  ReadableIndex& index_;
  const IndexCheckOptions& options_;
  ChunkIndex packs_;
  CollectionGuard guard_;
  DigestSet condemned_;
  IndexCheckProgress progress_;
  IndexCheckReport report_;
};

IndexCheck::State IndexCheck::StateOf(const Digest& digest, const IndexAnswer& answer) const {
  const std::vector<ChunkPlace> places = packs_.LocateAll(digest);
  if (answer.verdict == IndexVerdict::kNew)
    return places.empty() ? State::kNowhere : State::kMissing;
  const bool is_believed = answer.verdict == IndexVerdict::kDuplicate;
  if (places.empty()) return is_believed ? State::kGone : State::kOutdated;
  if (!is_believed) return State::kUnverified;
  if (places.front().chunk().length_bytes != answer.length_bytes) return State::kWrongLength;
  const bool is_there = std::any_of(places.begin(), places.end(), [&](const ChunkPlace& place) {
    return place.locator() == answer.locator;
  });
  return is_there ? State::kKnown : State::kElsewhere;
}

void IndexCheck::Report(IndexFinding::Kind kind, const Digest& digest, const IndexAnswer& answer) {
  if (report_.findings.size() == kMaxIndexFindings) return;
  report_.findings.push_back({kind, {digest, answer.length_bytes, answer.locator}});
}

void IndexCheck::Count(State state, const Digest& digest, const IndexAnswer& answer) {
  switch (state) {
    case State::kKnown:
      ++report_.known_count;
      return;
    case State::kUnverified:
      ++report_.unverified_count;
      return;
    case State::kMissing:
      ++(condemned_.contains(digest) ? report_.condemned_count : report_.missing_count);
      return;
    case State::kElsewhere:
      ++report_.elsewhere_count;
      return Report(IndexFinding::Kind::kElsewhere, digest, answer);
    case State::kWrongLength:
      ++report_.wrong_length_count;
      return Report(IndexFinding::Kind::kWrongLength, digest, answer);
    case State::kGone:
      ++report_.gone_count;
      return Report(IndexFinding::Kind::kGone, digest, answer);
    case State::kOutdated:
      ++report_.outdated_count;
      return;
    case State::kNowhere:
      return;
  }
}

// An agent publishes a pack before it commits what is in it, and a collection raises the store's
// epoch, and has the index forget, before it deletes a pack. So of an answer that is asked for
// between two looks at the packs: if it names a pack that neither look has seen, and the epoch is
// the same before and after, then no collection has deleted the pack in between, and the index
// should have forgotten it long ago.
// On the store's side what is not in it any more is nobody's; on the index's side what is in the
// store by now.
absl::Status IndexCheck::Decide(Side side, std::span<const Digest> suspects) {
  std::vector<Digest> left(suspects.begin(), suspects.end());
  for (int round = 0; round < kMaxRounds && !left.empty(); ++round) {
    KERF_ASSIGN_OR_RETURN(guard_, CollectionGuard::Begin(store_));
    KERF_RETURN_IF_ERROR(packs_.Refresh());
    condemned_ = guard_.Condemned(packs_);
    std::vector<bool> was_there;
    was_there.reserve(left.size());
    for (const Digest& digest : left) was_there.push_back(packs_.Contains(digest));
    KERF_ASSIGN_OR_RETURN(const std::vector<IndexAnswer> answers,
                          index_.Lookup(guard_.epoch(), left));
    KERF_RETURN_IF_ERROR(packs_.Refresh());
    KERF_ASSIGN_OR_RETURN(const std::uint64_t epoch, store_.ReadEpoch());
    std::vector<Digest> again;
    for (std::size_t at = 0; at < left.size(); ++at) {
      const bool is_there = packs_.Contains(left[at]);
      const State state = StateOf(left[at], answers[at]);
      const bool is_sound = state == State::kKnown || state == State::kNowhere;
      if (!is_sound && (epoch != guard_.epoch() || is_there != was_there[at])) {
        again.push_back(left[at]);
      } else if (is_there == (side == Side::kStore)) {
        Count(state, left[at], answers[at]);
      }
    }
    left = std::move(again);
  }
  report_.undecided_count += left.size();
  return absl::OkStatus();
}

absl::Status IndexCheck::LookUp(std::span<const Digest> digests, std::vector<Digest>& suspects) {
  KERF_RETURN_IF_ERROR(Progress());
  if (digests.empty()) return absl::OkStatus();
  KERF_ASSIGN_OR_RETURN(const std::vector<IndexAnswer> answers,
                        index_.Lookup(guard_.epoch(), digests));
  for (std::size_t at = 0; at < digests.size(); ++at) {
    const State state = StateOf(digests[at], answers[at]);
    if (state == State::kKnown || state == State::kUnverified) {
      Count(state, digests[at], answers[at]);
    } else {
      suspects.push_back(digests[at]);
    }
  }
  progress_.done_count += digests.size();
  return absl::OkStatus();
}

absl::Status IndexCheck::LookUpChunks() {
  const auto packs = packs_.packs();
  for (const auto& pack : packs) progress_.total_count += pack->footer.chunks.size();
  std::vector<Digest> batch;
  std::vector<Digest> suspects;
  for (const auto& pack : packs) {
    const std::vector<PackChunk>& chunks = pack->footer.chunks;
    for (std::uint32_t chunk_index = 0; chunk_index < chunks.size(); ++chunk_index) {
      // Of several copies the store's index gives one.
      const auto place = packs_.Locate(chunks[chunk_index].digest);
      if (!place.has_value() || place->pack != pack || place->chunk_index != chunk_index) {
        --progress_.total_count;
        continue;
      }
      batch.push_back(chunks[chunk_index].digest);
      if (batch.size() < kMaxIndexBatch) continue;
      KERF_RETURN_IF_ERROR(LookUp(batch, suspects));
      batch.clear();
    }
  }
  KERF_RETURN_IF_ERROR(LookUp(batch, suspects));
  // Last: what was on its way has had the most time to arrive.
  for (std::size_t begin = 0; begin < suspects.size(); begin += kMaxIndexBatch) {
    KERF_RETURN_IF_ERROR(Progress());
    KERF_RETURN_IF_ERROR(Decide(
        Side::kStore,
        std::span(suspects).subspan(begin, std::min(kMaxIndexBatch, suspects.size() - begin))));
  }
  return absl::OkStatus();
}

absl::Status IndexCheck::ScanEntries() {
  progress_ = {.is_scanning = true};
  std::optional<Digest> after;
  while (true) {
    KERF_RETURN_IF_ERROR(Progress());
    KERF_ASSIGN_OR_RETURN(const std::vector<StoredChunk> page, index_.ScanPage(after));
    if (page.empty()) return absl::OkStatus();
    std::vector<Digest> suspects;
    for (const StoredChunk& entry : page) {
      if (!packs_.Contains(entry.digest)) suspects.push_back(entry.digest);
    }
    KERF_RETURN_IF_ERROR(Decide(Side::kIndex, suspects));
    after = page.back().digest;
    report_.entry_count += page.size();
    progress_.done_count = report_.entry_count;
  }
}

absl::StatusOr<IndexCheckReport> IndexCheck::Run() {
  KERF_ASSIGN_OR_RETURN(report_.index_epoch, index_.ReadEpoch());
  KERF_ASSIGN_OR_RETURN(guard_, CollectionGuard::Begin(store_));
  KERF_RETURN_IF_ERROR(packs_.Refresh());
  KERF_RETURN_IF_ERROR(LookUpChunks());
  KERF_RETURN_IF_ERROR(ScanEntries());
  KERF_ASSIGN_OR_RETURN(report_.store_epoch, store_.ReadEpoch());
  report_.chunk_count = report_.known_count + report_.unverified_count + report_.missing_count +
                        report_.condemned_count + report_.elsewhere_count +
                        report_.wrong_length_count;
  report_.damaged_pack_count = packs_.damaged().size();
  return std::move(report_);
}

}  // namespace

absl::StatusOr<IndexCheckReport> CheckIndex(const Store& store, ReadableIndex& index,
                                            const IndexCheckOptions& options) {
  return IndexCheck(store, index, options).Run();
}

}  // namespace kerf::agent
