#include "kernels/rapid/rapid_cutter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "kernels/rapid/cut_proof.h"

namespace kerf {

RapidCutter::RapidCutter(const Chunker* base, const Profile& profile, RapidSettings settings,
                         HintSource* hints)
    : base_(base),
      ahead_(base->MakeAhead()),
      profile_(profile),
      settings_(std::move(settings)),
      hints_(hints) {
  KERF_CHECK(base_->max_chunk_bytes() == profile_.max_bytes);
}

void RapidCutter::BeginFile(const Hint& first) {
  if (ahead_ != nullptr) ahead_->Forget();
  last_digest_.reset();
  tried_.clear();
  lost_run_.reset();
  resumed_in_vain_ = 0;
  unknown_in_a_row_ = 0;
  batch_ = scan_batch_ = 1;
  UseHint(first);
}

std::size_t RapidCutter::ScanFor(Bytes bytes) {
  return ahead_ != nullptr ? ahead_->NextCut(bytes) : base_->NextCut(bytes);
}

// To prove a cut of an extremum is to look at all that is behind it: so often as a file has chunks
// that is no cheaper than what the rule reads.
bool RapidCutter::Proves(Bytes bytes, std::size_t length) {
  if (ahead_ == nullptr) return ProvesCut(*base_, profile_, bytes, length);
  if (ahead_->is_ahead()) return ahead_->NextCut(bytes) == length;
  ahead_->Charge(std::min<std::size_t>(bytes.size(), profile_.max_bytes), length);
  return ProvesCut(*base_, profile_, bytes, length);
}

void RapidCutter::Pass(std::size_t length) {
  if (ahead_ != nullptr) ahead_->Pass(length);
}

std::size_t RapidCutter::Cut(Bytes bytes, bool is_end, Chunks* chunks) {
  std::size_t done = 0;
  while (done < bytes.size() && (is_end || bytes.size() - done >= window_bytes())) {
    const Rest rest{bytes.subspan(done), is_end};
    std::size_t cut =
        settings_.criterion ? StepAlongRunByCriterion(rest, chunks) : StepAlongRun(rest, chunks);
    if (cut == 0) cut = StepBySizes(rest, chunks);
    if (cut != 0) Pass(cut);
    if (cut == 0) cut = Scan(rest, chunks);
    done += cut;
  }
  return done;
}

// A run by which digests or lengths mean something else predicts nothing, and in exact mode one
// that vouches for nothing is not worth its fingerprints.
bool RapidCutter::IsRunUsable(const CutRun& run) const {
  if (!settings_.criterion) return run.Vouches(profile_, settings_.digest_algorithm);
  return run.profile() == profile_ && run.digest_algorithm() == settings_.digest_algorithm;
}

void RapidCutter::UseHint(Hint hint) {
  hint_ = std::move(hint);
  if (hint_.state != Hint::State::kReady) {
    hint_.run.reset();
    hint_.next_sizes = {};
  }
  if (hint_.run != nullptr &&
      (hint_.next_index >= hint_.run->chunks().size() || !IsRunUsable(*hint_.run))) {
    hint_.run.reset();
  }
  is_fresh_ = true;
  is_resumed_ = false;
  matched_ = 0;
  matched_bytes_ = 0;
  is_broken_ = false;
}

void RapidCutter::Ask() { TakeAnswer(hints_->Find(*last_digest_)); }

void RapidCutter::TakeAnswer(Hint hint) {
  UseHint(std::move(hint));
  if (hint_.state == Hint::State::kLate) {
    ++counters_.hints_late;
  } else if (hint_.run == nullptr && hint_.next_sizes.empty()) {
    ++counters_.hints_absent;
  }
}

void RapidCutter::LeaveRun() {
  ++counters_.hints_rejected;
  batch_ = 1;
  if (is_fresh_) {
    hint_.run.reset();
  } else {
    Ask();
    // It would lead to the same place.
    hint_.run.reset();
  }
  matched_ = 0;
  matched_bytes_ = 0;
  is_broken_ = false;
}

bool RapidCutter::Fits(const Rest& rest, std::size_t offset, std::size_t run_index) const {
  const std::size_t length = hint_.run->chunks()[run_index].length_bytes;
  if (length > profile_.max_bytes || length > rest.bytes.size() - offset) return false;
  // The end of a file is none where the data goes on.
  return !hint_.run->EndedByEof(run_index) || (rest.is_end && offset + length == rest.bytes.size());
}

bool RapidCutter::ExtendMatch(const Rest& rest) {
  if (is_broken_) return false;
  const std::span<const RunChunk> run = hint_.run->chunks();
  const std::size_t first = hint_.next_index + matched_;
  std::array<Bytes, kMaxBatchChunks>& pieces = pieces_;
  std::array<Digest, kMaxBatchChunks>& digests = digests_;
  std::size_t count = 0;
  std::size_t offset = matched_bytes_;
  while (count < batch_ && first + count < run.size() && Fits(rest, offset, first + count)) {
    const std::size_t length = run[first + count].length_bytes;
    if (count > 0 && offset + length - matched_bytes_ > kMaxBatchBytes) break;
    pieces[count++] = rest.bytes.subspan(offset, length);
    offset += length;
  }
  FingerprintAll(std::span(pieces).first(count), std::span(digests).first(count));
  std::size_t equal = 0;
  while (equal < count && digests[equal] == run[first + equal].digest) {
    matched_bytes_ += run[first + equal].length_bytes;
    ++equal;
  }
  matched_ += equal;
  is_broken_ = equal < count;
  if (is_broken_ && matched_ == 0) tried_.emplace_back(pieces[equal].size(), digests[equal]);
  batch_ = is_broken_ ? 1 : std::min(2 * batch_, kMaxBatchChunks);
  return equal > 0;
}

bool RapidCutter::IsCovered(const Rest& rest) const {
  if (matched_ == 0) return false;
  return matched_bytes_ >= profile_.max_bytes || IsCoveredByEnd(rest);
}

bool RapidCutter::IsCoveredByEnd(const Rest& rest) const {
  return matched_ > 0 && rest.is_end && matched_bytes_ == rest.bytes.size() &&
         hint_.run->EndedByEof(hint_.next_index + matched_ - 1);
}

std::size_t RapidCutter::StepAlongRun(const Rest& rest, Chunks* chunks) {
  if (hint_.run == nullptr) return 0;
  while (!IsCovered(rest) && ExtendMatch(rest)) {
  }
  if (matched_ == 0) {
    RememberLostRun();
    LeaveRun();
    return 0;
  }
  const std::span<const RunChunk> next = hint_.run->chunks().subspan(hint_.next_index);
  if (IsCovered(rest)) {
    // What covers the first chunk may cover more of them.
    const std::size_t needed_bytes = IsCoveredByEnd(rest) ? 1 : profile_.max_bytes;
    std::size_t count = 0;
    std::size_t covering_bytes = matched_bytes_;
    while (count < matched_ && covering_bytes >= needed_bytes) {
      covering_bytes -= next[count++].length_bytes;
    }
    return TakeFromRun(count, false, chunks);
  }
  const std::size_t length = next[0].length_bytes;
  if (!hint_.run->EndedByEof(hint_.next_index) && Proves(rest.bytes, length)) {
    return TakeFromRun(1, false, chunks);
  }
  const std::size_t scanned = ScanFor(rest.bytes);
  if (scanned == length) return TakeFromRun(1, true, chunks);
  ++counters_.hints_rejected;
  batch_ = 1;
  RememberLostRun();
  Emit(scanned, FingerprintFront(rest, scanned), true, chunks);
  Ask();
  Resume(scanned);
  return scanned;
}

void RapidCutter::RememberLostRun() {
  if (resumed_in_vain_ == kMaxResumesInVain) return;
  ++resumed_in_vain_;
  lost_run_ = hint_.run;
  lost_index_ = hint_.next_index;
}

void RapidCutter::Resume(std::size_t scanned_bytes) {
  const std::shared_ptr<const CutRun> run = std::move(lost_run_);
  lost_run_.reset();
  if (run == nullptr || hint_.run != nullptr) return;
  std::size_t index = lost_index_;
  std::size_t passed_bytes = 0;
  while (index < run->chunks().size()) {
    const std::size_t length = run->chunks()[index].length_bytes;
    if (passed_bytes + length / 2 >= scanned_bytes) break;
    passed_bytes += length;
    ++index;
  }
  if (index == run->chunks().size()) return;
  hint_.run = run;
  hint_.next_index = index;
  is_resumed_ = true;
}

std::size_t RapidCutter::StepAlongRunByCriterion(const Rest& rest, Chunks* chunks) {
  if (hint_.run == nullptr) return 0;
  const std::span<const RunChunk> run = hint_.run->chunks();
  std::array<Bytes, kMaxBatchChunks>& pieces = pieces_;
  std::array<Digest, kMaxBatchChunks>& digests = digests_;
  std::size_t count = 0;
  std::size_t offset = 0;
  while (count < batch_ && hint_.next_index + count < run.size() && offset <= kMaxBatchBytes) {
    const RunChunk& chunk = run[hint_.next_index + count];
    const Bytes bytes = rest.bytes.subspan(offset);
    if (bytes.empty() || (!rest.is_end && bytes.size() < profile_.max_bytes)) break;
    if (!Fits(rest, offset, hint_.next_index + count) ||
        !AcceptsEnd(*settings_.criterion, *base_, profile_, bytes,
                    {chunk.length_bytes, chunk.marker})) {
      break;
    }
    pieces[count++] = bytes.first(chunk.length_bytes);
    offset += chunk.length_bytes;
  }
  if (count == 1) {
    digests[0] = FingerprintFront(rest, pieces[0].size());
  } else {
    FingerprintAll(std::span(pieces).first(count), std::span(digests).first(count));
  }
  std::size_t equal = 0;
  while (equal < count && digests[equal] == run[hint_.next_index + equal].digest) ++equal;
  if (equal > 0) {
    batch_ = equal < count ? 1 : std::min(2 * batch_, kMaxBatchChunks);
    const std::size_t taken_bytes = TakeFromRun(equal, false, chunks);
    // It is at the front now, and looked at once more.
    if (equal < count) tried_.emplace_back(pieces[equal].size(), digests[equal]);
    return taken_bytes;
  }
  batch_ = 1;
  if (const std::size_t cut = StepToShiftedEnd(rest, chunks); cut > 0) return cut;
  // Not the chunk that was predicted. The fingerprint test may know it all the same; a criterion
  // without that test has accepted it already, unless nobody predicted it.
  const bool needs_known = *settings_.criterion == AcceptanceCriterion::kFfRwtFpt;
  const bool is_accepted = count > 0 && !is_resumed_ &&
                           (!needs_known || hints_->Find(digests[0]).state == Hint::State::kReady);
  RememberLostRun();
  if (!is_accepted) {
    LeaveRun();
    return 0;
  }
  Emit(pieces[0].size(), digests[0], false, chunks);
  Ask();
  Resume(pieces[0].size());
  return pieces[0].size();
}

std::size_t RapidCutter::StepToShiftedEnd(const Rest& rest, Chunks* chunks) {
  // A fingerprint that must be known is not that of a changed chunk.
  const bool needs_known = *settings_.criterion == AcceptanceCriterion::kFfRwtFpt;
  if (is_resumed_ || needs_known || resumed_in_vain_ == kMaxResumesInVain) return 0;
  if (!CutsShiftWithBytes(profile_) || hint_.run->EndedByEof(hint_.next_index)) return 0;
  const RunChunk& predicted = hint_.run->chunks()[hint_.next_index];
  const std::size_t skipped_bytes = kMaxShiftBytes + profile_.min_bytes;
  const std::size_t size = profile_.min_bytes + 2 * kMaxShiftBytes;
  if (predicted.length_bytes < skipped_bytes) return 0;
  const std::size_t begin = predicted.length_bytes - skipped_bytes;
  if (rest.bytes.size() < begin + size) return 0;
  // The rule tests no place in front of min.
  const std::size_t cut = base_->NextCut(rest.bytes.subspan(begin, size));
  const std::size_t length = begin + cut;
  const NextSize found{static_cast<std::uint32_t>(length), predicted.marker};
  // At max_bytes every criterion holds, and the rule asks whether it passed a cut by tttd's small
  // divisor, which lies in front of what was scanned.
  if (cut == size || length == predicted.length_bytes || length >= profile_.max_bytes ||
      !AcceptsEnd(*settings_.criterion, *base_, profile_, rest.bytes, found)) {
    return 0;
  }
  RememberLostRun();
  ++counters_.shifted_ends;
  Emit(length, FingerprintFront(rest, length), false, chunks);
  Ask();
  Resume(length);
  return length;
}

bool RapidCutter::SizeHolds(const Rest& rest, NextSize predicted, const Digest& digest,
                            std::optional<Hint>* answer) {
  if (settings_.criterion && *settings_.criterion != AcceptanceCriterion::kFfRwtFpt) return true;
  const Hint& hint = answer->emplace(hints_->Find(digest));
  if (hint.state != Hint::State::kReady) return false;
  if (settings_.criterion) return true;
  // In front of what comes next in the run stands the chunk itself.
  if (hint.run == nullptr || !IsRunUsable(*hint.run)) return false;
  const std::span<const RunChunk> run = hint.run->chunks();
  if (hint.next_index == 0 || hint.next_index > run.size()) return false;
  const std::size_t index = hint.next_index - 1;
  return run[index].digest == digest && run[index].length_bytes == predicted.length_bytes &&
         !hint.run->EndedByEof(index) && Proves(rest.bytes, predicted.length_bytes);
}

std::size_t RapidCutter::StepBySizes(const Rest& rest, Chunks* chunks) {
  // A copy: the list goes with the hint.
  const SizeList list = hint_.next_sizes;
  hint_.next_sizes = {};
  for (std::size_t position = 0; position < list.sizes().size(); ++position) {
    const NextSize predicted = list.sizes()[position];
    const AcceptanceCriterion test = settings_.criterion.value_or(AcceptanceCriterion::kFfRwtFpt);
    if (!AcceptsEnd(test, *base_, profile_, rest.bytes, predicted)) {
      ++counters_.hints_rejected;
      continue;
    }
    const std::size_t length = predicted.length_bytes;
    const Digest digest = FingerprintFront(rest, length);
    std::optional<Hint> answer;
    if (!SizeHolds(rest, predicted, digest, &answer)) {
      ++counters_.hints_rejected;
      continue;
    }
    ++counters_.hits_by_position[position];
    Emit(length, digest, false, chunks);
    if (answer) {
      TakeAnswer(*std::move(answer));
    } else {
      Ask();
    }
    return length;
  }
  return 0;
}

std::size_t RapidCutter::Scan(const Rest& rest, Chunks* chunks) {
  std::array<Bytes, kMaxBatchChunks>& pieces = pieces_;
  std::array<Digest, kMaxBatchChunks>& digests = digests_;
  std::size_t count = 0;
  std::size_t offset = 0;
  do {
    const Bytes bytes = rest.bytes.subspan(offset);
    pieces[count] = bytes.first(ScanFor(bytes));
    Pass(pieces[count].size());
    offset += pieces[count++].size();
  } while (count < scan_batch_ && offset < rest.bytes.size() && offset < kMaxBatchBytes &&
           (rest.is_end || rest.bytes.size() - offset >= profile_.max_bytes));
  digests[0] = FingerprintFront(rest, pieces[0].size());
  FingerprintAll(std::span(pieces).first(count).subspan(1),
                 std::span(digests).first(count).subspan(1));
  for (std::size_t index = 0; index < count; ++index) {
    Emit(pieces[index].size(), digests[index], true, chunks);
  }
  Ask();
  const bool is_known = hint_.state != Hint::State::kAbsent;
  unknown_in_a_row_ = is_known ? 0 : unknown_in_a_row_ + count;
  const bool is_lost = unknown_in_a_row_ >= kMinUnknownChunks;
  scan_batch_ = is_lost ? std::min(2 * scan_batch_, kMaxScanBatchChunks) : 1;
  Resume(offset);
  return offset;
}

void RapidCutter::FingerprintAll(std::span<const Bytes> pieces, std::span<Digest> digests) {
  if (pieces.empty()) return;
  for (const Bytes piece : pieces) counters_.bytes_fingerprinted += piece.size();
  if (settings_.fingerprint) {
    settings_.fingerprint(pieces, digests);
  } else {
    FingerprintMany(settings_.digest_algorithm, pieces, digests);
  }
}

Digest RapidCutter::FingerprintFront(const Rest& rest, std::size_t length) {
  for (const auto& [tried_length, digest] : tried_) {
    if (tried_length == length) return digest;
  }
  const Bytes piece = rest.bytes.first(length);
  Digest digest;
  FingerprintAll(std::span(&piece, 1), std::span(&digest, 1));
  tried_.emplace_back(length, digest);
  return digest;
}

void RapidCutter::Emit(std::size_t length, const Digest& digest, bool was_scanned, Chunks* chunks) {
  chunks->push_back({length, digest, was_scanned, false});
  last_digest_ = digest;
  tried_.clear();
  CountCut(1, length, was_scanned);
}

void RapidCutter::CountCut(std::size_t count, std::size_t bytes, bool was_scanned) {
  if (was_scanned) {
    counters_.bytes_scanned += bytes;
  } else {
    counters_.bytes_skipped += bytes;
    counters_.hints_accepted += count;
  }
}

std::size_t RapidCutter::TakeFromRun(std::size_t count, bool was_scanned, Chunks* chunks) {
  const std::span<const RunChunk> taken = hint_.run->chunks().subspan(hint_.next_index, count);
  std::size_t taken_bytes = 0;
  for (const RunChunk& chunk : taken) {
    chunks->push_back({chunk.length_bytes, chunk.digest, was_scanned, true});
    taken_bytes += chunk.length_bytes;
  }
  CountCut(count, taken_bytes, was_scanned);
  last_digest_ = taken.back().digest;
  tried_.clear();
  hint_.next_index += count;
  is_fresh_ = false;
  is_resumed_ = false;
  resumed_in_vain_ = 0;
  unknown_in_a_row_ = 0;
  if (matched_ > 0) {
    matched_ -= count;
    matched_bytes_ -= taken_bytes;
  }
  // Where the run ends another one may go on.
  if (hint_.next_index == hint_.run->chunks().size()) Ask();
  return taken_bytes;
}

}  // namespace kerf
