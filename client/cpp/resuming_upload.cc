#include "client/cpp/resuming_upload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/locate.h"
#include "client/cpp/out_of_memory.h"
#include "client/cpp/tls_check.h"
#include "kernels/rapid/upload_profile.h"

namespace kerf::client {
namespace {

// As many as a front looks at.
constexpr std::size_t kMaxAvoided = 8;
// No worker is called by a longer name (ROU-7). It goes to the next server as metadata, of which
// that one takes so much: a hostile one's name would have it refuse the upload.
constexpr std::size_t kMaxWorkerNameBytes = 253;
// Of streams past a front, lost one behind the other without a word or an answer: see routing.md.
constexpr int kDirectTries = 2;

// Null where the server is to cut, or alone can.
std::unique_ptr<LocalCutter> MakeCutter(const v1::Open& open) {
  if (open.cutter() == v1::CUTTER_UNSPECIFIED ||
      open.digest_algorithm() == v1::DIGEST_ALGORITHM_UNSPECIFIED) {
    return nullptr;
  }
  const absl::StatusOr<UploadProfile> profile = ParseUploadProfile(open.profile());
  // What is wrong with it the server says.
  if (!profile.ok() || profile->criterion.has_value()) return nullptr;
  return std::make_unique<LocalCutter>(profile->rule,
                                       static_cast<DigestAlgorithm>(open.digest_algorithm()));
}

std::span<const std::uint8_t> BytesOf(const DataRef& data, std::size_t length_bytes) {
  return {data.block->data() + data.position, length_bytes};
}

}  // namespace

ResumingUpload::ResumingUpload(Options options, AnswerHandler& handler)
    : handler_(handler),
      options_(std::move(options)),
      max_unanswered_bytes_(options_.stream.block_bytes * options_.stream.max_blocks),
      cutter_(MakeCutter(options_.stream.open)),
      plan_(options_.retry, options_.seed),
      server_index_(options_.first_server),
      question_(options_.stream.shard_key, options_.question_pause) {
  KERF_CHECK(!options_.servers.empty());
  // While there is memory for it.
  static_cast<void>(OutOfMemory());
  thread_ = std::thread([this] { Run(); });
}

ResumingUpload::~ResumingUpload() {
  Cancel();
  if (thread_.joinable()) thread_.join();
}

void ResumingUpload::Run() {
  const absl::Status status = OrOutOfMemory([this] { return RunStreams(); });
  EndStream();
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    end_status_ = status;
    changed_.notify_all();
  }
  handler_.OnEnd(status);
}

// One that RunStream was thrown out of.
void ResumingUpload::EndStream() {
  std::shared_ptr<UploadStream> stream;
  {
    std::lock_guard lock(mutex_);
    stream = stream_;
  }
  if (stream == nullptr) return;
  stream->Cancel();
  static_cast<void>(stream->Wait());
  std::lock_guard lock(mutex_);
  stream_ = nullptr;
  live_ = false;
}

absl::Status ResumingUpload::RunStreams() {
  while (true) {
    const absl::Status status = RunStream();
    Settle(status);
    {
      std::lock_guard lock(mutex_);
      if (cancelled_) return absl::CancelledError("the upload was cancelled");
      if (!fatal_.ok()) return fatal_;
    }
    if (status.ok()) return status;
    if (const absl::Status end = WaitForNextTry(status); !end.ok()) return end;
    // Nothing is missing but the end of the stream.
    std::lock_guard lock(mutex_);
    if (finishing_ && files_.empty()) return absl::OkStatus();
  }
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ResumingUpload::Connect() {
  const std::string& server = options_.servers[server_index_ % options_.servers.size()];
  absl::Status why;
  std::vector<std::string> avoided;
  {
    std::lock_guard lock(mutex_);
    avoided = avoided_;
    // A worker that answers others, but not this client.
    if (is_direct_ && !opened_) {
      why = absl::UnavailableError(
          ToAbsl(Cat("the worker at ", address_, " opened no stream: ", MessageOf(last_loss_))));
    } else if (is_direct_ && broken_count_ >= kDirectTries) {
      why = absl::UnavailableError(
          ToAbsl(Cat("streams to the worker at ", address_, " break: ", MessageOf(last_loss_))));
    }
    front_ = server;
    address_ = server;
    is_direct_ = false;
  }
  const ServerAddress place{server, options_.tls};
  auto channel = OpenChannel(place);
  if (!channel.ok() || !options_.direct) return channel;
  if (why.ok()) {
    auto worker = ConnectToWorker(place, *channel, options_.stream.shard_key, avoided, asking_);
    if (worker.ok()) {
      std::lock_guard lock(mutex_);
      // The front has answered.
      *options_.reached = true;
      address_ = std::move(worker->place.text);
      direct_tls_ = std::move(worker->place.tls);
      is_direct_ = true;
      left_out_ = std::move(avoided);
      return std::move(worker->channel);
    }
    why = worker.status();
    // Then nobody knows whether the worker can be reached.
    if (asking_.cancelled()) return absl::CancelledError("the upload was cancelled");
  }
  if (options_.on_detour) options_.on_detour(why);
  return channel;
}

std::shared_ptr<MemoryOffer> ResumingUpload::OfferMemory(
    const std::shared_ptr<grpc::Channel>& channel) {
  std::string server;
  {
    std::lock_guard lock(mutex_);
    if (!options_.shares_memory || was_sent_other_bytes_ || cancelled_) return nullptr;
    server = address_;
  }
  // Whoever is asked who he is comes by a door, which passes no memory on.
  if (!server.starts_with("unix:") || options_.tls.token() != nullptr) return nullptr;
  // Then no bytes are sent, as far as any server of today goes.
  if (cutter_ != nullptr && options_.stream.open.cutter() == v1::CUTTER_CLIENT) return nullptr;
  if (!MemoryOffer::IsTaken(channel, asking_)) return nullptr;
  auto offer = MemoryOffer::Make(server, options_.stream.block_bytes * options_.stream.max_blocks);
  return offer.ok() ? *std::move(offer) : nullptr;
}

// From Open to the end; returns how it ended.
absl::Status ResumingUpload::RunStream() {
  const auto channel = Connect();
  if (!channel.ok()) return channel.status();
  std::shared_ptr<MemoryOffer> memory = OfferMemory(*channel);
  std::shared_ptr<UploadStream> stream;
  {
    // Its first answer waits for the lock until the stream has its name.
    std::lock_guard lock(mutex_);
    if (cancelled_) return absl::CancelledError("the upload was cancelled");
    opened_ = false;
    has_answered_ = false;
    stream_ended_ = false;
    lost_ = absl::OkStatus();
    pending_.clear();
    ++stream_count_;
    stream_since_ = Clock::now();
    // Files are answered in order: those before the first one are over.
    number_shift_ = files_.empty() ? files_begun_ : files_.front().number - 1;
    AnswerHandler& answers = *this;
    UploadStream::Options stream_options = options_.stream;
    stream_options.avoid = avoided_;
    has_offered_ = memory != nullptr;
    stream_options.memory = std::move(memory);
    is_cut_here_ = false;
    shares_data_ = false;
    if (cutter_ == nullptr) stream_options.open.clear_cutter();
    stream = std::make_shared<UploadStream>(*channel, stream_options, answers);
    stream_ = stream;
    request_id_ = stream->request_id();
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return opened_ || stream_ended_; });
  if (opened_ && !stream_ended_) {
    lock.unlock();
    SendAgain(stream);
    lock.lock();
  }
  changed_.wait(lock, [this] { return stream_ended_; });
  stream_ = nullptr;
  live_ = false;
  // Whoever waits in DataSpan has come already.
  writer_calls_at_loss_ = is_writer_waiting_ ? writer_calls_ - 1 : writer_calls_;
  fatal_ = WithRequestId(fatal_, request_id_);
  const absl::Status status = WithRequestId(lost_.ok() ? stream_status_ : lost_, request_id_);
  const bool may_be_tls = !opened_ && lost_.ok() && fatal_.ok();
  lock.unlock();
  // Its thread says nothing more from here on.
  static_cast<void>(stream->Wait());
  if (!may_be_tls) return status;
  return ExplainByTls(status, {address_, is_direct_ ? direct_tls_ : options_.tls}, &asking_);
}

void ResumingUpload::SendAgain(const std::shared_ptr<UploadStream>& stream) {
  std::lock_guard writing(writer_mutex_);
  names_chunks_ = is_cut_here_;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  {
    std::lock_guard lock(mutex_);
    first = number_shift_ + 1;
    last = files_begun_;
    if (names_chunks_) {
      stream->NameChunks(naming_);
    } else if (shares_data_) {
      stream->ShareData(limits_.max_message_bytes(), limits_.max_named_bytes());
    } else {
      stream->LimitData(limits_.max_message_bytes());
    }
  }
  for (std::uint64_t number = first; number <= last; ++number) {
    if (!SendFileAgain(*stream, number)) return;
  }
  if (last >= first) stream->Flush();
  std::lock_guard lock(mutex_);
  live_ = true;
  if (finishing_) stream->FinishWrites();
  changed_.notify_all();
}

// From the last cut that was answered. False if the stream has ended.
bool ResumingUpload::SendFileAgain(UploadStream& stream, std::uint64_t number) {
  std::unique_lock lock(mutex_);
  File* file = Find(number);
  if (file == nullptr) return RefuseDone(lock);
  file->named.clear();
  const std::string key = file->key;
  const std::uint64_t size_hint_bytes = file->size_hint_bytes;
  std::uint64_t offset = file->answered_bytes;
  file->given_from = offset;
  lock.unlock();
  KERF_CHECK(stream.BeginFile(key, size_hint_bytes, offset) + number_shift_ == number);
  BeginContent();
  while (true) {
    lock.lock();
    File* const now = Find(number);
    if (now == nullptr) return RefuseDone(lock);
    if (stream_ended_) return false;
    if (offset >= now->published_bytes) {
      const bool ended = now->ended;
      lock.unlock();
      if (ended && names_chunks_) {
        NameEnd(stream, number, offset);
      } else if (ended) {
        stream.EndFile(offset, content_hash_.Digest());
      }
      return true;
    }
    const auto range =
        std::find_if(now->unanswered.begin(), now->unanswered.end(),
                     [&](const FileRange& r) { return r.offset + r.length_bytes > offset; });
    // A copy: without the lock the file may go.
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const FileRange kept = *range;
    const std::span<const std::uint8_t> all = BytesOf(kept.data, kept.length_bytes);
    const std::span<const std::uint8_t> bytes = all.subspan(offset - kept.offset);
    offset += bytes.size();
    now->given_bytes = offset;
    lock.unlock();
    if (kept.check.has_value() && Xxh3Of64(all) != *kept.check) return RefuseChanged();
    if (names_chunks_) {
      NameBytes(stream, number, bytes);
      continue;
    }
    content_hash_.Update(bytes);
    if (!SendBytes(stream, bytes)) return false;
  }
}

void ResumingUpload::BeginContent() {
  content_hash_.Reset();
  if (cutter_ == nullptr) return;
  cutter_->Begin();
  recipe_hash_.Reset();
}

void ResumingUpload::NameBytes(UploadStream& stream, std::uint64_t number,
                               std::span<const std::uint8_t> bytes) {
  cutter_->Add(bytes, [&](auto chunks) { Name(stream, number, chunks); });
}

void ResumingUpload::NameEnd(UploadStream& stream, std::uint64_t number, std::uint64_t size_bytes) {
  cutter_->End([&](auto chunks) { Name(stream, number, chunks); });
  stream.EndFile(size_bytes, recipe_hash_.Value());
}

void ResumingUpload::Name(UploadStream& stream, std::uint64_t number,
                          std::span<const LocalCutter::Chunk> chunks) {
  std::size_t digest_bytes = 0;
  {
    // Before they can be answered.
    std::lock_guard lock(mutex_);
    digest_bytes = naming_.digest_bytes;
    File* const file = Find(number);
    if (file != nullptr) file->named.insert(file->named.end(), chunks.begin(), chunks.end());
  }
  for (const LocalCutter::Chunk& chunk : chunks) {
    recipe_hash_.Add(chunk.digest, digest_bytes, chunk.length_bytes);
    stream.NameChunk(chunk.digest, chunk.length_bytes);
  }
}

bool ResumingUpload::RefuseDone(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  Fail(absl::InternalError("the server called a file done that it had not been sent"));
  return false;
}

// The server would be told the hash of what they are now, and find nothing wrong.
bool ResumingUpload::RefuseChanged() {
  Fail(absl::DataLossError(
      "bytes that waited to be sent again are not those that were read: memory is faulty"));
  return false;
}

bool ResumingUpload::SendBytes(UploadStream& stream, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const std::span<std::uint8_t> span = stream.DataSpan();
    if (span.empty()) return false;
    const std::size_t count = std::min(span.size(), bytes.size());
    std::memcpy(span.data(), bytes.data(), count);
    stream.CommitData(count);
    bytes = bytes.subspan(count);
  }
  return true;
}

// A stream has ended, and its thread: what it has not said nobody says any more.
void ResumingUpload::Settle(const absl::Status& loss) {
  std::vector<v1::UploadAnswer> done;
  std::vector<v1::CommitEntry> late;
  {
    std::lock_guard lock(mutex_);
    const std::optional<std::uint64_t> mismatched = MismatchedFileLocked(loss);
    while (!files_.empty() && files_.front().complete()) {
      // It is not whole, however much of it was answered.
      if (mismatched.has_value() && files_.front().number >= *mismatched) break;
      if (!files_.front().done) {
        done.emplace_back().mutable_file_done()->set_file_number(files_.front().number);
      }
      files_.pop_front();
    }
    for (File& file : files_) {
      file.done_again = std::exchange(file.done, false);
      file.given_bytes = file.answered_bytes;
    }
    for (v1::Commit& commit : unanswered_commits_) {
      for (v1::CommitEntry& entry : *commit.mutable_entries()) late.push_back(std::move(entry));
    }
    unanswered_commits_.clear();
    unanswered_entries_ = 0;
  }
  for (const v1::UploadAnswer& answer : done) handler_.OnAnswer(answer);
  if (!late.empty() && options_.on_late_commits) options_.on_late_commits(std::move(late));
}

absl::Status ResumingUpload::WaitForNextTry(const absl::Status& loss) {
  const Clock::time_point now = Clock::now();
  std::unique_lock lock(mutex_);
  last_loss_ = loss;
  const bool is_broken =
      is_direct_ && opened_ && !has_answered_ && lost_.ok() && ReasonOfLoss(loss).empty();
  broken_count_ = is_broken ? broken_count_ + 1 : 0;
  NoteWorkerLocked(loss);
  // Whoever answered with kerf's own words was there.
  if (!ReasonOfLoss(loss).empty()) *options_.reached = true;
  // What this side gave up it would try again. Where a worker has opened nothing, and what was said
  // are not kerf's own words, the front may know another way.
  const bool is_astray = is_direct_ && !opened_ && ReasonOfLoss(loss).empty();
  const Loss kind = lost_.ok() && !is_astray ? LossOf(loss) : Loss::kRetry;
  was_sent_other_bytes_ = was_sent_other_bytes_ || IsContentMismatch(loss);
  if (IsMismatchOfAnsweredLocked(loss)) return loss;
  if (!*options_.reached && (kind == Loss::kRetry || kind == Loss::kRetryBriefly)) {
    ++server_index_;
    return ++first_tries_ < options_.servers.size() ? absl::OkStatus() : loss;
  }
  const bool is_own_silence = IsSourceSilentLocked(loss);
  // Then nothing was tried, and the server is well.
  if (is_own_silence) plan_.Progress();
  const auto wait = plan_.WaitAfter(kind, AskedWaitOf(loss), now);
  if (!wait.has_value()) {
    return kind == Loss::kRetry && options_.retry.time.count() > 0
               ? GaveUp(plan_, options_.servers, loss, now)
               : loss;
  }
  if (!is_own_silence) ++server_index_;
  // Before the first Opened the writer waits for it, and has begun no file.
  const auto is_wanted = [&] {
    if (!ever_opened_ || finishing_ || cancelled_) return true;
    return !files_.empty() && !IsSourceSilentLocked(loss);
  };
  if (is_wanted() && options_.on_lost) {
    const Lost lost{address_, worker_, loss, plan_.tries(), *wait};
    lock.unlock();
    options_.on_lost(lost);
    lock.lock();
  }
  changed_.wait_until(lock, now + *wait,
                      [this] { return cancelled_ || (finishing_ && files_.empty()); });
  // A stream that was between files is missed only when there is a file again, and one whose source
  // is silent when that gives something: till then nothing is tried, and afterwards nothing has
  // been.
  if (!is_wanted()) {
    changed_.wait(lock, is_wanted);
    plan_.Progress();
  }
  return cancelled_ ? absl::CancelledError("the upload was cancelled") : absl::OkStatus();
}

bool ResumingUpload::IsSourceSilentLocked(const absl::Status& loss) const {
  // What was begun before has been answered, or the server would owe something.
  return lost_.ok() && IsOwnSilence(loss) && files_.size() == 1 && !files_.front().ended &&
         writer_calls_ == writer_calls_at_loss_;
}

std::optional<std::uint64_t> ResumingUpload::MismatchedFileLocked(const absl::Status& loss) const {
  // Of chunks that are named each answer is compared with the name itself.
  if (!lost_.ok() || !IsContentMismatch(loss) || is_cut_here_) return std::nullopt;
  const std::optional<std::uint64_t> named = FileNumberOfLoss(loss);
  if (named.has_value()) return *named + number_shift_;
  // Before there is a file it is of none.
  if (files_begun_ == 0) return std::nullopt;
  // It may be any of them.
  return files_.empty() ? files_begun_ : files_.front().number;
}

bool ResumingUpload::IsMismatchOfAnsweredLocked(const absl::Status& loss) {
  const std::optional<std::uint64_t> number = MismatchedFileLocked(loss);
  if (!number.has_value()) return false;
  // One that is gone was answered whole.
  const File* const file = Find(*number);
  return file == nullptr || (file->ended && file->answered_bytes > file->given_from);
}

void ResumingUpload::NoteWriterLocked() {
  ++writer_calls_;
  if (!live_) changed_.notify_all();
}

void ResumingUpload::NoteWorkerLocked(const absl::Status& loss) {
  // What this side gave up was silent.
  if (lost_.ok() && !IsWorkersFault(loss)) return;
  std::string name = WorkerOfLoss(loss);
  if (name.empty() && opened_) name = worker_;
  if (name.empty() || name.size() > kMaxWorkerNameBytes) return;
  if (std::find(avoided_.begin(), avoided_.end(), name) != avoided_.end()) return;
  if (avoided_.size() == kMaxAvoided) avoided_.erase(avoided_.begin());
  avoided_.push_back(std::move(name));
}

ResumingUpload::File* ResumingUpload::Find(std::uint64_t number) {
  if (files_.empty() || number < files_.front().number) return nullptr;
  const std::uint64_t index = number - files_.front().number;
  return index < files_.size() ? &files_[index] : nullptr;
}

std::uint64_t ResumingUpload::BeginFile(std::string_view file_key, std::uint64_t size_hint_bytes) {
  std::lock_guard writing(writer_mutex_);
  Publish();
  std::shared_ptr<UploadStream> stream;
  std::uint64_t number = 0;
  std::uint64_t shift = 0;
  {
    std::lock_guard lock(mutex_);
    File& file = files_.emplace_back();
    number = file.number = ++files_begun_;
    file.key = std::string(file_key);
    file.size_hint_bytes = size_hint_bytes;
    if (live_) stream = stream_;
    shift = number_shift_;
    NoteWriterLocked();
  }
  BeginContent();
  if (stream != nullptr) {
    KERF_CHECK(stream->BeginFile(file_key, size_hint_bytes, 0) + shift == number);
  }
  return number;
}

std::span<std::uint8_t> ResumingUpload::DataSpan() {
  std::uint64_t dead_stream_count = 0;
  while (true) {
    {
      std::lock_guard writing(writer_mutex_);
      Publish();
      span_stream_ = nullptr;
      bool has_room = false;
      {
        std::lock_guard lock(mutex_);
        if (ended_) return {};
        if (live_) span_stream_ = stream_;
        span_stream_count_ = stream_count_;
        has_room = unanswered_bytes_ < max_unanswered_bytes_;
      }
      if (span_stream_ != nullptr && has_room) {
        const std::span<std::uint8_t> span = span_stream_->DataSpan();
        if (!span.empty()) return span;
        dead_stream_count = span_stream_count_;
      }
      // What waits in a block may be what makes room.
      if (span_stream_ != nullptr && !has_room) span_stream_->Flush();
    }
    std::unique_lock lock(mutex_);
    NoteWriterLocked();
    is_writer_waiting_ = true;
    changed_.wait(lock, [&] {
      return ended_ || (live_ && stream_count_ != dead_stream_count &&
                        unanswered_bytes_ < max_unanswered_bytes_);
    });
    is_writer_waiting_ = false;
  }
}

DataRef ResumingUpload::CommitData(std::size_t count) {
  std::lock_guard writing(writer_mutex_);
  if (count == 0 || span_stream_ == nullptr) return {};
  DataRef data = span_stream_->CommitData(count);
  std::optional<std::uint64_t> check;
  if (data.block != nullptr) check = Xxh3Of64(BytesOf(data, count));
  std::lock_guard lock(mutex_);
  File& file = files_.back();
  file.unanswered.push_back({data, count, file.published_bytes, span_stream_count_, check});
  unpublished_ = true;
  unanswered_bytes_ += count;
  NoteWriterLocked();
  return data;
}

// With writer_mutex_ held: nobody sends again meanwhile.
void ResumingUpload::Publish() {
  std::shared_ptr<UploadStream> stream;
  FileRange range;
  std::uint64_t number = 0;
  bool is_in_stream = false;
  {
    std::lock_guard lock(mutex_);
    if (!std::exchange(unpublished_, false)) return;
    File& file = files_.back();
    range = file.unanswered.back();
    file.published_bytes += range.length_bytes;
    // Else it is among what the next stream is given first.
    if (!live_) return;
    file.given_bytes = file.published_bytes;
    number = file.number;
    stream = stream_;
    is_in_stream = range.stream_count == stream_count_;
  }
  const std::span<const std::uint8_t> bytes = BytesOf(range.data, range.length_bytes);
  if (names_chunks_) return NameBytes(*stream, number, bytes);
  content_hash_.Update(bytes);
  if (!is_in_stream) static_cast<void>(SendBytes(*stream, bytes));
}

void ResumingUpload::EndFile(std::uint64_t size_bytes) {
  std::lock_guard writing(writer_mutex_);
  Publish();
  std::shared_ptr<UploadStream> stream;
  std::uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    files_.back().ended = true;
    number = files_.back().number;
    NoteWriterLocked();
    KERF_CHECK(files_.back().published_bytes == size_bytes);
    if (live_) stream = stream_;
  }
  if (stream == nullptr) return;
  if (names_chunks_) return NameEnd(*stream, number, size_bytes);
  stream->EndFile(size_bytes, content_hash_.Digest());
}

void ResumingUpload::Flush() {
  std::lock_guard writing(writer_mutex_);
  Publish();
  std::shared_ptr<UploadStream> stream;
  {
    std::lock_guard lock(mutex_);
    NoteWriterLocked();
    if (live_) stream = stream_;
  }
  if (stream != nullptr) stream->Flush();
}

void ResumingUpload::FinishWrites() {
  std::lock_guard lock(mutex_);
  finishing_ = true;
  if (live_) stream_->FinishWrites();
  changed_.notify_all();
}

void ResumingUpload::KeepPlace() {
  std::lock_guard lock(mutex_);
  if (stream_ != nullptr) stream_->KeepPlace();
}

void ResumingUpload::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  asking_.Cancel();
  question_.Cancel();
  if (stream_ != nullptr) stream_->Cancel();
  changed_.notify_all();
}

void ResumingUpload::Lose(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  if (stream_ == nullptr || !lost_.ok()) return;
  lost_ = status;
  stream_->Cancel();
}

void ResumingUpload::AskFront() {
  std::string front;
  std::string worker;
  std::vector<std::string> left_out;
  std::uint64_t stream_count = 0;
  {
    std::lock_guard lock(mutex_);
    if (!is_direct_ || stream_ == nullptr || !lost_.ok() || cancelled_) return;
    front = front_;
    worker = address_;
    left_out = left_out_;
    stream_count = stream_count_;
  }
  question_.Ask({front, options_.tls}, worker, std::move(left_out), [this, worker, stream_count] {
    std::lock_guard lock(mutex_);
    if (stream_ == nullptr || stream_count_ != stream_count || !lost_.ok()) return;
    lost_ = absl::UnavailableError(ToAbsl(
        Cat("the worker at ", worker, " is silent, and the front has another one in its place")));
    stream_->Cancel();
  });
}

void ResumingUpload::Fail(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  if (fatal_.ok()) fatal_ = status;
  if (stream_ != nullptr) stream_->Cancel();
}

std::optional<std::chrono::steady_clock::time_point> ResumingUpload::stream_since() const {
  std::lock_guard lock(mutex_);
  return stream_ == nullptr ? std::nullopt : std::optional(stream_since_);
}

std::string ResumingUpload::request_id() const {
  std::lock_guard lock(mutex_);
  return request_id_;
}

absl::Status ResumingUpload::Wait() {
  if (thread_.joinable()) thread_.join();
  return end_status_;
}

}  // namespace kerf::client
