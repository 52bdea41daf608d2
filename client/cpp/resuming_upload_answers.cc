// What the server answers, and the commits that follow from it.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/out_of_memory.h"
#include "client/cpp/resuming_upload.h"

namespace kerf::client {
namespace {

// Of one frame, however long messages may be (docs/spec/protocol.md, PRO-71).
constexpr std::size_t kMaxFrameBytes = std::size_t{448} * 1024;
// Around the entries of a frame, and around each: tags and lengths.
constexpr std::size_t kFrameOverheadBytes = 16;
constexpr std::size_t kEntryOverheadBytes = 4;
// Of commits that a server leaves without an answer: some 100 MB.
constexpr std::size_t kMaxUnansweredEntries = std::size_t{1} << 20;

std::optional<Digest> DigestOf(const std::string& bytes) {
  Digest digest;
  if (bytes.size() > digest.bytes.size()) return std::nullopt;
  std::memcpy(digest.bytes.data(), bytes.data(), bytes.size());
  return digest;
}

NamingLimits NamingOf(const v1::Limits& limits, const v1::Open& open) {
  return {.digest_bytes = DigestSizeBytes(static_cast<DigestAlgorithm>(open.digest_algorithm())),
          .max_frame_chunks = std::max<std::uint32_t>(limits.max_commit_entries(), 1),
          .max_named_bytes = limits.max_named_bytes(),
          .max_message_bytes = limits.max_message_bytes()};
}

}  // namespace

template <typename Listed, typename Send>
void ResumingUpload::ForEachPartLocked(Listed all, const Send& send) const {
  // Before Opened of the first stream nothing is known, and nothing to be sent.
  const std::size_t max_bytes =
      std::clamp<std::size_t>(limits_.max_message_bytes(), UploadStream::kMinMessageBytes,
                              kMaxFrameBytes) -
      kFrameOverheadBytes;
  if (static_cast<std::uint32_t>(all.entries_size()) <= limits_.max_commit_entries() &&
      all.ByteSizeLong() <= max_bytes) {
    if (!all.entries().empty()) send(std::move(all));
    return;
  }
  Listed part;
  std::size_t part_bytes = 0;
  for (v1::CommitEntry& entry : *all.mutable_entries()) {
    const std::size_t entry_bytes = entry.ByteSizeLong() + kEntryOverheadBytes;
    const bool is_full =
        part_bytes + entry_bytes > max_bytes ||
        static_cast<std::uint32_t>(part.entries_size()) >= limits_.max_commit_entries();
    if (is_full && !part.entries().empty()) {
      send(std::exchange(part, {}));
      part_bytes = 0;
    }
    part_bytes += entry_bytes;
    *part.add_entries() = std::move(entry);
  }
  if (!part.entries().empty()) send(std::move(part));
}

void ResumingUpload::Commit(v1::Commit commit) {
  std::vector<v1::CommitEntry> late;
  {
    std::lock_guard lock(mutex_);
    const bool has_lost = stream_count_ > 1;
    if (stream_ == nullptr || has_lost) {
      v1::Commit known;
      for (v1::CommitEntry& entry : *commit.mutable_entries()) {
        const std::optional<Digest> digest = DigestOf(entry.digest());
        const bool is_pending =
            stream_ != nullptr && digest.has_value() && pending_.erase(*digest) > 0;
        if (is_pending) {
          *known.add_entries() = std::move(entry);
        } else {
          late.push_back(std::move(entry));
        }
      }
      commit = std::move(known);
    }
    ForEachPartLocked(std::move(commit), [this](v1::Commit part) {
      unanswered_entries_ += static_cast<std::size_t>(part.entries_size());
      unanswered_commits_.push_back(std::move(part));
      stream_->Commit(unanswered_commits_.back());
    });
    if (unanswered_entries_ > kMaxUnansweredEntries && lost_.ok()) {
      lost_ = absl::ResourceExhaustedError("the server answers chunks, but no commits");
      stream_->Cancel();
    }
  }
  if (!late.empty() && options_.on_late_commits) options_.on_late_commits(std::move(late));
}

void ResumingUpload::ReportStale(v1::ReportStale report) {
  std::lock_guard lock(mutex_);
  // Without a stream the late commit puts the index right.
  if (stream_ == nullptr) return;
  if (stream_count_ > 1) {
    for (const v1::CommitEntry& entry : report.entries()) {
      if (const auto digest = DigestOf(entry.digest())) pending_.insert(*digest);
    }
  }
  ForEachPartLocked(std::move(report),
                    [this](const v1::ReportStale& part) { stream_->ReportStale(part); });
}

void ResumingUpload::OnAnswer(const v1::UploadAnswer& answer) {
  {
    std::lock_guard lock(mutex_);
    // Of a stream that was given up nothing counts any more.
    if (!lost_.ok() || !fatal_.ok() || cancelled_) return;
  }
  switch (answer.answer_case()) {
    case v1::UploadAnswer::kOpened:
      return OnOpened(answer);
    case v1::UploadAnswer::kChunks:
      return OnChunks(answer);
    case v1::UploadAnswer::kFileDone:
      return OnFileDone(answer);
    case v1::UploadAnswer::kCommitted:
      return OnCommitted(answer);
    case v1::UploadAnswer::kGoAway:
      // All that the server has read is answered. Its commits are left: the Index service takes
      // those that are still missing, at any server.
      return Lose(absl::UnavailableError("the server is shutting down"));
    case v1::UploadAnswer::ANSWER_NOT_SET:
      return handler_.OnAnswer(answer);
  }
}

void ResumingUpload::OnMessageEnd() { handler_.OnMessageEnd(); }

void ResumingUpload::OnEnd(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  stream_ended_ = true;
  stream_status_ = status;
  // The handler may have been left in the middle of an answer: it is given no other one.
  if (IsOutOfMemory(status)) fatal_ = status;
  changed_.notify_all();
}

absl::Status ResumingUpload::NoteOpenedLocked(const v1::Opened& opened) {
  const bool is_cut_here = opened.cutter() == v1::CUTTER_CLIENT;
  if (is_cut_here && cutter_ == nullptr) {
    return absl::InternalError("the server wants files cut that it was to cut itself");
  }
  limits_ = opened.limits();
  if (limits_.max_message_bytes() < UploadStream::kMinMessageBytes) {
    return absl::InternalError(Cat("the server takes messages of ", limits_.max_message_bytes(),
                                   " bytes; it must take at least ",
                                   UploadStream::kMinMessageBytes));
  }
  if (opened.takes_shared_data() && !has_offered_) {
    return absl::InternalError("the server takes data from memory that it was not offered");
  }
  is_cut_here_ = is_cut_here;
  // A block's bytes are said in one message.
  shares_data_ = opened.takes_shared_data() && !is_cut_here &&
                 limits_.max_named_bytes() >= options_.stream.block_bytes;
  if (is_cut_here) naming_ = NamingOf(limits_, options_.stream.open);
  return absl::OkStatus();
}

void ResumingUpload::OnOpened(const v1::UploadAnswer& answer) {
  bool is_resumed = false;
  bool is_direct = false;
  bool is_shared = false;
  {
    std::lock_guard lock(mutex_);
    if (opened_) {
      fatal_ = absl::InternalError("the server answered Open twice");
      return stream_->Cancel();
    }
    if (fatal_ = NoteOpenedLocked(answer.opened()); !fatal_.ok()) return stream_->Cancel();
    *options_.reached = true;
    worker_ = answer.opened().worker();
    ever_opened_ = true;
    is_resumed = stream_count_ > 1;
    is_direct = is_direct_;
    is_shared = shares_data_;
  }
  handler_.OnAnswer(answer);
  if (options_.on_opened) options_.on_opened(is_direct);
  if (is_cut_here_ && options_.on_cut_here) options_.on_cut_here();
  if (is_shared && options_.on_shared) options_.on_shared();
  if (is_resumed && options_.on_resumed) options_.on_resumed();
  std::lock_guard lock(mutex_);
  opened_ = true;
  changed_.notify_all();
}

void ResumingUpload::NotePending(const v1::Chunks& chunks) {
  if (stream_count_ == 1) return;
  for (const v1::Chunk& chunk : chunks.chunks()) {
    if (chunk.verdict() == v1::VERDICT_DUPLICATE) continue;
    if (const auto digest = DigestOf(chunk.digest())) pending_.insert(*digest);
  }
}

bool ResumingUpload::TakeNamed(std::uint64_t number, const v1::Chunks& chunks) {
  std::lock_guard lock(mutex_);
  File* const file = Find(number);
  if (file == nullptr) return false;
  std::uint64_t end_offset = file->answered_bytes;
  for (const v1::Chunk& chunk : chunks.chunks()) {
    if (file->named.empty()) return false;
    const LocalCutter::Chunk& named = file->named.front();
    end_offset += named.length_bytes;
    if (chunk.end_offset() != end_offset || DigestOf(chunk.digest()) != named.digest) return false;
    file->named.pop_front();
  }
  return true;
}

void ResumingUpload::OnChunks(const v1::UploadAnswer& answer) {
  std::uint64_t shift = 0;
  {
    std::lock_guard lock(mutex_);
    // Before the handler commits them.
    NotePending(answer.chunks());
    shift = number_shift_;
  }
  const std::uint64_t number = answer.chunks().file_number() + shift;
  // Nobody else compares them with what was read.
  if (is_cut_here_ && !TakeNamed(number, answer.chunks())) {
    std::lock_guard lock(mutex_);
    return DisagreeLocked(WrongAnswer(
        Cat("the server answered chunks of file ", number, " that were not named to it")));
  }
  if (shift == 0) {
    handler_.OnAnswer(answer);
  } else {
    v1::UploadAnswer shifted = answer;
    shifted.mutable_chunks()->set_file_number(number);
    handler_.OnAnswer(shifted);
  }
  if (answer.chunks().chunks().empty()) return;
  const std::uint64_t end_offset = answer.chunks().chunks().rbegin()->end_offset();
  std::unique_lock lock(mutex_);
  File* const file = Find(number);
  if (const auto taken_bytes = std::exchange(disagreed_behind_, std::nullopt)) {
    const bool is_some = file != nullptr && *taken_bytes > file->answered_bytes;
    if (is_some) NoteAnsweredLocked(*file, *taken_bytes);
    return;
  }
  // The handler has refused it, too, unless the stream before had been sent more.
  if (file == nullptr || end_offset > file->given_bytes || end_offset < file->answered_bytes) {
    lock.unlock();
    return Fail(absl::InternalError("the server answered more bytes than were sent"));
  }
  NoteAnsweredLocked(*file, end_offset);
}

void ResumingUpload::NoteAnsweredLocked(File& file, std::uint64_t end_offset) {
  unanswered_bytes_ -= end_offset - file.answered_bytes;
  file.answered_bytes = end_offset;
  while (!file.unanswered.empty() &&
         file.unanswered.front().offset + file.unanswered.front().length_bytes <= end_offset) {
    file.unanswered.pop_front();
  }
  has_answered_ = true;
  plan_.Progress();
  avoided_.clear();
  changed_.notify_all();
}

void ResumingUpload::Disagree(const absl::Status& status, std::uint64_t taken_bytes) {
  std::lock_guard lock(mutex_);
  disagreed_behind_ = taken_bytes;
  DisagreeLocked(status);
}

void ResumingUpload::DisagreeLocked(const absl::Status& status) {
  if (stream_ == nullptr || !lost_.ok() || !fatal_.ok()) return;
  (std::exchange(has_disagreed_, true) ? fatal_ : lost_) = status;
  stream_->Cancel();
}

void ResumingUpload::OnFileDone(const v1::UploadAnswer& answer) {
  v1::UploadAnswer shifted = answer;
  bool is_told = false;
  {
    std::lock_guard lock(mutex_);
    const std::uint64_t number = answer.file_done().file_number() + number_shift_;
    shifted.mutable_file_done()->set_file_number(number);
    File* const file = Find(number);
    // The handler knows it.
    is_told = file != nullptr && std::exchange(file->done_again, false);
  }
  if (!is_told) handler_.OnAnswer(shifted);
  std::lock_guard lock(mutex_);
  File* const file = Find(shifted.file_done().file_number());
  // The handler refuses one that is not complete; this stream may have been sent less of it.
  if (file == nullptr || !file->complete() || file->given_bytes < file->published_bytes) return;
  file->done = true;
  while (!files_.empty() && files_.front().done) files_.pop_front();
  // Once for each file (CLI-8, CLI-14).
  has_disagreed_ = false;
  plan_.BeginFile();
}

void ResumingUpload::OnCommitted(const v1::UploadAnswer& answer) {
  {
    std::lock_guard lock(mutex_);
    if (unanswered_commits_.empty()) {
      if (fatal_.ok()) {
        fatal_ = absl::InternalError("the server answered a commit that was not sent");
      }
      return stream_->Cancel();
    }
    unanswered_entries_ -= static_cast<std::size_t>(unanswered_commits_.front().entries_size());
    unanswered_commits_.pop_front();
  }
  handler_.OnAnswer(answer);
}

}  // namespace kerf::client
