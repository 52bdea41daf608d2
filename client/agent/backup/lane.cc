#include "client/agent/backup/lane.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

// Beyond this share of a limit the writer waits and has pending chunks committed: what is on its
// way and not answered yet must fit into the rest.
constexpr std::uint64_t kPressureNumerator = 1;
constexpr std::uint64_t kPressureDenominator = 2;

std::array<std::uint8_t, 16> ContentHash(XXH3_state_t* state) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), canonical.digest, bytes.size());
  return bytes;
}

struct StateDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

Lane::Lane(const std::shared_ptr<grpc::Channel>& channel, Options options, ChunkTaker& taker)
    : taker_(taker),
      digest_size_bytes_(options.digest_size_bytes),
      on_pressure_(std::move(options.on_pressure)) {
  client::UploadStream::Options stream;
  stream.open = std::move(options.open);
  stream_ = std::make_unique<client::UploadStream>(channel, stream, *this);
}

Lane::~Lane() { stream_.reset(); }

absl::Status Lane::SendFile(std::string_view file_key, std::uint64_t size_hint_bytes,
                            const Reader& reader, OnComplete on_complete,
                            absl::Status& read_status) {
  KERF_RETURN_IF_ERROR(RelievePressure());
  File* file = nullptr;
  {
    auto owned = std::make_unique<File>();
    owned->on_complete = std::move(on_complete);
    std::lock_guard lock(mutex_);
    owned->number = ++files_begun_;
    file = owned.get();
    files_.push_back(std::move(owned));
  }
  KERF_CHECK(stream_->BeginFile(file_key, size_hint_bytes, 0) == file->number);

  const std::unique_ptr<XXH3_state_t, StateDeleter> hash(XXH3_createState());
  XXH3_128bits_reset(hash.get());
  std::uint64_t sent_bytes = 0;
  while (true) {
    const std::span<std::uint8_t> span = stream_->DataSpan();
    if (span.empty()) return WaitEnd();
    const absl::StatusOr<std::size_t> count = reader(span);
    if (!count.ok()) read_status = count.status();
    if (!count.ok() || *count == 0) break;
    XXH3_128bits_update(hash.get(), span.data(), *count);
    client::DataRef data = stream_->CommitData(*count);
    sent_bytes += *count;
    {
      // The block is sent by a later call at the earliest, so no answer can overtake this.
      std::lock_guard lock(mutex_);
      file->segments.push_back({std::move(data), *count});
    }
    if (sent_bytes > span.size()) KERF_RETURN_IF_ERROR(RelievePressure());
  }
  stream_->EndFile(sent_bytes, ContentHash(hash.get()));
  std::unique_lock lock(mutex_);
  file->sent_bytes = sent_bytes;
  file->ended = true;
  file->failed = !read_status.ok();
  CompleteFront(lock);
  return absl::OkStatus();
}

// Completes files at the front that have ended and been answered, in order.
void Lane::CompleteFront(std::unique_lock<std::mutex>& lock) {
  while (!files_.empty()) {
    File& file = *files_.front();
    if (!file.ended || file.answered_bytes < file.sent_bytes) return;
    const std::unique_ptr<File> done = std::move(files_.front());
    files_.pop_front();
    changed_.notify_all();
    if (done->failed) continue;
    lock.unlock();
    done->on_complete({std::move(done->recipe), done->sent_bytes});
    lock.lock();
  }
}

bool Lane::UnderPressure() const {
  const std::uint64_t files = files_begun_ - files_done_;
  return pending_chunks_ * kPressureDenominator >= max_pending_chunks_ * kPressureNumerator ||
         files * kPressureDenominator >= max_pending_files_ * kPressureNumerator;
}

absl::Status Lane::RelievePressure() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return opened_ || ended_; });
  while (!ended_ && UnderPressure()) {
    lock.unlock();
    // Everything that is collected must be answered for its files to become done.
    KERF_RETURN_IF_ERROR(WaitAnswered());
    if (on_pressure_) KERF_RETURN_IF_ERROR(on_pressure_());
    lock.lock();
    // With nothing pending, only the server's word that files are done is missing.
    changed_.wait(lock, [this] { return ended_ || pending_chunks_ > 0 || !UnderPressure(); });
  }
  return ended_ ? failure_ : absl::OkStatus();
}

absl::Status Lane::WaitAnswered() {
  stream_->Flush();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    return ended_ || files_.empty() || (files_.size() == 1 && !files_.front()->ended);
  });
  return ended_ ? failure_ : absl::OkStatus();
}

absl::Status Lane::Finish() {
  stream_->Flush();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || files_done_ == files_begun_; });
    if (ended_) return failure_;
  }
  stream_->FinishWrites();
  return stream_->Wait();
}

// The stream has failed: its reason comes with its end.
absl::Status Lane::WaitEnd() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_; });
  if (!failure_.ok()) return failure_;
  return absl::InternalError("the server ended the stream too early");
}

void Lane::Cancel() { stream_->Cancel(); }

absl::Status Lane::status() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Lane::Commit(std::span<const v1::CommitEntry> entries, std::uint64_t resolved_chunks) {
  v1::Commit commit;
  for (const v1::CommitEntry& entry : entries) *commit.add_entries() = entry;
  stream_->Commit(std::move(commit));
  std::lock_guard lock(mutex_);
  pending_chunks_ -= std::min(pending_chunks_, resolved_chunks);
  changed_.notify_all();
}

void Lane::ReportStale(const Digest& digest, std::string_view locator) {
  v1::ReportStale report;
  v1::CommitEntry& entry = *report.add_entries();
  entry.set_digest(digest.bytes.data(), digest_size_bytes_);
  entry.set_locator(locator.data(), locator.size());
  stream_->ReportStale(std::move(report));
}

void Lane::OnAnswer(const v1::UploadAnswer& answer) {
  switch (answer.answer_case()) {
    case v1::UploadAnswer::kOpened: {
      std::lock_guard lock(mutex_);
      max_pending_chunks_ = answer.opened().limits().max_uncommitted_chunks();
      max_pending_files_ = answer.opened().limits().max_uncommitted_files();
      worker_ = answer.opened().worker();
      opened_ = true;
      changed_.notify_all();
      return;
    }
    case v1::UploadAnswer::kChunks:
      if (const absl::Status status = OnChunks(answer.chunks()); !status.ok()) Fail(status);
      return;
    case v1::UploadAnswer::kFileDone: {
      std::lock_guard lock(mutex_);
      ++files_done_;
      changed_.notify_all();
      return;
    }
    case v1::UploadAnswer::kGoAway:
      Fail(absl::UnavailableError("the server is shutting down: run the backup again"));
      return;
    case v1::UploadAnswer::kCommitted:
    case v1::UploadAnswer::ANSWER_NOT_SET:
      return;
  }
}

void Lane::OnEnd(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  ended_ = true;
  if (failure_.ok()) {
    failure_ = status;
    if (status.ok() && files_done_ < files_begun_) {
      failure_ = absl::InternalError("the server ended the stream before all files were done");
    }
  }
  changed_.notify_all();
}

void Lane::Fail(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }
  stream_->Cancel();
}

absl::Status Lane::OnChunks(const v1::Chunks& chunks) {
  File* file = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return absl::OkStatus();
    for (const std::unique_ptr<File>& candidate : files_) {
      if (candidate->number == chunks.file_number()) {
        file = candidate.get();
        break;
      }
    }
  }
  if (file == nullptr) {
    return absl::InternalError(
        Cat("the server answered for file ", chunks.file_number(), ", which is not on its way"));
  }
  for (const v1::Chunk& chunk : chunks.chunks()) KERF_RETURN_IF_ERROR(TakeChunk(*file, chunk));
  spent_.clear();
  std::unique_lock lock(mutex_);
  CompleteFront(lock);
  return absl::OkStatus();
}

absl::Status Lane::TakeChunk(File& file, const v1::Chunk& chunk) {
  if (chunk.end_offset() <= file.answered_bytes ||
      chunk.end_offset() - file.answered_bytes > UINT32_MAX ||
      chunk.digest().size() != digest_size_bytes_) {
    return absl::InternalError(
        Cat("the server answered a malformed chunk that ends at ", chunk.end_offset()));
  }
  AnsweredChunk answered;
  answered.length_bytes = static_cast<std::uint32_t>(chunk.end_offset() - file.answered_bytes);
  std::memcpy(answered.digest.bytes.data(), chunk.digest().data(), digest_size_bytes_);
  answered.verdict = chunk.verdict();
  answered.locator = chunk.locator();
  KERF_ASSIGN_OR_RETURN(const std::span<const std::uint8_t> bytes,
                        Collect(file, answered.length_bytes));
  if (XXH3_64bits(bytes.data(), bytes.size()) != chunk.check()) {
    return absl::DataLossError(
        "the server cut other bytes than were sent: memory or network is faulty");
  }
  if (answered.verdict != v1::VERDICT_DUPLICATE) {
    std::lock_guard lock(mutex_);
    ++pending_chunks_;
  }
  KERF_RETURN_IF_ERROR(taker_.Take(*this, answered, bytes));
  std::lock_guard lock(mutex_);
  file.answered_bytes = chunk.end_offset();
  file.recipe.push_back({answered.digest, answered.length_bytes});
  return absl::OkStatus();
}

// The next bytes of the file in one piece. Blocks that are used up stay alive in spent_ until the
// message has been worked off.
absl::StatusOr<std::span<const std::uint8_t>> Lane::Collect(File& file, std::size_t length_bytes) {
  std::lock_guard lock(mutex_);
  joined_.clear();
  std::size_t left_bytes = length_bytes;
  while (left_bytes > 0) {
    if (file.segments.empty()) {
      return absl::InternalError("the server answered more bytes than were sent");
    }
    Segment& segment = file.segments.front();
    const std::size_t count = std::min(left_bytes, segment.length_bytes - file.consumed_bytes);
    const std::uint8_t* begin =
        segment.data.block->data() + segment.data.position + file.consumed_bytes;
    const bool whole = count == length_bytes;
    if (!whole) joined_.insert(joined_.end(), begin, begin + count);
    file.consumed_bytes += count;
    left_bytes -= count;
    if (file.consumed_bytes == segment.length_bytes) {
      if (spent_.empty() || spent_.back() != segment.data.block) {
        spent_.push_back(std::move(segment.data.block));
      }
      file.segments.pop_front();
      file.consumed_bytes = 0;
    }
    if (whole) return std::span(begin, count);
  }
  return std::span<const std::uint8_t>(joined_);
}

}  // namespace kerf::agent
