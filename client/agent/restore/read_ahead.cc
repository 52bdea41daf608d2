#include "client/agent/restore/read_ahead.h"

#include <utility>

#include "base/status.h"

namespace kerf::agent {

absl::StatusOr<std::vector<std::uint8_t>> ReadRun(ChunkReader& reader, ChunkRun run) {
  std::vector<std::uint8_t> bytes = std::move(run.buffer);
  bytes.clear();
  for (const ChunkRef& ref : run.chunks) {
    const absl::StatusOr<ChunkBytes> chunk = reader.Read(ref);
    // The snapshot promises the chunk: without it the store is damaged.
    if (absl::IsNotFound(chunk.status())) return absl::DataLossError(chunk.status().message());
    KERF_RETURN_IF_ERROR(chunk.status());
    bytes.insert(bytes.end(), chunk->bytes().begin(), chunk->bytes().end());
  }
  return bytes;
}

ReadAhead::ReadAhead(ChunkReader& reader, unsigned thread_count) : reader_(reader) {
  for (unsigned index = 0; index < thread_count; ++index) {
    threads_.emplace_back([this] { Work(); });
  }
}

ReadAhead::~ReadAhead() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

ReadAhead::Result ReadAhead::Read(ChunkRun run) {
  Task task([this, run = std::move(run)]() mutable { return ReadRun(reader_, std::move(run)); });
  Result result = task.get_future();
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  changed_.notify_one();
  return result;
}

void ReadAhead::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (stopping_) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace kerf::agent
