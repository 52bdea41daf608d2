#include "server/worker/cut_buffer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kerf {

CutBuffer::CutBuffer(const Chunker* chunker, std::size_t capacity_bytes, BufferSource* buffers,
                     const std::optional<HintedCutting>& hinted)
    : hints_(hinted ? hinted->hints : nullptr),
      digest_algorithm_(hinted ? hinted->digest_algorithm : DigestAlgorithm::kBlake3),
      max_chunk_bytes_(chunker->max_chunk_bytes()),
      cutter_(*chunker, capacity_bytes, buffers) {
  if (!hinted) return;
  RapidSettings settings;
  settings.digest_algorithm = digest_algorithm_;
  settings.criterion = hinted->profile.criterion;
  rapid_ =
      std::make_unique<RapidCutter>(chunker, hinted->profile.rule, std::move(settings), hints_);
}

void CutBuffer::BeginFile(std::uint64_t file_number, std::uint64_t start_offset) {
  KERF_CHECK(!follows_hints_);
  cutter_.Begin(start_offset);
  in_file_ = is_at_begin_ = true;
  file_number_ = file_number;
  unhashed_ = cutter_.end_position();
  hash_begun_ = false;
}

std::size_t CutBuffer::Append(Bytes bytes) { return cutter_.AppendBehind(bytes); }

void CutBuffer::AddChunk(const StreamChunk& chunk, const std::optional<Digest>& digest) {
  is_at_begin_ = false;
  chunks_.push_back({.file_number = file_number_,
                     .end_offset = chunk.offset_bytes + chunk.bytes.size(),
                     .bytes = chunk.bytes,
                     .digest = digest});
}

void CutBuffer::AddPlainChunk(const StreamChunk& chunk, const std::optional<Digest>& digest) {
  plainly_cut_bytes_ += chunk.bytes.size();
  AddChunk(chunk, digest);
}

void CutBuffer::Take(const cuda::PieceCuts& cuts) {
  KERF_CHECK(!follows_hints_);
  for (const cuda::PieceChunk& chunk : cuts.chunks) {
    AddPlainChunk(cutter_.Take(chunk.size_bytes), chunk.digest);
  }
}

void CutBuffer::CutAlongHints(bool is_end) {
  hinted_chunks_.clear();
  rapid_->Cut(cutter_.pending(), is_end, &hinted_chunks_);
  for (const RapidChunk& chunk : hinted_chunks_) {
    AddChunk(cutter_.Take(chunk.length_bytes), chunk.digest);
    unknown_in_a_row_ = chunk.was_scanned ? unknown_in_a_row_ + 1 : 0;
  }
  if (unknown_in_a_row_ >= kMaxUnknownChunks) LeaveHints();
}

// What they refer to goes with them.
void CutBuffer::LeaveHints() {
  if (std::exchange(follows_hints_, false)) rapid_->BeginFile();
}

// The first chunk of a file, which is scanned in any case, may have come before. Short files are
// not looked for: their chunks are fingerprinted together with those of others.
void CutBuffer::LookForHint() {
  AddPlainChunk(*cutter_.Next());
  CutChunk& chunk = chunks_.back();
  chunk.digest = Fingerprint(digest_algorithm_, chunk.bytes);
  FollowHint(hints_->Find(*chunk.digest));
}

void CutBuffer::FollowHint(const Hint& hint) {
  if (hint.state != Hint::State::kReady) return;
  if (hint.run == nullptr && hint.next_sizes.empty()) return;
  rapid_->BeginFile(hint);
  follows_hints_ = true;
  unknown_in_a_row_ = 0;
}

RapidCounters CutBuffer::rapid_counters() const {
  RapidCounters counters;
  if (rapid_ != nullptr) counters = rapid_->counters();
  counters.bytes_scanned += plainly_cut_bytes_;
  return counters;
}

void CutBuffer::Cut() {
  if (rapid_ != nullptr && is_at_begin_ && uncut_bytes() >= max_chunk_bytes_) LookForHint();
  if (follows_hints_) {
    CutAlongHints(false);
    if (follows_hints_) return;
  }
  while (const std::optional<StreamChunk> chunk = cutter_.Next()) AddPlainChunk(*chunk);
}

void CutBuffer::HashUpToEnd() {
  if (hash_ == nullptr) hash_ = std::make_unique<Xxh3Stream>();
  if (!std::exchange(hash_begun_, true)) hash_->Reset();
  const Bytes bytes = cutter_.BytesFrom(unhashed_);
  if (!bytes.empty()) hash_->Update(bytes);
  unhashed_ = cutter_.end_position();
}

ContentHash CutBuffer::EndFile() {
  // A parked rest is cut where it is: the end of a file needs no buffer.
  if (follows_hints_ && uncut_bytes() > 0) CutAlongHints(true);
  LeaveHints();
  in_file_ = false;
  cutter_.Finish();
  while (const std::optional<StreamChunk> chunk = cutter_.Next()) AddPlainChunk(*chunk);
  ContentHash result;
  if (hash_begun_) {
    HashUpToEnd();
    result = hash_->Digest();
  } else {
    const Bytes bytes = cutter_.BytesFrom(unhashed_);
    result = Xxh3Of128(bytes.empty() ? Bytes() : bytes);
  }
  unhashed_ = cutter_.end_position();
  if (!chunks_.empty() && chunks_.back().file_number == file_number_) {
    chunks_.back().ends_file = true;
  }
  return result;
}

void CutBuffer::AbandonFile() {
  cutter_.Abandon();
  unhashed_ = cutter_.end_position();
  LeaveHints();
  in_file_ = false;
}

void CutBuffer::ClearChunks() {
  chunks_.clear();
  cutter_.Release();
}

void CutBuffer::Compact() {
  KERF_CHECK(chunks_.empty());
  if (!cutter_.BytesFrom(unhashed_).empty()) HashUpToEnd();
  cutter_.Compact();
  unhashed_ = cutter_.end_position();
}

void CutBuffer::Park() {
  Compact();
  if (chunks_.capacity() > kKeptChunks) chunks_ = {};
  if (hinted_chunks_.capacity() > kKeptChunks) hinted_chunks_ = {};
  cutter_.Park();
}

}  // namespace kerf
