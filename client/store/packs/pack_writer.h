// Turns chunks into packs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/pack_format.h"
#include "client/store/packs/block_compressor.h"
#include "client/store/packs/compression.h"
#include "client/store/packs/write_pace.h"

namespace kerf::agent {

// A pack that has just become durable.
struct SealedPack {
  PackId id;
  PackFooter footer;
  std::uint64_t file_bytes = 0;
};

struct PackWriterOptions {
  std::string packs_directory;
  std::string temporary_directory;
  DigestAlgorithm digest_algorithm = DigestAlgorithm::kBlake3;
  Compression compression;
  // A pack is sealed when it has grown to this,
  std::uint64_t target_pack_bytes = std::uint64_t{64} << 20;
  // or lists as many chunks: small ones that compress well must not make a footer that is larger
  // than readers take (kMaxFooterBytes).
  std::size_t max_pack_chunks = std::size_t{1} << 18;
  // 0: one more than there are cores, since one of them may wait for the disk to seal a pack.
  unsigned thread_count = 0;
  // Called once for each pack when it is durable, from one of the writer's threads; several packs
  // may come at once.
  std::function<void(SealedPack)> on_sealed;
  // A pack of a store that keeps parity (client/store/parity) has none, though it is durable
  // itself; from any of the threads. Says what to do.
  std::function<void(const absl::Status&)> on_parity_failed;
};

// Compresses and writes on threads of its own; holds a few blocks for each of them in memory. Packs
// that are not sealed when the writer goes away leave nothing behind. Thread-safe.
class PackWriter {
 public:
  explicit PackWriter(PackWriterOptions options);
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  // Takes a copy of the chunk, which is not empty. Waits while the threads are behind. After any
  // failure (disk full,
  // ...) it and Flush return that failure. A chunk whose fingerprint is not `digest` is such a
  // failure (DataLoss): no pack ever names bytes wrongly.
  absl::Status Add(const Digest& digest, std::span<const std::uint8_t> bytes);

  // Returns when everything that was added before is durable and on_sealed has returned for it.
  absl::Status Flush();

  // Bytes of the packs that are sealed.
  std::uint64_t stored_bytes() const;

 private:
  struct Block {
    // In the order of their way into the queue.
    std::uint64_t ticket = 0;
    std::vector<std::uint8_t> raw;
    // block_index is set when the block gets its place in a pack.
    std::vector<PackChunk> chunks;
  };
  struct OpenPack;

  void Enqueue(std::unique_lock<std::mutex>& lock);
  void Run();
  absl::Status CheckFingerprints(const Block& block) const;
  absl::Status WriteBlock(Block& block, BlockCompressor& compressor);
  absl::StatusOr<std::shared_ptr<OpenPack>> Place(Block& block, std::size_t stored_bytes,
                                                  bool is_compressed, std::uint64_t& offset);
  absl::StatusOr<std::shared_ptr<OpenPack>> CreatePack();
  absl::Status Seal(const std::shared_ptr<OpenPack>& pack);
  void AddParity(const std::string& path, const OpenPack& pack) const;
  // True if a block up to `ticket` has not yet got that far.
  static bool AnyUpTo(const std::set<std::uint64_t>& tickets, std::uint64_t ticket) {
    return !tickets.empty() && *tickets.begin() <= ticket;
  }

  const PackWriterOptions options_;
  std::size_t max_queued_blocks_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Block current_;
  std::deque<Block> queue_;
  // Of blocks that are written: the kernel would clear the pages of new ones.
  std::vector<std::vector<std::uint8_t>> spare_buffers_;
  WritePace pace_;
  std::uint64_t last_ticket_ = 0;
  // Of blocks that have no place in a pack yet, and of those that are not durable yet.
  std::set<std::uint64_t> unplaced_;
  std::set<std::uint64_t> unsealed_;
  // The pack that takes blocks; null if there is none.
  std::shared_ptr<OpenPack> pack_;
  absl::Status failure_;
  std::uint64_t stored_bytes_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kerf::agent
