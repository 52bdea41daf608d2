#include "client/agent/cut/parallel_file_cutter.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/page_bytes.h"
#include "base/status.h"
#include "base/threads.h"
#include "kernels/parallel_cut.h"

namespace kerf::agent {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Chunks that one thread hashes before it takes the next ones.
constexpr std::size_t kHashedChunks = 64;

// Fewer bytes than room: the end of the file.
absl::StatusOr<std::size_t> ReadFully(int fd, std::span<std::uint8_t> room) {
  std::size_t filled = 0;
  while (filled < room.size()) {
    const ssize_t count = read(fd, room.data() + filled, room.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, "read");
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  return filled;
}

// A window, in front of which there is room for what the one before left over.
class Window {
 public:
  Window(std::size_t carry_bytes, std::size_t window_bytes)
      // Files are read to a page.
      : carry_bytes_(RoundUpToPages(carry_bytes)),
        window_bytes_(window_bytes),
        bytes_(NewPageBytes(carry_bytes_ + window_bytes)) {}

  std::span<std::uint8_t> room() { return {bytes_.get() + carry_bytes_, window_bytes_}; }

  // The first `filled` bytes of the room with `carry` in front of them.
  Bytes WithCarry(Bytes carry, std::size_t filled) {
    KERF_CHECK(carry.size() <= carry_bytes_);
    std::uint8_t* const start = bytes_.get() + carry_bytes_ - carry.size();
    if (!carry.empty()) std::memcpy(start, carry.data(), carry.size());
    return {start, carry.size() + filled};
  }

 private:
  std::size_t carry_bytes_;
  std::size_t window_bytes_;
  PageBytes bytes_;
};

void HashAll(DigestAlgorithm algorithm, std::size_t thread_count, Bytes window,
             std::uint64_t window_offset, std::span<FileChunk> chunks) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    std::vector<Bytes> bytes;
    std::vector<Digest> digests(kHashedChunks);
    for (std::size_t first = next.fetch_add(kHashedChunks); first < chunks.size();
         first = next.fetch_add(kHashedChunks)) {
      const auto batch = chunks.subspan(first, std::min(kHashedChunks, chunks.size() - first));
      bytes.clear();
      for (const FileChunk& chunk : batch) {
        bytes.push_back(window.subspan(chunk.offset_bytes - window_offset, chunk.length_bytes));
      }
      FingerprintMany(algorithm, bytes, std::span(digests).first(batch.size()));
      for (std::size_t index = 0; index < batch.size(); ++index) {
        batch[index].digest = digests[index];
      }
    }
  };
  const std::size_t batch_count = (chunks.size() + kHashedChunks - 1) / kHashedChunks;
  const std::vector<std::jthread> helpers =
      StartHelpers(std::min(thread_count - 1, batch_count), work);
  work();
}

// The chunks of a window of the file that bytes behind it cannot change; all at the end of the
// file.
std::vector<FileChunk> DecidedChunks(const ParallelFileOptions& options, Bytes window,
                                     std::uint64_t window_offset, bool is_end) {
  const ParallelCutOptions cut = {.thread_count = options.thread_count, .backend = options.backend};
  std::vector<FileChunk> chunks;
  std::uint64_t start = 0;
  for (const std::uint64_t end : CutInParallel(options.profile, window, cut)) {
    if (!is_end && start + options.profile.max_bytes > window.size()) break;
    chunks.push_back({window_offset + start, static_cast<std::size_t>(end - start), {}});
    start = end;
  }
  return chunks;
}

}  // namespace

absl::Status CutFileInParallel(int fd, const ParallelFileOptions& options,
                               const std::atomic<bool>& cancelled,
                               const std::function<void(std::span<const FileChunk>)>& take) {
  KERF_CHECK(options.thread_count > 0 && options.window_bytes >= options.profile.max_bytes);
  Window windows[2] = {{options.profile.max_bytes, options.window_bytes},
                       {options.profile.max_bytes, options.window_bytes}};
  const auto fill = [&](Window& window) {
    try {
      return std::async(std::launch::async, ReadFully, fd, window.room());
    } catch (const std::system_error&) {
      // No thread to be had: it is read when it is asked for.
      return std::async(std::launch::deferred, ReadFully, fd, window.room());
    }
  };
  std::uint64_t offset_bytes = 0;
  Bytes carry;
  std::future<absl::StatusOr<std::size_t>> reading = fill(windows[0]);
  for (std::size_t number = 0;; ++number) {
    KERF_ASSIGN_OR_RETURN(const std::size_t filled, reading.get());
    if (cancelled) return absl::CancelledError("interrupted");
    const bool is_end = filled < options.window_bytes;
    const Bytes window = windows[number % 2].WithCarry(carry, filled);
    // What was carried has been copied: its window is free.
    if (!is_end) reading = fill(windows[(number + 1) % 2]);
    std::vector<FileChunk> chunks = DecidedChunks(options, window, offset_bytes, is_end);
    HashAll(options.digest, options.thread_count, window, offset_bytes, chunks);
    take(chunks);
    if (is_end) return absl::OkStatus();
    const std::size_t decided_bytes =
        chunks.empty() ? 0
                       : static_cast<std::size_t>(chunks.back().offset_bytes - offset_bytes) +
                             chunks.back().length_bytes;
    carry = window.subspan(decided_bytes);
    offset_bytes += decided_bytes;
  }
}

}  // namespace kerf::agent
