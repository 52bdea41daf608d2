#include "server/worker/batch_answers.h"

#include "base/status.h"
#include "kernels/fingerprint/digest.h"

namespace kerf {
namespace {

// Kept by the thread and not by each of thousands of streams.
std::vector<ChunkAnswer>& ThreadAnswers() {
  static thread_local std::vector<ChunkAnswer> answers;
  return answers;
}

}  // namespace

BatchAnswers::BatchAnswers(Session* session, std::string* encoded)
    : session_(*session),
      encoded_(*encoded),
      digest_bytes_(DigestSizeBytes(session->parameters().repository.digest_algorithm)),
      answered_(ThreadAnswers()) {
  answered_.clear();
}

absl::Status BatchAnswers::Add(std::uint64_t file_number, std::uint64_t end_offset,
                               std::uint32_t length_bytes, const Digest& digest,
                               std::uint64_t check, LookupResult* result) {
  if (result->verdict != Verdict::kNew && result->length_bytes != length_bytes) {
    *result = LookupResult{};
  }
  KERF_RETURN_IF_ERROR(session_.AddChunk(
      {file_number, end_offset, length_bytes, digest, result->verdict, result->absent_at}));
  tally_.Add(result->verdict, length_bytes);
  new_count_ += result->verdict == Verdict::kNew ? 1 : 0;
  if (file_number != file_number_) AppendFile();
  file_number_ = file_number;
  answered_.push_back({end_offset, &digest, result->verdict, result->locator, check});
  return absl::OkStatus();
}

void BatchAnswers::AppendFile() {
  if (answered_.empty()) return;
  AppendChunks(file_number_, answered_, digest_bytes_, &encoded_);
  answered_.clear();
}

void BatchAnswers::Finish(StreamMetrics* metrics) {
  AppendFile();
  if (metrics != nullptr) tally_.FlushTo(*metrics);
}

}  // namespace kerf
