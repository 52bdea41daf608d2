// The chunks of one lookup on their way to the client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/index/index.h"
#include "server/session/session.h"
#include "server/worker/answer_encoder.h"
#include "server/worker/stream_metrics.h"

namespace kerf {

// For one batch; not thread-safe. All that it is given outlives it, digests and locators too.
class BatchAnswers {
 public:
  BatchAnswers(Session* session, std::string* encoded);

  // The next chunk of the stream, with what the index says of its digest, which the session then
  // has, too. An entry of another length is of another chunk, whatever the digest says: the verdict
  // that was answered is in `result`. TOO_MANY_UNCOMMITTED_CHUNKS.
  absl::Status Add(std::uint64_t file_number, std::uint64_t end_offset, std::uint32_t length_bytes,
                   const Digest& digest, std::uint64_t check, LookupResult* result);
  // Behind the last one: all of them are in `encoded`.
  void Finish(StreamMetrics* metrics);

  std::uint64_t new_count() const { return new_count_; }

 private:
  void AppendFile();

  Session& session_;
  std::string& encoded_;
  const std::size_t digest_bytes_;
  std::vector<ChunkAnswer>& answered_;
  std::uint64_t file_number_ = 0;
  std::uint64_t new_count_ = 0;
  ChunkTally tally_;
};

}  // namespace kerf
