#include "client/agent/backup/chunk_keeper.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {

ChunkKeeper::ChunkKeeper(KnownChunks& known, DigestAlgorithm digest_algorithm)
    : known_(known),
      digest_check_(digest_algorithm),
      digest_size_bytes_(DigestSizeBytes(digest_algorithm)) {}

void ChunkKeeper::AddLane(ChunkLane& lane, PackWriter& writer, LaneContent content) {
  std::lock_guard lock(mutex_);
  lanes_[&lane].writer = &writer;
  lanes_[&lane].content = content;
}

absl::Status ChunkKeeper::Take(ChunkLane& lane, const AnsweredChunk& chunk,
                               std::span<const std::uint8_t> bytes) noexcept {
  // Of one answer there may be thousands, and a footer to be read for each.
  if (known_.is_stopped()) return absl::CancelledError("the backup has ended");
  // The writer holds what it stores against its fingerprint. Of a chunk that is stored already
  // nobody else would ever see that it was named wrongly: the snapshot would hold another chunk's
  // bytes in its place.
  if (PackWriter* const writer = WriterIfNew(lane, chunk)) return writer->Add(chunk.digest, bytes);
  return chunk.is_cut_here ? absl::OkStatus() : digest_check_.Add(chunk.digest, bytes);
}

// Where the store has the chunk. Not under the lock: a footer may have to be read.
std::optional<ChunkPlace> ChunkKeeper::FindPlace(const AnsweredChunk& chunk) {
  std::optional<ChunkPlace> place = known_.Find(chunk.digest);
  // Where the server says that it is, it may be since the list was made.
  if (!place.has_value() && chunk.verdict != v1::VERDICT_NEW) {
    place = known_.FindNamed({chunk.digest, chunk.length_bytes}, chunk.locator);
  }
  return place;
}

// Null if the chunk is stored, or on its way into a pack.
PackWriter* ChunkKeeper::WriterIfNew(ChunkLane& lane, const AnsweredChunk& chunk) {
  std::optional<ChunkPlace> place = FindPlace(chunk);
  const std::lock_guard lock(mutex_);
  ++counts_.chunks;
  counts_.bytes += chunk.length_bytes;
  // Of this run, sealed meanwhile.
  if (!place.has_value()) place = known_.Find(chunk.digest);
  if (place.has_value()) {
    if (lanes_.at(&lane).content == LaneContent::kMetadata) {
      known_.NameMetadata({chunk.digest, chunk.length_bytes}, place->locator());
    }
    if (chunk.verdict == v1::VERDICT_DUPLICATE) return nullptr;
    // One of this run's own is on its way to the index.
    const bool is_own = own_packs_.contains(place->pack->id);
    if (chunk.verdict == v1::VERDICT_NEW && !is_own) ++counts_.healed_chunks;
    AddCommit(lane, chunk.digest, place->locator(), 1);
    return nullptr;
  }
  std::vector<Waiter>& waiters = unsealed_[chunk.digest];
  const bool first = waiters.empty();
  auto waiter = std::find_if(waiters.begin(), waiters.end(),
                             [&](const Waiter& other) { return other.lane == &lane; });
  if (waiter == waiters.end()) waiter = waiters.insert(waiters.end(), {&lane});
  if (chunk.verdict == v1::VERDICT_DUPLICATE) {
    // The server may not have answered any of it as pending, so nothing counts against the lane.
    ++counts_.stale_chunks;
    // Once is enough, however often the server says it.
    if (!waiter->reported_stale) AddStale(lane, chunk);
    waiter->reported_stale = true;
  } else {
    ++waiter->answer_count;
  }
  if (!first) return nullptr;
  ++counts_.new_chunks;
  counts_.new_bytes += chunk.length_bytes;
  const LaneState& state = lanes_.at(&lane);
  if (state.content == LaneContent::kMetadata) {
    ++counts_.new_metadata_chunks;
    counts_.new_metadata_bytes += chunk.length_bytes;
  }
  return state.writer;
}

void ChunkKeeper::AddCommit(ChunkLane& lane, const Digest& digest, std::string locator,
                            std::uint64_t resolved_chunks) {
  LaneState& state = lanes_.at(&lane);
  state.commits.push_back(EntryOf(digest, std::move(locator)));
  state.resolved_chunks += resolved_chunks;
  if (state.commits.size() >= kCommitBatchEntries) SendCommits(lane, state);
}

void ChunkKeeper::AddStale(ChunkLane& lane, const AnsweredChunk& chunk) {
  LaneState& state = lanes_.at(&lane);
  state.stales.push_back(EntryOf(chunk.digest, chunk.locator));
  if (state.stales.size() >= kCommitBatchEntries) SendStales(lane, state);
}

v1::CommitEntry ChunkKeeper::EntryOf(const Digest& digest, std::string locator) const {
  v1::CommitEntry entry;
  entry.set_digest(digest.bytes.data(), digest_size_bytes_);
  entry.set_locator(std::move(locator));
  return entry;
}

void ChunkKeeper::SendStales(ChunkLane& lane, LaneState& state) {
  if (state.stales.empty()) return;
  lane.ReportStale(state.stales);
  state.stales.clear();
}

void ChunkKeeper::SendCommits(ChunkLane& lane, LaneState& state) {
  // A chunk that was called a duplicate may be committed only once it was reported.
  SendStales(lane, state);
  if (state.commits.empty()) return;
  lane.Commit(state.commits, state.resolved_chunks);
  state.commits.clear();
  state.resolved_chunks = 0;
}

void ChunkKeeper::OnSealed(SealedPack pack) {
  const PackId id = pack.id;
  const std::vector<PackChunk> chunks = pack.footer.chunks;
  std::lock_guard lock(mutex_);
  own_packs_.insert(id);
  known_.AddPack(std::move(pack));
  for (std::uint32_t index = 0; index < chunks.size(); ++index) {
    const Digest& digest = chunks[index].digest;
    const auto found = unsealed_.find(digest);
    if (found == unsealed_.end()) continue;
    for (const Waiter& waiter : found->second) {
      if (lanes_.at(waiter.lane).content == LaneContent::kMetadata) {
        known_.NameMetadata({digest, chunks[index].length_bytes}, EncodeLocator(id, index));
      }
      AddCommit(*waiter.lane, digest, EncodeLocator(id, index), waiter.answer_count);
    }
    unsealed_.erase(found);
  }
  for (auto& [lane, state] : lanes_) SendCommits(*lane, state);
}

void ChunkKeeper::SendCommits() {
  std::lock_guard lock(mutex_);
  for (auto& [lane, state] : lanes_) SendCommits(*lane, state);
}

std::size_t ChunkKeeper::unsealed_count() const {
  std::lock_guard lock(mutex_);
  return unsealed_.size();
}

ChunkCounts ChunkKeeper::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace kerf::agent
