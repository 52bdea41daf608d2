#include "client/lab/bench/rapid/local_index.h"

#include <algorithm>
#include <utility>

namespace kerf::bench {

Hint LocalIndex::Find(const Digest& digest) {
  const auto found = places_.find(digest);
  if (found == places_.end()) return {};
  const Entry& entry = entries_[found->second];
  return {Hint::State::kReady, entry.next_sizes, entry.run, entry.next_index};
}

std::uint32_t LocalIndex::EntryOf(const Digest& digest) {
  const auto [place, is_new] =
      places_.try_emplace(digest, static_cast<std::uint32_t>(entries_.size()));
  if (is_new) entries_.emplace_back();
  return place->second;
}

std::shared_ptr<const CutRun> LocalIndex::MakeRun(std::vector<RunChunk> chunks,
                                                  bool ended_by_eof) const {
  const auto make = settings_.is_exact ? CutRun::OfExactCuts : CutRun::OfHearsay;
  return std::make_shared<const CutRun>(
      make(settings_.profile, settings_.digest, std::move(chunks), ended_by_eof));
}

void LocalIndex::Record(Bytes bytes, std::span<const RapidChunk> chunks, bool is_end) {
  if (chunks.empty()) return;
  std::vector<RunChunk> found;
  found.reserve(chunks.size());
  std::size_t end = 0;
  for (const RapidChunk& chunk : chunks) {
    end += chunk.length_bytes;
    found.push_back({chunk.digest, static_cast<std::uint32_t>(chunk.length_bytes), bytes[end - 1]});
  }
  if (settings_.hints == HintKind::kSizes) {
    RecordSizes(found, is_end);
  } else {
    RecordRuns(chunks, found, is_end);
  }
  last_ = found.back();
  has_last_ = true;
}

// What the end of a file cut is no prediction, and nobody vouches for it.
void LocalIndex::RecordSizes(std::span<const RunChunk> chunks, bool is_end) {
  std::uint32_t before = has_last_ ? EntryOf(last_.digest) : 0;
  bool has_before = has_last_;
  for (const RunChunk& chunk : chunks) {
    const bool ended_by_eof = is_end && &chunk == &chunks.back();
    const std::uint32_t entry = EntryOf(chunk.digest);
    if (has_before && !ended_by_eof) {
      entries_[before].next_sizes.Hit({chunk.length_bytes, chunk.marker}, settings_.list_length);
    }
    if (settings_.is_exact && !ended_by_eof && entries_[entry].run == nullptr) {
      // Of the chunk alone: that it was cut so.
      entries_[entry].run = MakeRun({chunk}, false);
      entries_[entry].next_index = 1;
    }
    before = entry;
    has_before = true;
  }
}

// A run begins with the last chunk of the one before it, whose entry leads to it. Chunks that a run
// predicted are led to by that run; where all of them are, nothing new is to be said.
void LocalIndex::RecordRuns(std::span<const RapidChunk> cut, std::span<const RunChunk> chunks,
                            bool is_end) {
  if (std::ranges::all_of(cut, &RapidChunk::is_in_run)) return;
  std::vector<RunChunk> run;
  std::vector<bool> needs_entry;
  if (has_last_) {
    run.push_back(last_);
    needs_entry.push_back(true);
  }
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    run.push_back(chunks[index]);
    needs_entry.push_back(!cut[index].is_in_run);
  }
  for (std::size_t begin = 0; begin + 1 < run.size() || begin == 0; begin += kRunChunks - 1) {
    const std::size_t end = std::min(begin + kRunChunks, run.size());
    const auto made = MakeRun({run.begin() + static_cast<std::ptrdiff_t>(begin),
                               run.begin() + static_cast<std::ptrdiff_t>(end)},
                              is_end && end == run.size());
    for (std::size_t index = begin; index < end; ++index) {
      if (index > begin && !needs_entry[index]) continue;
      Entry& entry = entries_[EntryOf(run[index].digest)];
      entry.run = made;
      entry.next_index = index - begin + 1;
    }
  }
}

}  // namespace kerf::bench
