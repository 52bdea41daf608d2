#include "server/worker/file_hints.h"

#include <algorithm>
#include <utility>

namespace kerf {
namespace {

// Older ones lead to nothing that the newer ones do not lead to.
constexpr std::size_t kMaxDuplicates = 256;
// In a row: the index holds this file after all.
constexpr std::size_t kMinDuplicates = 16;

}  // namespace

FileHints::FileHints(std::shared_ptr<HintCache> cache, const RepositoryId& repository,
                     const Profile& profile, std::function<TimePoint()> now)
    : cache_(std::move(cache)),
      scope_(std::make_shared<const HintScope>(repository, profile)),
      now_(std::move(now)),
      view_(cache_, scope_),
      recorder_(std::in_place, cache_, scope_, kMaxRecordedBytes) {}

bool FileHints::Foresee(std::span<const Digest> digests, std::vector<LookupResult>* results) {
  if (verdicts_.empty()) return false;
  if (now_() - verdicts_of_ > kMaxVerdictAge) {
    verdicts_.clear();
    return false;
  }
  results->clear();
  bool is_missing = false;
  for (const Digest& digest : digests) {
    const auto found = verdicts_.find(digest);
    if (found == verdicts_.end()) {
      is_missing = true;
      continue;
    }
    const bool is_known = found->second.verdict == Verdict::kDuplicate;
    // It is no surprise that what was asked ends somewhere.
    was_surprised_ = was_surprised_ || is_missing || !is_known;
    is_missing = is_missing || !is_known;
    results->push_back(found->second);
  }
  was_foreseen_ = was_foreseen_ || !is_missing;
  return !is_missing;
}

void FileHints::AppendAhead(bool is_followed, std::vector<Digest>* digests) {
  if (was_surprised_ || !is_followed) {
    ahead_ = std::min(ahead_, kMinAhead);
  } else if (was_foreseen_) {
    ahead_ = std::min(2 * ahead_, kMaxAhead);
  }
  was_surprised_ = was_foreseen_ = false;
  if (!is_followed || ahead_ == 0 || digests->empty()) return;
  asked_at_ = now_();
  following_.clear();
  cache_->AppendFollowing(*scope_, digests->back(), ahead_, &following_);
  for (const Digest& digest : following_) {
    if (!verdicts_.contains(digest)) digests->push_back(digest);
  }
}

void FileHints::LearnAhead(std::span<const Digest> digests, std::span<LookupResult> results) {
  asked_ahead_count_ += digests.size();
  if (verdicts_.size() + digests.size() > 2 * kMaxAhead) verdicts_.clear();
  if (verdicts_.empty()) verdicts_of_ = asked_at_;
  std::size_t known_count = 0;
  for (std::size_t index = 0; index < digests.size(); ++index) {
    if (results[index].verdict == Verdict::kDuplicate) {
      ++known_count;
    } else {
      results[index] = LookupResult();
    }
    verdicts_.insert_or_assign(digests[index], std::move(results[index]));
  }
  if (known_count == 0) ahead_ = 0;
}

void FileHints::Answered(const CutChunk& chunk, const Digest& digest, Verdict verdict) {
  const std::uint64_t begin_offset = chunk.end_offset - chunk.bytes.size();
  if (!in_file_ || chunk.file_number != file_number_) {
    FileAbandoned();
    in_file_ = true;
    file_number_ = chunk.file_number;
    if (recorder_) recorder_->BeginFile(file_number_, begin_offset);
    duplicates_.clear();
    begins_file_ = true;
  }
  end_offset_ = chunk.end_offset;
  if (recorder_) {
    recorder_->Add({.digest = digest,
                    .length_bytes = static_cast<std::uint32_t>(chunk.bytes.size()),
                    .marker = chunk.bytes.back()});
  }
  if (verdict != Verdict::kDuplicate || duplicates_.size() == kMaxDuplicates) {
    duplicates_.clear();
    begins_file_ = false;
  }
  if (verdict == Verdict::kDuplicate) duplicates_.push_back(digest);
  if (ahead_ == 0 && duplicates_.size() >= kMinDuplicates) ahead_ = kMinAhead;
  if (chunk.ends_file) FileEnded(file_number_);
}

void FileHints::FileEnded(std::uint64_t file_number) {
  if (!in_file_ || file_number != file_number_) return;
  if (recorder_) recorder_->EndFile();
  in_file_ = false;
  duplicates_.clear();
}

void FileHints::FileAbandoned() {
  if (std::exchange(in_file_, false) && recorder_) recorder_->AbandonFile();
}

void FileHints::Committed(std::uint64_t file_number, std::uint64_t durable_offset) {
  if (recorder_) recorder_->Committed(file_number, durable_offset);
}

void FileHints::Done(std::uint64_t file_number) {
  if (recorder_) recorder_->Done(file_number);
}

Hint FileHints::FindNext() {
  if (!in_file_ || duplicates_.empty()) return {};
  view_.Duplicates(duplicates_, begins_file_);
  return view_.Find(duplicates_.back());
}

void FileHints::Shed() {
  recorder_.reset();
  verdicts_ = {};
  following_ = {};
}

std::size_t FileHints::memory_bytes() const {
  return sizeof *this + (recorder_ ? recorder_->memory_bytes() : 0) +
         verdicts_.size() * kVerdictBytes + duplicates_.capacity() * sizeof(Digest);
}

}  // namespace kerf
