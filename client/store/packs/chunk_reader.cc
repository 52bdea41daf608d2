#include "client/store/packs/chunk_reader.h"

#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/block.h"

namespace kerf::agent {
namespace {

// Damaged blocks that a shard remembers; those beyond are read again for each chunk.
constexpr std::size_t kMaxDamagedBlocks = 4096;
// Packs with an unreadable copy that are remembered.
constexpr std::size_t kMaxSteppedOver = 1000;

}  // namespace

ChunkReader::ChunkReader(ChunkPlaces& places, const Options& options)
    : places_(places), options_(options) {}

absl::StatusOr<ChunkBytes> ChunkReader::Read(const ChunkRef& chunk) {
  CopyFailure failure;
  absl::StatusOr<ChunkBytes> bytes = ReadAnyCopy(chunk, failure);
  if (bytes.ok() || !failure.looks_moved) return bytes;
  KERF_RETURN_IF_ERROR(LookAgain(failure.is_unknown));
  failure = {};
  return ReadAnyCopy(chunk, failure);
}

absl::StatusOr<ChunkBytes> ChunkReader::ReadAnyCopy(const ChunkRef& chunk, CopyFailure& failure) {
  const std::optional<ChunkPlace> first = places_.Locate(chunk.digest);
  if (!first.has_value()) {
    failure.looks_moved = failure.is_unknown = true;
    return DescribeUnknown(chunk);
  }
  absl::StatusOr<ChunkBytes> bytes = ReadAt(*first, chunk);
  if (bytes.ok()) return bytes;
  std::vector<Unreadable> failed;
  const auto note = [&](const ChunkPlace& place, const absl::Status& status) {
    // A pack that is gone is no damage: a collection may have moved the chunk.
    failure.looks_moved |= absl::IsNotFound(status);
    if (!absl::IsNotFound(status)) failed.push_back({place, status});
  };
  note(*first, bytes.status());
  // Whatever is wrong with this copy, another one may be sound.
  for (const ChunkPlace& place : places_.LocateAll(chunk.digest)) {
    if (place.pack == first->pack && place.chunk_index == first->chunk_index) continue;
    bytes = ReadAt(place, chunk);
    if (bytes.ok()) {
      StepOver(std::move(failed));
      return bytes;
    }
    note(place, bytes.status());
  }
  if (failed.empty()) return bytes;
  return ReadAnyWithParity(chunk, std::move(failed));
}

absl::StatusOr<ChunkBytes> ChunkReader::ReadAnyWithParity(const ChunkRef& chunk,
                                                          std::vector<Unreadable> failed) {
  for (Unreadable& copy : failed) {
    absl::StatusOr<ChunkBytes> bytes = ReadWithParity(copy.place, chunk);
    if (absl::IsNotFound(bytes.status())) continue;
    const std::string_view ending = bytes.ok() ? "its parity gave back what is lost (mend it with "
                                                 "`kerf repair --packs --apply`)"
                                               : MessageOf(bytes.status());
    copy.status =
        absl::Status(copy.status.code(), ToAbsl(Cat(MessageOf(copy.status), "; ", ending)));
    if (bytes.ok()) {
      StepOver(std::move(failed));
      return bytes;
    }
  }
  return failed.front().status;
}

absl::Status ChunkReader::DescribeUnknown(const ChunkRef& chunk) const {
  const std::string name = DigestToHex(chunk.digest, 32);
  const std::vector<UnlistedFolder> unlisted = places_.unlisted();
  if (unlisted.empty()) return absl::NotFoundError(Cat("no pack holds chunk ", name));
  return absl::DataLossError(Cat("no pack that can be found holds chunk ", name, ", and ",
                                 MessageOf(unlisted.front().status)));
}

absl::Status ChunkReader::LookAgain(bool is_unknown) {
  const std::lock_guard lock(look_mutex_);
  if (is_unknown && settled_) return absl::OkStatus();
  KERF_ASSIGN_OR_RETURN(const bool has_changed, places_.LookAgain());
  settled_ = options_.old_chunks_only && !has_changed;
  return absl::OkStatus();
}

void ChunkReader::StepOver(std::vector<Unreadable> copies) {
  const std::lock_guard lock(stepped_over_mutex_);
  for (Unreadable& copy : copies) {
    if (stepped_over_.size() < kMaxSteppedOver) {
      stepped_over_.emplace(places_.PackPath(copy.place.pack->id), std::move(copy.status));
    }
  }
}

std::vector<absl::Status> ChunkReader::stepped_over() const {
  const std::lock_guard lock(stepped_over_mutex_);
  std::vector<absl::Status> statuses;
  statuses.reserve(stepped_over_.size());
  for (const auto& [pack, status] : stepped_over_) statuses.push_back(status);
  return statuses;
}

absl::StatusOr<ChunkBytes> ChunkReader::ReadFrom(const ChunkPlace& place, const ChunkRef& chunk,
                                                 Source source) {
  const PackChunk& row = place.chunk();
  if (row.length_bytes != chunk.length_bytes) {
    return absl::DataLossError(Cat(places_.PackPath(place.pack->id), ": it holds a chunk of ",
                                   row.length_bytes, " bytes where the recipe has ",
                                   chunk.length_bytes));
  }
  KERF_ASSIGN_OR_RETURN(Block block, GetBlock(place, source));
  const std::span<const std::uint8_t> bytes(block->data() + row.offset_in_block, row.length_bytes);
  if (options_.verify && Fingerprint(place.pack->footer.digest_algorithm, bytes) != chunk.digest) {
    return absl::DataLossError(Cat(places_.PackPath(place.pack->id), ": chunk ",
                                   DigestToHex(chunk.digest, 32), " is damaged"));
  }
  return ChunkBytes(std::move(block), bytes);
}

absl::StatusOr<ChunkReader::Block> ChunkReader::GetBlock(const ChunkPlace& place, Source source) {
  std::string key(place.pack->id.bytes.begin(), place.pack->id.bytes.end());
  const std::uint32_t block_index = place.chunk().block_index;
  key.append(reinterpret_cast<const char*>(&block_index), sizeof block_index);
  key.push_back(static_cast<char>(source));
  Shard& shard = shards_[std::hash<std::string>()(key) % shards_.size()];
  std::unique_lock lock(shard.mutex);
  while (true) {
    if (const auto found = shard.by_key.find(key); found != shard.by_key.end()) {
      shard.recent.splice(shard.recent.begin(), shard.recent, found->second);
      return found->second->block;
    }
    if (const auto found = shard.damaged.find(key); found != shard.damaged.end()) {
      return found->second;
    }
    if (shard.loading.insert(key).second) break;
    shard.loaded.wait(lock);
  }
  lock.unlock();
  absl::StatusOr<Block> block = LoadBlock(place, source);
  lock.lock();
  shard.loading.erase(key);
  if (block.ok()) Keep(shard, key, *block);
  // What parity is not there for now is not worth a look for each chunk either.
  const bool stays_so = absl::IsDataLoss(block.status()) ||
                        (source == Source::kParity && !absl::IsResourceExhausted(block.status()));
  if (!block.ok() && stays_so && shard.damaged.size() < kMaxDamagedBlocks) {
    shard.damaged.emplace(key, block.status());
  }
  shard.loaded.notify_all();
  return block;
}

// Under the shard's lock.
void ChunkReader::Keep(Shard& shard, const std::string& key, const Block& block) const {
  shard.size_bytes += block->size();
  shard.recent.push_front({key, block});
  shard.by_key.emplace(key, shard.recent.begin());
  while (shard.size_bytes > options_.cache_bytes / shards_.size() && shard.recent.size() > 1) {
    shard.size_bytes -= shard.recent.back().block->size();
    shard.by_key.erase(shard.recent.back().key);
    shard.recent.pop_back();
  }
}

absl::StatusOr<ChunkReader::Block> ChunkReader::LoadBlock(const ChunkPlace& place, Source source) {
  if (source == Source::kPack) ++loaded_block_count_;
  const std::string path = places_.PackPath(place.pack->id);
  const auto read = [&]() -> absl::StatusOr<std::vector<std::uint8_t>> {
    if (source == Source::kParity) return ReadBlockWithParity(path, place.pack->id, place.block());
    KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
    return ReadBlock(fd.get(), path, place.block());
  };
  // An exception would leave those waiting who want the same block.
  try {
    KERF_ASSIGN_OR_RETURN(std::vector<std::uint8_t> raw, read());
    return std::make_shared<const std::vector<std::uint8_t>>(std::move(raw));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(Cat(path,
                                            ": there is not enough memory to read a block of ",
                                            place.block().raw_bytes, " bytes"));
  }
}

}  // namespace kerf::agent
