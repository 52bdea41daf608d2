#include "server/worker/cut_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace kerf {

CutBuffer::CutBuffer(const Chunker* chunker, std::size_t capacity_bytes, BufferPool* pool,
                     const std::optional<HintedCutting>& hinted)
    : hints_(hinted ? hinted->hints : nullptr),
      digest_algorithm_(hinted ? hinted->digest_algorithm : DigestAlgorithm::kBlake3),
      chunker_(chunker),
      max_chunk_bytes_(chunker->max_chunk_bytes()),
      capacity_bytes_(capacity_bytes),
      pool_(pool) {
  KERF_CHECK(capacity_bytes_ / 2 >= max_chunk_bytes_);
  if (!hinted) return;
  RapidSettings settings;
  settings.digest_algorithm = digest_algorithm_;
  settings.criterion = hinted->profile.criterion;
  rapid_ =
      std::make_unique<RapidCutter>(chunker, hinted->profile.rule, std::move(settings), hints_);
}

CutBuffer::~CutBuffer() {
  if (buffer_ != nullptr) pool_->Give(std::move(buffer_), capacity_bytes_);
}

void CutBuffer::BeginFile(std::uint64_t file_number, std::uint64_t start_offset) {
  KERF_CHECK(uncut_ == end_ && !follows_hints_);
  in_file_ = is_at_begin_ = true;
  file_number_ = file_number;
  uncut_offset_ = start_offset;
  unhashed_ = end_;
  hash_begun_ = false;
}

std::size_t CutBuffer::Append(Bytes bytes) {
  if (buffer_ == nullptr) TakeBuffer();
  const std::size_t count = std::min(bytes.size(), capacity_bytes_ - end_);
  if (count > 0) std::memcpy(buffer_.get() + end_, bytes.data(), count);
  end_ += count;
  return count;
}

void CutBuffer::CutOne(std::size_t window_bytes) {
  const Bytes window(base() + uncut_, window_bytes);
  const std::size_t length = chunker_->NextCut(window);
  KERF_CHECK(length > 0 && length <= window_bytes);
  AddChunk(length, std::nullopt);
}

void CutBuffer::AddChunk(std::size_t length, const std::optional<Digest>& digest) {
  const Bytes bytes(base() + uncut_, length);
  uncut_ += length;
  uncut_offset_ += length;
  plainly_cut_bytes_ += length;
  is_at_begin_ = false;
  chunks_.push_back(
      {.file_number = file_number_, .end_offset = uncut_offset_, .bytes = bytes, .digest = digest});
}

void CutBuffer::Take(const cuda::PieceCuts& cuts) {
  KERF_CHECK(!follows_hints_ && cuts.size_bytes() <= uncut_bytes());
  for (const cuda::PieceChunk& chunk : cuts.chunks) AddChunk(chunk.size_bytes, chunk.digest);
}

void CutBuffer::CutAlongHints(bool is_end) {
  const Bytes window(base() + uncut_, end_ - uncut_);
  hinted_chunks_.clear();
  std::size_t begin = 0;
  rapid_->Cut(window, is_end, &hinted_chunks_);
  for (const RapidChunk& chunk : hinted_chunks_) {
    uncut_offset_ += chunk.length_bytes;
    chunks_.push_back({.file_number = file_number_,
                       .end_offset = uncut_offset_,
                       .bytes = window.subspan(begin, chunk.length_bytes),
                       .digest = chunk.digest});
    begin += chunk.length_bytes;
    unknown_in_a_row_ = chunk.was_scanned ? unknown_in_a_row_ + 1 : 0;
  }
  uncut_ += begin;
  if (unknown_in_a_row_ >= kMaxUnknownChunks) LeaveHints();
}

// What they refer to goes with them.
void CutBuffer::LeaveHints() {
  if (std::exchange(follows_hints_, false)) rapid_->BeginFile();
}

// The first chunk of a file, which is scanned in any case, may have come before. Short files are
// not looked for: their chunks are fingerprinted together with those of others.
void CutBuffer::LookForHint() {
  CutOne(end_ - uncut_);
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
  if (rapid_ != nullptr && is_at_begin_ && end_ - uncut_ >= max_chunk_bytes_) LookForHint();
  if (follows_hints_) {
    CutAlongHints(false);
    if (follows_hints_) return;
  }
  while (end_ - uncut_ >= max_chunk_bytes_) CutOne(end_ - uncut_);
}

void CutBuffer::HashUpToEnd() {
  if (hash_ == nullptr) hash_ = std::make_unique<Xxh3Stream>();
  if (!std::exchange(hash_begun_, true)) hash_->Reset();
  if (end_ > unhashed_) hash_->Update({base() + unhashed_, end_ - unhashed_});
  unhashed_ = end_;
}

ContentHash CutBuffer::EndFile() {
  // A parked rest is cut where it is: the end of a file needs no buffer.
  if (follows_hints_ && uncut_ < end_) CutAlongHints(true);
  LeaveHints();
  in_file_ = false;
  while (uncut_ < end_) CutOne(end_ - uncut_);
  ContentHash result;
  if (hash_begun_) {
    HashUpToEnd();
    result = hash_->Digest();
  } else {
    result = Xxh3Of128(end_ == unhashed_ ? Bytes() : Bytes(base() + unhashed_, end_ - unhashed_));
  }
  unhashed_ = end_;
  if (!chunks_.empty() && chunks_.back().file_number == file_number_) {
    chunks_.back().ends_file = true;
  }
  return result;
}

void CutBuffer::AbandonFile() {
  uncut_ = unhashed_ = end_;
  LeaveHints();
  in_file_ = false;
}

void CutBuffer::ClearChunks() {
  chunks_.clear();
  if (buffer_ != nullptr) DropParked();
}

void CutBuffer::Compact() {
  KERF_CHECK(chunks_.empty());
  if (unhashed_ < end_) HashUpToEnd();
  const std::size_t rest = end_ - uncut_;
  if (uncut_ > 0 && rest > 0) std::memmove(base(), base() + uncut_, rest);
  uncut_ = 0;
  unhashed_ = end_ = rest;
  if (end_ == 0) DropParked();
}

void CutBuffer::Park() {
  Compact();
  if (chunks_.capacity() > kKeptChunks) chunks_ = {};
  if (hinted_chunks_.capacity() > kKeptChunks) hinted_chunks_ = {};
  if (buffer_ == nullptr) return;
  if (end_ > 0) {
    parked_ = std::make_unique_for_overwrite<std::uint8_t[]>(end_);
    parked_bytes_ = end_;
    std::memcpy(parked_.get(), buffer_.get(), end_);
  }
  pool_->Give(std::move(buffer_), capacity_bytes_);
}

// Chunks that were cut where they were parked stay there until they are answered.
void CutBuffer::TakeBuffer() {
  buffer_ = pool_->Take(capacity_bytes_);
  if (end_ > 0) std::memcpy(buffer_.get(), parked_.get(), end_);
  if (chunks_.empty()) DropParked();
}

void CutBuffer::DropParked() {
  parked_.reset();
  parked_bytes_ = 0;
}

}  // namespace kerf
