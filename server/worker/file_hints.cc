#include "server/worker/file_hints.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/strings.h"
#include "server/errors/errors.h"

namespace kerf {
namespace {

// Older ones lead to nothing that the newer ones do not lead to.
constexpr std::size_t kMaxDuplicates = 256;
// In a row: the index holds this file after all.
constexpr std::size_t kMinDuplicates = 16;
// Of digests that are compared once a place has been found, twice as many each time that they hold.
constexpr std::size_t kFirstStep = 8;
// That an edit at the end of a batch may have changed.
constexpr std::size_t kMaxEditedChunks = 32;

}  // namespace

bool IsWorthFollowing(const UploadProfile& profile) {
  if (profile.criterion) return true;
  switch (profile.rule.algorithm) {
    case Algorithm::kRabin:
    case Algorithm::kCrc:
    case Algorithm::kTttd:
    case Algorithm::kFastCdc:
    case Algorithm::kFastCdc2020:
      return true;
    default:
      return false;
  }
}

absl::Status CheckCriterion(const HintCache* hints, const RepositoryId& repository,
                            const UploadProfile& profile) {
  if (!profile.criterion) return absl::OkStatus();
  const std::string text = FormatUploadProfile(profile);
  if (hints == nullptr) {
    return MakeError(Reason::kCriterionNeedsHints,
                     Cat("profile ", text,
                         " accepts cuts by what was stored before, and this server keeps no hints: "
                         "start kerfd with --hint-memory 64M, as a store that was made with it "
                         "needs; a new store can do without the '+' and what stands behind it"));
  }
  if (!HintScope(repository, profile).is_useful()) {
    return MakeError(Reason::kCriterionNeedsHints,
                     Cat("profile ", text,
                         " needs digests that nobody can forge, blake3 or sha256: xxh3-128 has no "
                         "hints; make a new store with one of them, or without the '+' and what "
                         "stands behind it"));
  }
  return absl::OkStatus();
}

FileHints::FileHints(std::shared_ptr<HintCache> cache, const RepositoryId& repository,
                     const UploadProfile& profile, std::function<TimePoint()> now)
    : cache_(std::move(cache)),
      scope_(std::make_shared<const HintScope>(repository, profile)),
      now_(std::move(now)),
      view_(cache_, scope_),
      recorder_(std::in_place, cache_, scope_, kMaxRecordedBytes) {}

bool FileHints::Foresee(std::span<const Digest> digests, std::vector<LookupResult>* results) {
  Advance(digests);
  results->clear();
  if (generations_[0].verdicts.empty()) return false;
  foreseen_since_ = now_();
  const TimePoint oldest = foreseen_since_ - kMaxVerdictAge;
  for (Generation& generation : generations_) {
    if (generation.asked_at < oldest) generation.verdicts.clear();
    if (!generation.verdicts.empty()) {
      foreseen_since_ = std::min(foreseen_since_, generation.asked_at);
    }
  }
  results->resize(digests.size());
  std::size_t foreseen_count = 0;
  for (std::size_t index = 0; index < digests.size(); ++index) {
    const LookupResult* const verdict = VerdictOf(digests[index], generations_.size());
    if (verdict == nullptr || verdict->verdict != Verdict::kDuplicate) continue;
    (*results)[index] = *verdict;
    ++foreseen_count;
  }
  if (foreseen_count == 0) results->clear();
  may_ask_ = std::min(may_ask_ + kAheadForEach * foreseen_count, kMaxAhead);
  return foreseen_count == digests.size();
}

void FileHints::Advance(std::span<const Digest> digests) {
  if (!cursor_) return;
  if (expected_.size() < digests.size()) {
    cache_->AppendFollowing(*scope_, digests.size() - expected_.size(), &*cursor_, &expected_);
  }
  const bool is_as_expected = expected_.size() >= digests.size() &&
                              std::equal(digests.begin(), digests.end(), expected_.begin());
  const std::size_t passed_count = is_as_expected ? digests.size() : FindEdited(digests);
  if (passed_count > 0) {
    expected_.erase(expected_.begin(),
                    expected_.begin() + static_cast<std::ptrdiff_t>(passed_count));
  } else {
    expected_.clear();
    cursor_.reset();
  }
}

// An edit changes a chunk or two, and all behind it is as it was: one of the last that have come is
// expected, unless they come from elsewhere.
std::size_t FileHints::FindEdited(std::span<const Digest> digests) const {
  const std::span<const Digest> near =
      std::span(expected_).first(std::min(expected_.size(), 2 * digests.size()));
  const std::size_t least = digests.size() - std::min(digests.size(), kMaxEditedChunks);
  for (std::size_t count = digests.size(); count > least; --count) {
    std::size_t longest = 0;
    std::size_t passed_count = 0;
    for (std::size_t place = 0; place < near.size(); ++place) {
      if (near[place] != digests[count - 1]) continue;
      const auto [end, unused] =
          std::mismatch(digests.rend() - static_cast<std::ptrdiff_t>(count), digests.rend(),
                        near.rend() - static_cast<std::ptrdiff_t>(place + 1), near.rend());
      const auto length =
          static_cast<std::size_t>(end - (digests.rend() - static_cast<std::ptrdiff_t>(count)));
      if (length <= longest) continue;
      longest = length;
      passed_count = place + 1;
    }
    if (passed_count > 0) return passed_count;
  }
  return 0;
}

// Where a file repeats itself the last digest alone would often lead to another copy of what it
// stands in: the place is that which the chunks in front of it lead to.
void FileHints::FindPlace(std::span<const Digest> digests) {
  expected_.clear();
  cursor_.reset();
  std::size_t next = 0;
  std::size_t step = kFirstStep;
  for (const Digest& digest : digests) {
    if (cursor_ && next == expected_.size()) {
      expected_.clear();
      next = 0;
      cache_->AppendFollowing(*scope_, step, &*cursor_, &expected_);
      step *= 2;
    }
    if (next < expected_.size() && expected_[next] == digest) {
      ++next;
      continue;
    }
    expected_.clear();
    next = 0;
    step = kFirstStep;
    cursor_ = cache_->CursorAt(*scope_, digest);
  }
  expected_.erase(expected_.begin(), expected_.begin() + static_cast<std::ptrdiff_t>(next));
}

const LookupResult* FileHints::VerdictOf(const Digest& digest, std::size_t generation_count) const {
  for (const Generation& generation : std::span(generations_).first(generation_count)) {
    const auto found = generation.verdicts.find(digest);
    if (found != generation.verdicts.end()) return &found->second;
  }
  return nullptr;
}

bool FileHints::is_known_file() const { return in_file_ && duplicates_.size() >= kMinDuplicates; }

void FileHints::AppendAhead(bool is_followed, std::span<const Digest> digests,
                            std::vector<Digest>* asked) {
  if (!is_followed) may_ask_ = std::min(may_ask_, kMinAhead);
  if (!is_followed || may_ask_ == 0 || digests.empty() || !recorder_) return;
  asked_at_ = now_();
  if (!cursor_) FindPlace(digests);
  if (!cursor_) return;
  if (expected_.size() < kMaxAhead) {
    cache_->AppendFollowing(*scope_, kMaxAhead - expected_.size(), &*cursor_, &expected_);
  }
  // For the next question.
  cache_->WantFollowing(scope_, cursor_->id);
  if (has_enough()) return;
  const std::size_t batch_count = asked->size();
  AppendUnknown(generations_.size(), asked);
  if (generations_[0].verdicts.size() + asked->size() - batch_count > kMaxAhead) {
    // When these are answered the older generation goes, and with it what it says of the window.
    asked->resize(batch_count);
    AppendUnknown(1, asked);
  }
  may_ask_ -= asked->size() - batch_count;
}

bool FileHints::has_enough() const {
  return expected_.size() >= kEnoughAhead &&
         std::ranges::all_of(std::span(expected_).first(kEnoughAhead),
                             [this](const Digest& digest) {
                               return VerdictOf(digest, generations_.size()) != nullptr;
                             });
}

void FileHints::AppendUnknown(std::size_t generation_count, std::vector<Digest>* asked) const {
  absl::flat_hash_set<Digest, SeededDigestHash> seen;
  for (const Digest& digest : std::span(expected_).first(std::min(expected_.size(), kMaxAhead))) {
    if (seen.size() == may_ask_) return;
    if (VerdictOf(digest, generation_count) != nullptr) continue;
    if (seen.insert(digest).second) asked->push_back(digest);
  }
}

void FileHints::LearnAhead(std::span<const Digest> digests, std::span<LookupResult> results) {
  asked_ahead_count_ += digests.size();
  if (generations_[0].verdicts.size() + digests.size() > kMaxAhead) {
    generations_[1] = std::exchange(generations_[0], Generation());
  }
  auto& [verdicts, oldest_asked_at] = generations_[0];
  if (verdicts.empty()) oldest_asked_at = asked_at_;
  std::size_t known_count = 0;
  for (std::size_t index = 0; index < digests.size(); ++index) {
    if (results[index].verdict == Verdict::kDuplicate) {
      ++known_count;
    } else {
      results[index] = LookupResult();
    }
    verdicts.insert_or_assign(digests[index], std::move(results[index]));
  }
  if (known_count == 0) may_ask_ = 0;
}

void FileHints::Answered(const CutChunk& chunk, const Digest& digest, Verdict verdict) {
  const std::uint64_t begin_offset = chunk.end_offset - chunk.bytes.size();
  if (!in_file_ || chunk.file_number != file_number_) {
    FileAbandoned();
    in_file_ = true;
    file_number_ = chunk.file_number;
    if (recorder_) recorder_->BeginFile(file_number_, begin_offset);
    duplicates_.clear();
    run_length_ = 0;
    begins_file_ = true;
    last_digest_.reset();
  }
  Record(chunk, digest);
  if (verdict != Verdict::kDuplicate) {
    duplicates_.clear();
    begins_file_ = false;
  } else if (duplicates_.size() == kMaxDuplicates) {
    duplicates_.erase(duplicates_.begin(), duplicates_.begin() + kMaxDuplicates / 2);
    begins_file_ = false;
  }
  run_length_ = verdict == Verdict::kDuplicate ? run_length_ + 1 : 0;
  if (verdict == Verdict::kDuplicate) duplicates_.push_back(digest);
  if (run_length_ == kMinDuplicates) may_ask_ = std::max(may_ask_, kMinAhead);
  if (run_length_ > kMinDuplicates && run_length_ % kChunksForOne == 0) {
    may_ask_ = std::max(may_ask_, std::min(may_ask_ + 1, kMinAhead));
  }
  if (chunk.ends_file) FileEnded(file_number_);
}

void FileHints::Record(const CutChunk& chunk, const Digest& digest) {
  if (!recorder_) return;
  const auto length_bytes = static_cast<std::uint32_t>(chunk.bytes.size());
  recorder_->Add({.digest = digest, .length_bytes = length_bytes, .marker = chunk.bytes.back()});
  if (!scope_->upload_profile().criterion) return;
  if (last_digest_ && !chunk.ends_file) {
    cache_->LearnNext(*scope_, *last_digest_, {length_bytes, chunk.bytes.back()});
  }
  last_digest_ = digest;
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
  DropVerdicts();
  expected_ = {};
  cursor_.reset();
}

std::size_t FileHints::memory_bytes() const {
  return sizeof *this + (recorder_ ? recorder_->memory_bytes() : 0) +
         (generations_[0].verdicts.size() + generations_[1].verdicts.size()) * kVerdictBytes +
         (duplicates_.capacity() + expected_.capacity()) * sizeof(Digest);
}

}  // namespace kerf
