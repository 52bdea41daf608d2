// Gets the content of large files out of the store ahead of who writes it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "client/store/packs/chunk_reader.h"

namespace kerf::agent {

// A run of a recipe's chunks.
struct ChunkRun {
  std::vector<ChunkRef> chunks;
  // Where its bytes go. One that was used before spares the kernel's clearing of new pages.
  std::vector<std::uint8_t> buffer;
};

// The bytes of the run, joined, in its buffer. DataLoss if the store lacks a chunk or holds it
// damaged.
absl::StatusOr<std::vector<std::uint8_t>> ReadRun(ChunkReader& reader, ChunkRun run);

// Threads that read runs. Thread-safe.
class ReadAhead {
 public:
  using Result = std::future<absl::StatusOr<std::vector<std::uint8_t>>>;

  // `reader` outlives it.
  ReadAhead(ChunkReader& reader, unsigned thread_count);
  // Runs that nobody has begun to read are dropped: their results are broken promises, so that
  // who asked must be gone.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // As ReadRun, some time later; runs are begun in the order in which they were asked for.
  Result Read(ChunkRun run);

 private:
  using Task = std::packaged_task<absl::StatusOr<std::vector<std::uint8_t>>()>;

  void Work();

  ChunkReader& reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kerf::agent
