#include "client/store/copy/chunk_transfer.h"

#include <optional>
#include <span>
#include <utility>

#include "base/parallel.h"
#include "base/status.h"

namespace kerf::agent {
namespace {

// Of one batch, which is read by all threads and then written in order.
constexpr std::size_t kMaxWantedChunks = 1024;
constexpr std::uint64_t kMaxWantedBytes = std::uint64_t{16} << 20;

}  // namespace

ChunkTransfer::ChunkTransfer(ChunkReader& source, const Store& target, ChunkIndex& index,
                             const TransferOptions& options)
    : source_(source),
      target_(target),
      index_(index),
      options_(options),
      data_writer_(MakeWriter(options.thread_count, options.compression)),
      metadata_writer_(MakeWriter(1, ForMetadata(options.compression))) {}

std::unique_ptr<PackWriter> ChunkTransfer::MakeWriter(unsigned thread_count,
                                                      const Compression& compression) {
  PackWriterOptions options;
  options.packs_directory = target_.packs_directory();
  options.temporary_directory = target_.temporary_directory();
  options.digest_algorithm = target_.digest_algorithm();
  options.compression = compression;
  options.target_pack_bytes = options_.target_pack_bytes;
  options.thread_count = thread_count;
  options.on_sealed = [this](SealedPack pack) { OnSealed(std::move(pack)); };
  options.on_parity_failed = options_.on_parity_failed;
  return std::make_unique<PackWriter>(std::move(options));
}

void ChunkTransfer::OnSealed(SealedPack pack) {
  const std::lock_guard lock(mutex_);
  const std::vector<PackChunk>& chunks = pack.footer.chunks;
  for (std::uint32_t index = 0; index < chunks.size(); ++index) {
    unsealed_.erase(chunks[index].digest);
    sealed_.push_back(
        {chunks[index].digest, chunks[index].length_bytes, EncodeLocator(pack.id, index)});
  }
  index_.AddPack(std::move(pack));
}

bool ChunkTransfer::IsStored(const ChunkRef& chunk) {
  const std::lock_guard lock(mutex_);
  // With another length one of the two is wrong, which reading it finds out.
  if (const auto found = unsealed_.find(chunk.digest); found != unsealed_.end()) {
    return found->second == chunk.length_bytes;
  }
  if (condemned_.contains(chunk.digest)) return false;
  const std::optional<ChunkPlace> place = index_.Locate(chunk.digest);
  return place.has_value() && place->chunk().length_bytes == chunk.length_bytes;
}

absl::Status ChunkTransfer::Want(const ChunkRef& chunk, Kind kind) {
  if (kind != wanted_kind_) KERF_RETURN_IF_ERROR(CopyWanted());
  wanted_kind_ = kind;
  if (IsStored(chunk)) return absl::OkStatus();
  wanted_.push_back(chunk);
  wanted_bytes_ += chunk.length_bytes;
  const bool is_full = wanted_.size() >= kMaxWantedChunks || wanted_bytes_ >= kMaxWantedBytes;
  return is_full ? CopyWanted() : absl::OkStatus();
}

void ChunkTransfer::DropWanted() {
  wanted_.clear();
  wanted_bytes_ = 0;
}

absl::Status ChunkTransfer::OfTarget(const absl::Status& status) {
  if (!status.ok()) target_failed_ = true;
  return status;
}

absl::Status ChunkTransfer::CopyWanted() {
  const std::vector<ChunkRef> wanted = std::move(wanted_);
  DropWanted();
  if (options_.cancelled && options_.cancelled()) {
    return absl::CancelledError("the copying was interrupted");
  }
  // The bytes alone: blocks, of which a hostile store may have large ones, are not kept for all.
  std::vector<absl::StatusOr<std::vector<std::uint8_t>>> read(wanted.size(),
                                                              absl::UnknownError(""));
  ForEachInParallel(wanted.size(), options_.thread_count, [&](std::size_t index) {
    const absl::StatusOr<ChunkBytes> bytes = source_.Read(wanted[index]);
    if (bytes.ok()) {
      read[index].emplace(bytes->bytes().begin(), bytes->bytes().end());
    } else {
      read[index] = bytes.status();
    }
  });
  PackWriter& writer = wanted_kind_ == Kind::kData ? *data_writer_ : *metadata_writer_;
  for (std::size_t index = 0; index < wanted.size(); ++index) {
    KERF_RETURN_IF_ERROR(read[index].status());
    const Digest& digest = wanted[index].digest;
    {
      const std::lock_guard lock(mutex_);
      // One that stands in the batch twice.
      if (!unsealed_.emplace(digest, wanted[index].length_bytes).second) continue;
    }
    // The new copy counts, which no plan can name that was published before.
    condemned_.erase(digest);
    KERF_RETURN_IF_ERROR(OfTarget(writer.Add(digest, *read[index])));
    ++new_chunk_count_;
    new_bytes_ += wanted[index].length_bytes;
    unflushed_bytes_ += wanted[index].length_bytes;
  }
  return absl::OkStatus();
}

absl::Status ChunkTransfer::Flush() {
  KERF_RETURN_IF_ERROR(OfTarget(data_writer_->Flush()));
  KERF_RETURN_IF_ERROR(OfTarget(metadata_writer_->Flush()));
  unflushed_bytes_ = 0;
  return absl::OkStatus();
}

std::uint64_t ChunkTransfer::stored_bytes() const {
  return data_writer_->stored_bytes() + metadata_writer_->stored_bytes();
}

std::vector<StoredChunk> ChunkTransfer::TakeSealed() {
  const std::lock_guard lock(mutex_);
  return std::exchange(sealed_, {});
}

}  // namespace kerf::agent
