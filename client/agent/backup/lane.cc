#include "client/agent/backup/lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/out_of_memory.h"
#include "kernels/rapid/upload_profile.h"

namespace kerf::agent {
namespace {

// Beyond this share of a limit the writer waits and has pending chunks committed: what is on its
// way and not answered yet must fit into the rest.
constexpr std::uint64_t kPressureNumerator = 1;
constexpr std::uint64_t kPressureDenominator = 2;
// The longest that the protocol knows.
constexpr std::size_t kMaxLocatorBytes = 64;

// Chunks of what has been sent and not answered, of which memory is made for. WaitForRoom holds it
// to what the server lets be uncommitted.
constexpr std::uint64_t kMaxChunksInFlight = 16384;
// Of the longest chunks so many may be sent before a server must answer one (CLI-5).
constexpr std::uint64_t kMaxUnansweredChunks = 3;
// Beside chunks that are pending, and one for the end of each file (CLI-6).
constexpr std::uint64_t kSpareChunks = 2;
// Of the room for chunks: less than that part of it is worth no message.
constexpr std::uint64_t kMessagesOfRoom = 4;
// With less room the agent would have to seal a pack for every few chunks or files.
constexpr std::uint32_t kMinUncommittedChunks = 4096;
constexpr std::uint32_t kMinUncommittedFiles = 256;

constexpr char kOwedOpened[] = "the answer to Open";
constexpr char kOwedAnswers[] = "the chunks of what was sent";

absl::Status EndedTooEarly() {
  return absl::InternalError("the server ended the stream too early");
}

}  // namespace

Lane::Lane(Options options, ChunkTaker& taker)
    : taker_(taker),
      profile_(options.profile),
      shortest_chunk_bytes_(profile_.min_bytes),
      longest_chunk_bytes_(profile_.max_bytes),
      digest_size_bytes_(options.digest_size_bytes),
      servers_(absl::StrJoin(options.upload.servers, ", ")),
      doubt_after_(options.doubt_after),
      answer_limit_(options.answer_limit),
      on_pressure_(std::move(options.on_pressure)),
      on_index_epoch_(std::move(options.on_index_epoch)) {
  options.upload.stream.max_blocks = MaxBlocks(profile_);
  // The first answer may be there before the stream has its name: it waits for the lock.
  std::lock_guard lock(mutex_);
  stream_ = std::make_unique<client::ResumingUpload>(std::move(options.upload), *this);
}

// Few where chunks are small, but always room for three of the largest and for blocks at both ends:
// a server answers nothing before it has as much (CLI-5).
std::size_t Lane::MaxBlocks(const Profile& profile) {
  const client::UploadStream::Options options;
  const std::uint64_t min_bytes =
      kMaxUnansweredChunks * profile.max_bytes + 2 * options.block_bytes;
  const std::uint64_t max_bytes = std::max(kMaxChunksInFlight * profile.min_bytes, min_bytes);
  return std::min<std::uint64_t>(options.max_blocks, max_bytes / options.block_bytes);
}

Lane::~Lane() {
  // Until the last answer has been worked off there must be a stream.
  Stop();
}

absl::StatusOr<bool> Lane::WaitOpened(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  // It is owed since the first call.
  if (awaited_ == nullptr) Await(kOwedOpened);
  changed_.wait_for(lock, patience, [this] { return ended_ || opened_; });
  if (opened_) NothingAwaited();
  if (ended_ && !failure_.ok()) return failure_;
  if (ended_ && !opened_) return EndedTooEarly();
  return opened_;
}

bool Lane::opened() const {
  std::lock_guard lock(mutex_);
  return opened_;
}

bool Lane::GiveUpUnopened() {
  {
    std::lock_guard lock(mutex_);
    if (opened_) return false;
    is_given_up_ = true;
  }
  Cancel();
  return true;
}

absl::Status Lane::SendFile(std::string_view file_key, std::uint64_t size_hint_bytes,
                            const Reader& reader, OnComplete on_complete,
                            absl::Status& read_status) {
  KERF_RETURN_IF_ERROR(RelievePressure());
  File* file = nullptr;
  {
    auto owned = std::make_shared<File>();
    owned->on_complete = std::move(on_complete);
    std::lock_guard lock(mutex_);
    owned->number = ++files_begun_;
    file = owned.get();
    files_.push_back(std::move(owned));
    // Whatever the stream waits for is room, which only answers make.
    flushed_ = false;
    Await(kOwedAnswers);
  }
  KERF_CHECK(stream_->BeginFile(file_key, size_hint_bytes) == file->number);

  std::uint64_t sent_bytes = 0;
  while (true) {
    KERF_ASSIGN_OR_RETURN(const std::size_t room_bytes, WaitForRoom());
    const std::span<std::uint8_t> span = stream_->DataSpan();
    if (span.empty()) return WaitEnd();
    {
      std::lock_guard lock(mutex_);
      NothingAwaited();
    }
    const absl::StatusOr<std::size_t> count = reader(span.first(std::min(span.size(), room_bytes)));
    if (!count.ok()) read_status = count.status();
    if (!count.ok() || *count == 0) break;
    client::DataRef data = stream_->CommitData(*count);
    sent_bytes += *count;
    {
      // The block is sent by a later call at the earliest, so no answer can overtake this.
      std::lock_guard lock(mutex_);
      file->unanswered.push_back({std::move(data), *count});
      unanswered_bytes_ += *count;
    }
    if (sent_bytes > span.size()) KERF_RETURN_IF_ERROR(RelievePressure());
    std::lock_guard lock(mutex_);
    Await(kOwedAnswers);
  }
  {
    std::lock_guard lock(mutex_);
    Await(kOwedAnswers);
    // Its end may be answered before EndFile returns.
    file->sent_bytes = sent_bytes;
    file->ended = true;
    file->failed = !read_status.ok();
  }
  stream_->EndFile(sent_bytes);
  std::unique_lock lock(mutex_);
  NothingAwaited();
  CompleteFront(lock);
  return absl::OkStatus();
}

// Completes files at the front that have ended and been answered, in order. One thread does so for
// both: on_complete of one file has returned before that of the next is called.
void Lane::CompleteFront(std::unique_lock<std::mutex>& lock) {
  if (std::exchange(completing_, true)) return;
  while (!files_.empty() && files_.front()->complete()) {
    const std::shared_ptr<File> done = std::move(files_.front());
    files_.pop_front();
    if (done->failed) continue;
    lock.unlock();
    done->on_complete({std::move(done->recipe), done->sent_bytes});
    lock.lock();
  }
  completing_ = false;
  changed_.notify_all();
}

bool Lane::UnderPressure() const {
  const std::uint64_t files = files_begun_ - files_done_;
  return pending_chunks_ * kPressureDenominator >= max_pending_chunks_ * kPressureNumerator ||
         files * kPressureDenominator >= max_pending_files_ * kPressureNumerator;
}

absl::Status Lane::RelievePressure() {
  std::unique_lock lock(mutex_);
  WaitUntil(lock, kOwedOpened, [this] { return opened_; });
  while (!ended_ && UnderPressure()) {
    lock.unlock();
    // Everything that is collected must be answered for its files to become done.
    KERF_RETURN_IF_ERROR(WaitAnswered());
    if (on_pressure_) KERF_RETURN_IF_ERROR(on_pressure_());
    lock.lock();
    // With nothing pending, only the server's word that files are done is missing.
    WaitUntil(lock, "the word that files are done",
              [this] { return pending_chunks_ > 0 || !UnderPressure(); });
  }
  return Outcome();
}

// What is on its way may become chunks of the profile's shortest, each file may end in one that is
// shorter, and all of them must have room beside those that are pending.
std::uint64_t Lane::RoomBytesLocked() const {
  const std::uint64_t taken_chunks = pending_chunks_ + files_.size() + kSpareChunks;
  if (taken_chunks >= max_pending_chunks_) return 0;
  const std::uint64_t bytes = (max_pending_chunks_ - taken_chunks) * shortest_chunk_bytes_;
  return bytes - std::min(bytes, unanswered_bytes_);
}

absl::StatusOr<std::size_t> Lane::WaitForRoom() {
  std::unique_lock lock(mutex_);
  const std::uint64_t enough_bytes =
      std::clamp<std::uint64_t>(max_pending_chunks_ / kMessagesOfRoom * shortest_chunk_bytes_, 1,
                                client::UploadStream::Options().block_bytes);
  const std::uint64_t due_bytes = kMaxUnansweredChunks * longest_chunk_bytes_;
  // So few are not worth a commit while others must come.
  const auto is_more_due = [&] {
    return unanswered_bytes_ > due_bytes && pending_chunks_ < max_pending_chunks_ / kMessagesOfRoom;
  };
  // A lane that has ended says why where its data would go.
  while (!ended_ && RoomBytesLocked() < enough_bytes) {
    if (files_.size() > 1) {
      // Those before this one are answered whole.
      lock.unlock();
      KERF_RETURN_IF_ERROR(WaitAnswered());
      lock.lock();
    } else if (is_more_due()) {
      lock.unlock();
      stream_->Flush();
      lock.lock();
      WaitUntil(lock, kOwedAnswers,
                [&] { return !is_more_due() || RoomBytesLocked() >= enough_bytes; });
    } else if (pending_chunks_ > 0 && on_pressure_) {
      const std::uint64_t under_way[] = {pending_chunks_, unanswered_bytes_};
      // What the caller's disk takes is no silence of the server's.
      NothingAwaited();
      lock.unlock();
      KERF_RETURN_IF_ERROR(on_pressure_());
      lock.lock();
      if (pending_chunks_ >= under_way[0] && unanswered_bytes_ == under_way[1]) break;
    } else {
      // Less would be too little for a cut.
      break;
    }
  }
  Await(kOwedAnswers);
  return static_cast<std::size_t>(std::max(RoomBytesLocked(), enough_bytes));
}

absl::Status Lane::WaitAnswered() {
  stream_->Flush();
  std::unique_lock lock(mutex_);
  WaitUntil(lock, kOwedAnswers, [this] {
    return !completing_ && (files_.empty() || (files_.size() == 1 && !files_.front()->ended));
  });
  return Outcome();
}

absl::Status Lane::Finish() {
  stream_->Flush();
  {
    std::unique_lock lock(mutex_);
    WaitUntil(lock, "the word that files are done", [this] { return files_done_ == files_begun_; });
    if (ended_) return failure_;
  }
  stream_->FinishWrites();
  std::unique_lock lock(mutex_);
  WaitUntil(lock, "the end of the stream", [] { return false; });
  return failure_;
}

void Lane::Flush() {
  stream_->Flush();
  std::lock_guard lock(mutex_);
  flushed_ = true;
  awaited_since_ = std::chrono::steady_clock::now();
}

void Lane::Await(const char* what) {
  awaited_ = what;
  awaited_since_ = std::chrono::steady_clock::now();
}

// Or until the stream has ended, as it does when Watch or Cancel ends it.
template <typename Condition>
void Lane::WaitUntil(std::unique_lock<std::mutex>& lock, const char* what, Condition condition) {
  Await(what);
  changed_.wait(lock, [&] { return ended_ || condition(); });
  NothingAwaited();
}

absl::Status Lane::Outcome() const {
  if (!ended_) return absl::OkStatus();
  if (failure_.ok() && !files_.empty()) {
    return EndedTooEarly();
  }
  return failure_;
}

absl::Status Lane::Watch() {
  // The answer thread may be held up by the agent's own disk.
  stream_->KeepPlace();
  absl::Status silence;
  bool is_doubtful = false;
  {
    std::lock_guard lock(mutex_);
    const char* owed = awaited_;
    if (owed == nullptr && flushed_ && !files_.empty()) owed = kOwedAnswers;
    if (ended_ || !failure_.ok() || owed == nullptr || handling_) return failure_;
    const auto since = stream_->stream_since();
    if (!since.has_value()) return absl::OkStatus();
    const auto silent =
        std::chrono::steady_clock::now() - std::max({awaited_since_, answered_at_, *since});
    is_doubtful = silent >= doubt_after_;
    if (silent >= answer_limit_) {
      const double seconds = std::chrono::duration<double>(answer_limit_).count();
      silence = absl::DeadlineExceededError(Cat("the server ", servers_, " was silent for ",
                                                seconds, " s, while the agent waited for ", owed));
    }
  }
  if (!silence.ok()) {
    stream_->Lose(silence);
  } else if (is_doubtful) {
    stream_->AskFront();
  }
  return absl::OkStatus();
}

// The stream has failed: its reason comes with its end.
absl::Status Lane::WaitEnd() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_; });
  if (!failure_.ok()) return failure_;
  return EndedTooEarly();
}

void Lane::Cancel() { stream_->Cancel(); }

void Lane::Stop() {
  stream_->Cancel();
  static_cast<void>(stream_->Wait());
}

void Lane::Commit(std::span<const v1::CommitEntry> entries, std::uint64_t resolved_chunks) {
  v1::Commit commit;
  for (const v1::CommitEntry& entry : entries) *commit.add_entries() = entry;
  stream_->Commit(std::move(commit));
  std::lock_guard lock(mutex_);
  pending_chunks_ -= std::min(pending_chunks_, resolved_chunks);
  changed_.notify_all();
}

void Lane::ReportStale(std::span<const v1::CommitEntry> entries) {
  v1::ReportStale report;
  for (const v1::CommitEntry& entry : entries) *report.add_entries() = entry;
  stream_->ReportStale(std::move(report));
}

void Lane::OnAnswer(const v1::UploadAnswer& answer) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    handling_ = true;
  }
  const absl::Status status = HandleAnswer(answer);
  if (!status.ok()) Fail(status);
  std::lock_guard lock(mutex_);
  handling_ = false;
  // A server that only repeats what says nothing is as good as silent.
  if (answer.answer_case() != v1::UploadAnswer::ANSWER_NOT_SET) {
    answered_at_ = std::chrono::steady_clock::now();
  }
}

// Every answer that is taken brings an end nearer: how many there can be is bounded by what was
// sent.
absl::Status Lane::HandleAnswer(const v1::UploadAnswer& answer) {
  switch (answer.answer_case()) {
    case v1::UploadAnswer::kOpened:
      return OnOpened(answer.opened());
    case v1::UploadAnswer::kChunks:
      return OnChunks(answer.chunks());
    case v1::UploadAnswer::kFileDone:
      on_index_epoch_(answer.file_done().index_epoch());
      return OnFileDone(answer.file_done().file_number());
    case v1::UploadAnswer::kCommitted:
      on_index_epoch_(answer.committed().index_epoch());
      return absl::OkStatus();
    case v1::UploadAnswer::kGoAway:
    case v1::UploadAnswer::ANSWER_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Lane::OnOpened(const v1::Opened& opened) {
  std::lock_guard lock(mutex_);
  if (is_given_up_) return absl::CancelledError("the lane was given up");
  max_pending_chunks_ = opened.limits().max_uncommitted_chunks();
  max_pending_files_ = opened.limits().max_uncommitted_files();
  if (max_pending_chunks_ < kMinUncommittedChunks || max_pending_files_ < kMinUncommittedFiles) {
    return absl::InternalError(Cat("the server takes ", max_pending_chunks_, " chunks and ",
                                   max_pending_files_, " files that are not committed; the agent ",
                                   "needs limits of at least ", kMinUncommittedChunks, " and ",
                                   kMinUncommittedFiles));
  }
  if (opened.limits().max_commit_entries() < kMinCommitEntries) {
    return absl::InternalError(Cat("the server takes ", opened.limits().max_commit_entries(),
                                   " entries in one commit; it must take at least ",
                                   kMinCommitEntries));
  }
  KERF_RETURN_IF_ERROR(NoteProfileLocked(opened));
  opened_ = true;
  changed_.notify_all();
  return absl::OkStatus();
}

// A server that cuts longer chunks than it was asked to would be sent no end of one, and say
// nothing.
absl::Status Lane::NoteProfileLocked(const v1::Opened& opened) {
  if (opened.profile().empty()) return absl::OkStatus();
  const absl::StatusOr<UploadProfile> profile = ParseUploadProfile(opened.profile());
  if (!profile.ok() || profile->rule.max_bytes > profile_.max_bytes) {
    return absl::InternalError(Cat("the server cuts by the profile '", opened.profile(),
                                   "', and was asked for ", FormatProfile(profile_)));
  }
  shortest_chunk_bytes_ = profile->rule.min_bytes;
  longest_chunk_bytes_ = profile->rule.max_bytes;
  return absl::OkStatus();
}

absl::Status Lane::OnFileDone(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const bool on_its_way = std::any_of(files_.begin(), files_.end(), [number](const auto& file) {
    return file->number == number && !file->complete();
  });
  if (on_its_way || number == 0 || number > files_begun_ || files_done_ == files_begun_) {
    return absl::InternalError(
        Cat("the server called file ", number, " done, which it has not answered"));
  }
  ++files_done_;
  changed_.notify_all();
  return absl::OkStatus();
}

void Lane::OnEnd(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  ended_ = true;
  if (failure_.ok()) {
    failure_ = status;
    if (status.ok() && files_done_ < files_begun_) {
      failure_ = client::OrOutOfMemory([] {
        return absl::InternalError("the server ended the stream before all files were done");
      });
    }
  }
  changed_.notify_all();
}

void Lane::Fail(const absl::Status& status) {
  const absl::Status failure = client::WithRequestId(status, stream_->request_id());
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = failure;
  }
  stream_->Cancel();
}

absl::Status Lane::OnChunks(const v1::Chunks& chunks) {
  if (chunks.chunks().empty()) return client::WrongAnswer("the server answered no chunks");
  std::shared_ptr<File> file;
  {
    // Files are answered in the order in which they were sent.
    std::lock_guard lock(mutex_);
    const auto next =
        std::find_if(files_.begin(), files_.end(), [](const auto& f) { return !f->complete(); });
    if (next != files_.end() && (*next)->number == chunks.file_number()) file = *next;
  }
  if (file == nullptr) {
    Disagree(client::WrongAnswer(Cat("the server answered for file ", chunks.file_number(),
                                     ", which is not on its way or not the next")),
             0);
    return absl::OkStatus();
  }
  for (const v1::Chunk& chunk : chunks.chunks()) {
    const absl::Status status = TakeChunk(*file, chunk);
    if (status.ok()) continue;
    if (!client::IsWrongAnswer(status)) return status;
    Disagree(status, file->answered_bytes);
    break;
  }
  spent_.clear();
  std::unique_lock lock(mutex_);
  CompleteFront(lock);
  return absl::OkStatus();
}

void Lane::Disagree(const absl::Status& status, std::uint64_t taken_bytes) {
  stream_->Disagree(client::WithRequestId(status, stream_->request_id()), taken_bytes);
}

// Chunks shorter than the profile allows would multiply what the agent keeps of each.
absl::Status Lane::CheckChunk(const File& file, const v1::Chunk& chunk) const {
  if (chunk.end_offset() <= file.answered_bytes || chunk.digest().size() != digest_size_bytes_ ||
      chunk.locator().size() > kMaxLocatorBytes) {
    return client::WrongAnswer(
        Cat("the server answered a malformed chunk that ends at ", chunk.end_offset()));
  }
  const std::uint64_t length_bytes = chunk.end_offset() - file.answered_bytes;
  if (length_bytes >= profile_.min_bytes && length_bytes <= profile_.max_bytes) {
    return absl::OkStatus();
  }
  // The server knows where the file ends only after the agent does.
  std::lock_guard lock(mutex_);
  if (length_bytes < profile_.min_bytes && file.ended && chunk.end_offset() == file.sent_bytes) {
    return absl::OkStatus();
  }
  return client::WrongAnswer(Cat("the server answered a chunk of ", length_bytes,
                                 " bytes, which the profile ", FormatProfile(profile_),
                                 " cannot cut there"));
}

absl::Status Lane::TakeChunk(File& file, const v1::Chunk& chunk) {
  KERF_RETURN_IF_ERROR(CheckChunk(file, chunk));
  AnsweredChunk answered;
  answered.length_bytes = static_cast<std::uint32_t>(chunk.end_offset() - file.answered_bytes);
  std::memcpy(answered.digest.bytes.data(), chunk.digest().data(), digest_size_bytes_);
  answered.verdict = chunk.verdict();
  answered.locator = chunk.locator();
  KERF_ASSIGN_OR_RETURN(const std::span<const std::uint8_t> bytes,
                        Collect(file, answered.length_bytes));
  // What was cut here has been compared with what was named.
  answered.is_cut_here = stream_->is_cut_here();
  if (!answered.is_cut_here && Xxh3Of64(bytes) != chunk.check()) {
    return client::AsWrongAnswer(absl::DataLossError(
        "the server cut other bytes than were sent: memory or network is faulty"));
  }
  if (answered.verdict != v1::VERDICT_DUPLICATE) {
    std::lock_guard lock(mutex_);
    ++pending_chunks_;
  }
  const absl::Status taken = taker_.Take(*this, answered, bytes);
  std::lock_guard lock(mutex_);
  if (!taken.ok()) {
    // It may be answered once more.
    if (answered.verdict != v1::VERDICT_DUPLICATE) --pending_chunks_;
    return taken;
  }
  // Last what completes the file: from then on the writer may give its recipe away.
  file.recipe.push_back({answered.digest, answered.length_bytes});
  Consume(file, answered.length_bytes);
  file.answered_bytes = chunk.end_offset();
  return absl::OkStatus();
}

// The next bytes of the file in one piece: in their block, or joined.
absl::StatusOr<std::span<const std::uint8_t>> Lane::Collect(const File& file,
                                                            std::size_t length_bytes) {
  std::lock_guard lock(mutex_);
  joined_.clear();
  std::size_t left_bytes = length_bytes;
  std::size_t consumed_bytes = file.consumed_bytes;
  for (const FileRange& range : file.unanswered) {
    const std::size_t count = std::min(left_bytes, range.length_bytes - consumed_bytes);
    const std::uint8_t* begin = range.data.block->data() + range.data.position + consumed_bytes;
    if (count == length_bytes) return std::span(begin, count);
    joined_.insert(joined_.end(), begin, begin + count);
    left_bytes -= count;
    if (left_bytes == 0) return std::span<const std::uint8_t>(joined_);
    consumed_bytes = 0;
  }
  return client::WrongAnswer("the server answered more bytes than were sent");
}

// With the lock. Blocks that are used up stay alive in spent_ until the message has been worked
// off.
void Lane::Consume(File& file, std::size_t length_bytes) {
  unanswered_bytes_ -= length_bytes;
  while (length_bytes > 0) {
    FileRange& range = file.unanswered.front();
    const std::size_t count = std::min(length_bytes, range.length_bytes - file.consumed_bytes);
    file.consumed_bytes += count;
    length_bytes -= count;
    if (file.consumed_bytes < range.length_bytes) return;
    if (spent_.empty() || spent_.back() != range.data.block) {
      spent_.push_back(std::move(range.data.block));
    }
    file.unanswered.pop_front();
    file.consumed_bytes = 0;
  }
}

}  // namespace kerf::agent
