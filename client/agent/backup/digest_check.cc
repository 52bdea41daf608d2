#include "client/agent/backup/digest_check.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{512} << 10;
// What is as large keeps all lanes of a vector busy by itself, and is not worth copying.
constexpr std::size_t kAloneBytes = std::size_t{64} << 10;

}  // namespace

absl::Status DigestCheck::Compare(const Digest& digest, const Digest& own,
                                  std::size_t length_bytes) const {
  if (own == digest) return absl::OkStatus();
  const std::size_t size_bytes = DigestSizeBytes(algorithm_);
  return absl::DataLossError(Cat("a chunk of ", length_bytes, " bytes was named ",
                                 DigestToHex(digest, size_bytes), " but has the fingerprint ",
                                 DigestToHex(own, size_bytes),
                                 ": the server or the memory of a machine is faulty"));
}

absl::Status DigestCheck::Check(const Batch& batch) const {
  std::vector<std::span<const std::uint8_t>> chunks;
  chunks.reserve(batch.chunks.size());
  std::span<const std::uint8_t> rest(batch.bytes);
  for (const Chunk& chunk : batch.chunks) {
    chunks.push_back(rest.first(chunk.length_bytes));
    rest = rest.subspan(chunk.length_bytes);
  }
  std::vector<Digest> digests(chunks.size());
  FingerprintMany(algorithm_, chunks, digests);
  for (std::size_t index = 0; index < digests.size(); ++index) {
    const Chunk& chunk = batch.chunks[index];
    KERF_RETURN_IF_ERROR(Compare(chunk.digest, digests[index], chunk.length_bytes));
  }
  return absl::OkStatus();
}

// Gives the lock away while it hashes.
absl::Status DigestCheck::CheckWaiting(std::unique_lock<std::mutex>& lock) {
  Batch batch = std::exchange(waiting_, Batch());
  ++running_count_;
  lock.unlock();
  const absl::Status status = Check(batch);
  batch.bytes.clear();
  lock.lock();
  spare_buffers_.push_back(std::move(batch.bytes));
  --running_count_;
  if (failure_.ok()) failure_ = status;
  changed_.notify_all();
  return failure_;
}

absl::Status DigestCheck::Add(const Digest& digest, std::span<const std::uint8_t> bytes) {
  if (bytes.size() >= kAloneBytes) {
    const absl::Status status = Compare(digest, Fingerprint(algorithm_, bytes), bytes.size());
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
    return failure_;
  }
  std::unique_lock lock(mutex_);
  if (waiting_.bytes.capacity() == 0) {
    if (!spare_buffers_.empty()) {
      waiting_.bytes = std::move(spare_buffers_.back());
      spare_buffers_.pop_back();
    }
    waiting_.bytes.reserve(kBatchBytes);
  }
  waiting_.bytes.insert(waiting_.bytes.end(), bytes.begin(), bytes.end());
  waiting_.chunks.push_back({digest, bytes.size()});
  if (waiting_.bytes.size() + kAloneBytes <= kBatchBytes) return failure_;
  return CheckWaiting(lock);
}

absl::Status DigestCheck::Finish() {
  std::unique_lock lock(mutex_);
  if (!waiting_.chunks.empty()) static_cast<void>(CheckWaiting(lock));
  changed_.wait(lock, [this] { return running_count_ == 0; });
  return failure_;
}

}  // namespace kerf::agent
