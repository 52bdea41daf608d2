#include "client/store/packs/pack_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/parity/pack_sums.h"
#include "client/store/parity/parity_maker.h"
#include "client/store/parity/parity_setting.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {
namespace {

// Blocks that wait for a thread, for each thread.
constexpr std::size_t kQueuedBlocksPerThread = 2;

}  // namespace

struct PackWriter::OpenPack {
  ~OpenPack() {
    if (!temporary_path.empty()) RemoveFile(temporary_path).IgnoreError();
  }

  PackId id;
  std::string temporary_path;
  UniqueFd fd;
  // Guarded by the writer's mutex.
  std::uint64_t size_bytes = kPackHeaderBytes;
  PackFooter footer;
  // Of what is written: parity is made of what is read again, and of nothing else than that.
  PackSums sums;
  // Of the blocks in it.
  std::set<std::uint64_t> tickets;
  std::size_t writes_running = 0;
  bool closed = false;
};

PackWriter::PackWriter(PackWriterOptions options) : options_(std::move(options)) {
  unsigned thread_count = options_.thread_count;
  if (thread_count == 0) thread_count = std::max(std::thread::hardware_concurrency(), 1u) + 1;
  max_queued_blocks_ = thread_count * kQueuedBlocksPerThread;
  for (unsigned index = 0; index < thread_count; ++index) {
    threads_.emplace_back([this] { Run(); });
  }
}

PackWriter::~PackWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status PackWriter::Add(const Digest& digest, std::span<const std::uint8_t> bytes) {
  KERF_CHECK(!bytes.empty() && bytes.size() <= kMaxBlockRawBytes);
  std::unique_lock lock(mutex_);
  if (!current_.raw.empty() &&
      current_.raw.size() + bytes.size() > options_.compression.block_bytes) {
    Enqueue(lock);
  }
  if (!failure_.ok()) return failure_;
  if (current_.raw.capacity() == 0) {
    if (!spare_buffers_.empty()) {
      current_.raw = std::move(spare_buffers_.back());
      spare_buffers_.pop_back();
    }
    current_.raw.reserve(options_.compression.block_bytes);
  }
  current_.chunks.push_back({digest, 0, static_cast<std::uint32_t>(current_.raw.size()),
                             static_cast<std::uint32_t>(bytes.size())});
  current_.raw.insert(current_.raw.end(), bytes.begin(), bytes.end());
  return absl::OkStatus();
}

// Gives the lock away while the threads are behind.
void PackWriter::Enqueue(std::unique_lock<std::mutex>& lock) {
  Block block = std::exchange(current_, Block());
  block.ticket = ++last_ticket_;
  unplaced_.insert(block.ticket);
  unsealed_.insert(block.ticket);
  changed_.wait(
      lock, [this] { return queue_.size() < max_queued_blocks_ || !failure_.ok() || stopping_; });
  queue_.push_back(std::move(block));
  changed_.notify_all();
}

absl::Status PackWriter::Flush() {
  std::unique_lock lock(mutex_);
  if (!current_.raw.empty()) Enqueue(lock);
  const std::uint64_t ticket = last_ticket_;
  changed_.wait(lock, [&] { return !AnyUpTo(unplaced_, ticket) || !failure_.ok(); });
  if (failure_.ok() && pack_ != nullptr && AnyUpTo(pack_->tickets, ticket)) {
    const std::shared_ptr<OpenPack> pack = std::exchange(pack_, nullptr);
    pack->closed = true;
    // Else the last thread that writes into it seals it.
    if (pack->writes_running == 0) {
      lock.unlock();
      const absl::Status status = Seal(pack);
      lock.lock();
      if (!status.ok() && failure_.ok()) failure_ = status;
      changed_.notify_all();
    }
  }
  changed_.wait(lock, [&] { return !AnyUpTo(unsealed_, ticket) || !failure_.ok(); });
  return failure_;
}

std::uint64_t PackWriter::stored_bytes() const {
  std::lock_guard lock(mutex_);
  return stored_bytes_;
}

void PackWriter::Run() {
  BlockCompressor compressor(options_.compression);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (stopping_) return;
    Block block = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    // What comes after a failure is never called durable.
    if (!failure_.ok()) continue;
    lock.unlock();
    const absl::Status status = WriteBlock(block, compressor);
    block.raw.clear();
    lock.lock();
    if (!status.ok() && failure_.ok()) failure_ = status;
    // A chunk may be larger than a block.
    if (spare_buffers_.size() < max_queued_blocks_ &&
        block.raw.capacity() <= 2 * std::size_t{options_.compression.block_bytes}) {
      spare_buffers_.push_back(std::move(block.raw));
    }
    changed_.notify_all();
  }
}

absl::StatusOr<std::shared_ptr<PackWriter::OpenPack>> PackWriter::CreatePack() {
  auto pack = std::make_shared<OpenPack>();
  const std::string name = RandomHex();
  pack->id = *ParsePackId(name);
  const std::string path = Cat(options_.temporary_directory, "/", name, ".pack");
  KERF_ASSIGN_OR_RETURN(pack->fd, CreateNewFile(path));
  pack->temporary_path = path;
  pack->footer.digest_algorithm = options_.digest_algorithm;
  const auto header = EncodePackHeader(pack->id);
  pack->sums.Add(0, header);
  KERF_RETURN_IF_ERROR(PWriteExactly(pack->fd.get(), header, 0, path));
  return pack;
}

// A fingerprint that is wrong, whether by a fault of memory or by a lying server, would only be
// noticed at restore, when the file is gone.
absl::Status PackWriter::CheckFingerprints(const Block& block) const {
  std::vector<std::span<const std::uint8_t>> chunks;
  chunks.reserve(block.chunks.size());
  for (const PackChunk& chunk : block.chunks) {
    chunks.push_back(std::span(block.raw).subspan(chunk.offset_in_block, chunk.length_bytes));
  }
  std::vector<Digest> digests(chunks.size());
  FingerprintMany(options_.digest_algorithm, chunks, digests);
  for (std::size_t index = 0; index < digests.size(); ++index) {
    if (digests[index] == block.chunks[index].digest) continue;
    const std::size_t size_bytes = DigestSizeBytes(options_.digest_algorithm);
    return absl::DataLossError(
        Cat("a chunk of ", block.chunks[index].length_bytes, " bytes was named ",
            DigestToHex(block.chunks[index].digest, size_bytes), " but has the fingerprint ",
            DigestToHex(digests[index], size_bytes),
            ": the server or the memory of a machine is faulty; nothing of it was stored"));
  }
  return absl::OkStatus();
}

// The open pack and where in it the block goes, which has a place from now on.
absl::StatusOr<std::shared_ptr<PackWriter::OpenPack>> PackWriter::Place(Block& block,
                                                                        std::size_t stored_bytes,
                                                                        bool is_compressed,
                                                                        std::uint64_t& offset) {
  const std::lock_guard lock(mutex_);
  if (pack_ == nullptr) {
    KERF_ASSIGN_OR_RETURN(pack_, CreatePack());
  }
  std::shared_ptr<OpenPack> pack = pack_;
  offset = pack->size_bytes;
  pack->size_bytes += stored_bytes;
  const auto block_index = static_cast<std::uint32_t>(pack->footer.blocks.size());
  pack->footer.blocks.push_back({offset, static_cast<std::uint32_t>(stored_bytes),
                                 static_cast<std::uint32_t>(block.raw.size()), is_compressed});
  for (PackChunk& chunk : block.chunks) {
    chunk.block_index = block_index;
    pack->footer.chunks.push_back(chunk);
  }
  ++pack->writes_running;
  pack->tickets.insert(block.ticket);
  unplaced_.erase(block.ticket);
  changed_.notify_all();
  if (pack->size_bytes >= options_.target_pack_bytes ||
      pack->footer.chunks.size() >= options_.max_pack_chunks) {
    pack->closed = true;
    pack_ = nullptr;
  }
  return pack;
}

absl::Status PackWriter::WriteBlock(Block& block, BlockCompressor& compressor) {
  using Clock = std::chrono::steady_clock;
  KERF_RETURN_IF_ERROR(CheckFingerprints(block));
  Effort effort = Effort::kBrisk;
  {
    const std::lock_guard lock(mutex_);
    if (pace_.disk_is_slow()) effort = Effort::kThorough;
  }
  const Clock::time_point begin = Clock::now();
  KERF_ASSIGN_OR_RETURN(const std::span<const std::uint8_t> frame,
                        compressor.Compress(block.raw, effort));
  const Clock::time_point compressed = Clock::now();
  const std::span<const std::uint8_t> stored = frame.empty() ? block.raw : frame;
  std::uint64_t offset = 0;
  KERF_ASSIGN_OR_RETURN(const std::shared_ptr<OpenPack> pack,
                        Place(block, stored.size(), !frame.empty(), offset));
  PackSums sums;
  sums.Add(offset, stored);
  KERF_RETURN_IF_ERROR(PWriteExactly(pack->fd.get(), stored, offset, pack->temporary_path));
  StartWriteback(pack->fd.get(), offset, stored.size());
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    pack->sums.AddAll(sums);
    is_last = --pack->writes_running == 0 && pack->closed;
  }
  if (is_last) KERF_RETURN_IF_ERROR(Seal(pack));
  const std::lock_guard lock(mutex_);
  pace_.Note(compressed - begin, Clock::now() - compressed);
  return absl::OkStatus();
}

absl::Status PackWriter::Seal(const std::shared_ptr<OpenPack>& pack) {
  const std::vector<std::uint8_t> end = EncodePackEnd(pack->footer, pack->size_bytes);
  pack->sums.Add(pack->size_bytes, end);
  const int fd = pack->fd.get();
  KERF_RETURN_IF_ERROR(PWriteExactly(fd, end, pack->size_bytes, pack->temporary_path));
  KERF_RETURN_IF_ERROR(SyncFile(fd, pack->temporary_path));
  const std::string name = PackIdToHex(pack->id);
  const std::string directory = Cat(options_.packs_directory, "/", name.substr(0, 2));
  KERF_RETURN_IF_ERROR(MakeDirectory(directory));
  // Also if it was there: whoever made it may not have come to this yet.
  KERF_RETURN_IF_ERROR(SyncDirectory(options_.packs_directory));
  const std::string path = Cat(directory, "/", name, ".pack");
  KERF_RETURN_IF_ERROR(PublishFile(pack->temporary_path, path));
  pack->temporary_path.clear();
  AddParity(path, *pack);
  const std::uint64_t file_bytes = pack->size_bytes + end.size();
  {
    std::lock_guard lock(mutex_);
    stored_bytes_ += file_bytes;
  }
  options_.on_sealed({pack->id, std::move(pack->footer), file_bytes});
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t ticket : pack->tickets) unsealed_.erase(ticket);
  changed_.notify_all();
  return absl::OkStatus();
}

// Behind the pack: parity without one is what a collection has left behind, and the next one
// removes. The setting is read each time, and not before the pack is there: whoever changes it
// looks for packs behind that.
void PackWriter::AddParity(const std::string& path, const OpenPack& pack) const {
  const std::string store_directory = DirectoryOf(options_.packs_directory);
  const absl::StatusOr<unsigned> percent = ReadParityPercent(store_directory);
  absl::Status status = percent.status();
  if (percent.ok() && *percent > 0) status = MakeParity(path, pack.id, pack.sums, *percent);
  if (status.ok() || !options_.on_parity_failed) return;
  // A collection beside this has taken it already: it needs none. What is lost with it the check at
  // a backup's end finds.
  if (absl::IsNotFound(status) && !MayExist(path)) return;
  const std::string text = Cat(path, " has no parity (", MessageOf(status),
                               "); `kerf parity --store ", store_directory, "` makes it later");
  options_.on_parity_failed(absl::Status(status.code(), ToAbsl(text)));
}

}  // namespace kerf::agent
