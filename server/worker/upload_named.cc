// Files that the client has cut: their chunks are named, looked up and answered, and no bytes come.
#include <chrono>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "server/audit/call_record.h"
#include "server/errors/errors.h"
#include "server/worker/batch_answers.h"
#include "server/worker/upload.h"

namespace kerf {

Task<absl::Status> Upload::OnChunkDigests(const v1::ChunkDigests& named) {
  const std::uint64_t before = session_.received_offset();
  KERF_CO_RETURN_IF_ERROR(session_.AddDigests(named));
  KERF_CO_RETURN_IF_ERROR(CountNamed(session_.received_offset() - before));
  const auto count = static_cast<std::size_t>(named.lengths_bytes_size());
  for (std::size_t first = 0; first < count;) {
    first += named_->Append(named, first, kBatchChunks - named_->chunks().size());
    if (named_->chunks().size() < kBatchChunks) break;
    KERF_CO_RETURN_IF_ERROR(co_await AnswerNamed());
    while (is_blocked()) co_await strand_.NextTurn();
    if (strand_.is_turn_over()) co_await strand_.Yield();
  }
  co_return absl::OkStatus();
}

// As if the bytes had come: quotas, metrics and the record are of files, not of what names them.
absl::Status Upload::CountNamed(std::uint64_t named_bytes) {
  // It was read before anybody could hold it against the quota of the repository, and whoever opens
  // one stream after the other would owe that as much as he likes.
  if (is_opening_) {
    return MakeError(Reason::kFrameOrder,
                     "chunks or data are named in the message of Open: the client waits for "
                     "Opened, which says whether it may name any");
  }
  message_named_bytes_ += named_bytes;
  if (message_named_bytes_ > max_named_bytes_) {
    return MakeError(Reason::kMessageTooLarge,
                     Cat("a message names ", message_named_bytes_, " bytes of files; at most ",
                         max_named_bytes_, " are taken"),
                     {{"limit", Cat(max_named_bytes_)}});
  }
  strand_.record().Add(audit::Count::kBytes, named_bytes);
  if (context_.metrics != nullptr) context_.metrics->ingest_bytes.Add(named_bytes);
  strand_.sink().CountNamed(named_bytes);
  return absl::OkStatus();
}

Task<absl::Status> Upload::EndNamedFile(const v1::FileEnd& end) {
  KERF_CO_RETURN_IF_ERROR(session_.EndFile(end, named_->EndFile()));
  strand_.record().Add(audit::Count::kFiles, 1);
  co_return AnswerDone();
}

Task<absl::Status> Upload::AnswerNamed() {
  if (named_->chunks().empty()) co_return absl::OkStatus();
  const std::shared_ptr<StreamCall> call = NewCall();
  call->digests = named_->TakeDigests();
  KERF_CO_RETURN_IF_ERROR(co_await LookUp(call));
  NoteEpoch(*call);
  const std::span<const NamedChunk> chunks = named_->chunks();
  BatchAnswers batch(&session_, &answers_);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    const NamedChunk& chunk = chunks[index];
    // Of bytes that have not come there is no checksum.
    KERF_CO_RETURN_IF_ERROR(batch.Add(chunk.file_number, chunk.end_offset, chunk.length_bytes,
                                      call->digests[index], 0, &call->results[index]));
  }
  FinishBatch(batch, chunks.size());
  named_->ClearChunks();
  co_return FinishAnswer();
}

}  // namespace kerf
