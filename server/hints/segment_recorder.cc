#include "server/hints/segment_recorder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace kerf {
namespace {

// What a stream keeps between files, so that small ones need no memory of their own; the rest goes.
constexpr std::size_t kKeptChunks = 32;
constexpr std::size_t kKeptFiles = 32;

// Neither the bits of an anchor nor those that place entries.
constexpr std::size_t kEndByte = 14;

}  // namespace

bool IsSegmentEnd(const Digest& digest) { return digest.bytes[kEndByte] == 0; }

SegmentRecorder::SegmentRecorder(std::shared_ptr<HintCache> cache,
                                 std::shared_ptr<const HintScope> scope, std::size_t max_held_bytes)
    : cache_(std::move(cache)), scope_(std::move(scope)), max_held_bytes_(max_held_bytes) {}

void SegmentRecorder::BeginFile(std::uint64_t file_number, std::uint64_t start_offset) {
  KERF_CHECK(!in_file_);
  if (!scope_->is_useful()) return;
  in_file_ = true;
  file_number_ = file_number;
  end_offset_ = start_offset;
  is_first_segment_ = true;
  files_[file_number].durable_offset = start_offset;
}

void SegmentRecorder::Add(const RunChunk& chunk) {
  if (!in_file_) return;
  // Only now: with the last chunk of a file the segment ends otherwise.
  const bool is_full = open_.size() >= kMaxSegmentChunks ||
                       (open_.size() >= kMinSegmentChunks && IsSegmentEnd(open_.back().digest));
  if (is_full) {
    const RunChunk last = open_.back();
    CloseOpen(false);
    open_.push_back(last);
  }
  open_.push_back(chunk);
  end_offset_ += chunk.length_bytes;
}

void SegmentRecorder::EndFile() {
  if (!in_file_) return;
  const bool is_worth_it = closed_.has_value() || open_.size() >= kMinRecordedChunks;
  if (is_worth_it && !open_.empty()) CloseOpen(true);
  AbandonFile();
}

void SegmentRecorder::AbandonFile() {
  if (!in_file_) return;
  FinishClosed(std::nullopt);
  open_.clear();
  // Assigning an empty list would keep the memory.
  if (open_.capacity() > kKeptChunks) std::vector<RunChunk>().swap(open_);
  in_file_ = false;
  const auto file = files_.find(file_number_);
  if (file != files_.end() && file->second.waiting.empty()) Erase(file);
}

void SegmentRecorder::Erase(absl::flat_hash_map<std::uint64_t, File>::iterator file) {
  files_.erase(file);
  if (files_.empty() && files_.capacity() > kKeptFiles) files_ = decltype(files_)();
}

void SegmentRecorder::CloseOpen(bool ended_by_eof) {
  Closed closed;
  closed.end_offset = end_offset_;
  closed.ended_by_eof = ended_by_eof;
  closed.begins_file = is_first_segment_;
  closed.known = cache_->FindSame(*scope_, open_, ended_by_eof);
  if (closed.known.has_value()) {
    closed.id = closed.known->id;
  } else {
    closed.sealed_run = Seal(RunOf(open_, ended_by_eof));
    closed.id = Segment{std::nullopt, 0, closed.sealed_run}.id();
  }
  // Just as long as they are: they may stay in the cache for long.
  closed.chunks.assign(open_.begin(), open_.end());
  open_.clear();
  is_first_segment_ = false;
  FinishClosed(closed.id);
  closed_ = std::move(closed);
}

void SegmentRecorder::FinishClosed(const std::optional<SegmentId>& next) {
  if (!closed_.has_value()) return;
  Closed closed = *std::exchange(closed_, std::nullopt);
  const std::optional<HintCache::Known>& known = closed.known;
  if (known.has_value() && known->is_fresh && known->next == next) return;
  File& file = files_[file_number_];
  Waiting waiting;
  waiting.end_offset = closed.end_offset;
  waiting.segment.next = next;
  waiting.segment.anchors = AnchorsOf(closed.chunks, closed.begins_file);
  waiting.segment.run =
      std::make_shared<const CutRun>(RunOf(std::move(closed.chunks), closed.ended_by_eof));
  waiting.segment.sealed_run = std::move(closed.sealed_run);
  if (known.has_value()) {
    waiting.segment.sealed_run = Seal(*waiting.segment.run);
  }
  const std::size_t cost = CostOf(waiting);
  const bool is_committed = waiting.end_offset <= file.durable_offset;
  if (!is_committed && waiting_bytes_ + cost > max_held_bytes_) {
    ++dropped_count_;
    return;
  }
  waiting_bytes_ += cost;
  file.waiting.push_back(std::move(waiting));
  Release(file.durable_offset, file.waiting);
}

void SegmentRecorder::Committed(std::uint64_t file_number, std::uint64_t durable_offset) {
  const auto found = files_.find(file_number);
  if (found == files_.end()) return;
  found->second.durable_offset = std::max(found->second.durable_offset, durable_offset);
  Release(found->second.durable_offset, found->second.waiting);
  const bool is_in_hand = in_file_ && file_number == file_number_;
  if (!is_in_hand && found->second.waiting.empty()) Erase(found);
}

void SegmentRecorder::Done(std::uint64_t file_number) {
  Committed(file_number, std::numeric_limits<std::uint64_t>::max());
}

std::size_t SegmentRecorder::memory_bytes() const {
  std::size_t bytes = open_.capacity() * sizeof(RunChunk) + waiting_bytes_ +
                      files_.capacity() * (sizeof(File) + sizeof(std::uint64_t));
  if (closed_.has_value()) {
    bytes += closed_->chunks.capacity() * sizeof(RunChunk) + closed_->sealed_run.capacity();
  }
  return bytes;
}

void SegmentRecorder::Release(std::uint64_t durable_offset, std::vector<Waiting>& waiting) {
  std::vector<HintCache::NewSegment> ready;
  std::size_t count = 0;
  while (count < waiting.size() && waiting[count].end_offset <= durable_offset) {
    waiting_bytes_ -= CostOf(waiting[count]);
    ready.push_back(std::move(waiting[count].segment));
    ++count;
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
  cache_->Keep(scope_, std::move(ready));
}

CutRun SegmentRecorder::RunOf(std::vector<RunChunk> chunks, bool ended_by_eof) const {
  const auto make = scope_->upload_profile().criterion ? CutRun::OfHearsay : CutRun::OfExactCuts;
  return make(scope_->profile(), scope_->digest_algorithm(), std::move(chunks), ended_by_eof);
}

std::vector<std::uint8_t> SegmentRecorder::Seal(const CutRun& run) const {
  return SealRun(cache_->key(), scope_->repository(), run, scope_->upload_profile().criterion);
}

std::size_t SegmentRecorder::CostOf(const Waiting& waiting) {
  return sizeof waiting + sizeof(CutRun) + waiting.segment.run->chunks().size() * sizeof(RunChunk) +
         waiting.segment.sealed_run.capacity() +
         waiting.segment.anchors.capacity() * sizeof(Digest);
}

}  // namespace kerf
