// Which chunks a backup need not store: what it knows of its store, in bounded memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/call_cancellation.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/index/readable_index.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_places.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/placed_chunks.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// Knows the store by a list of all its chunks where that fits, and else by place: of a chunk whose
// place somebody names it looks there (docs/adr/0026-chunks-by-place.md). What is known was seen in
// the store's own footers either way, behind the epoch and the plan that `guard` has read, and lies
// in no place that the plan condemns. Thread-safe, but for what says otherwise.
class KnownChunks {
 public:
  // What the index says of the digests to a session of the epoch, one answer for each of at most
  // kMaxIndexBatch; and its own epoch, as it says it, or 0. Calls come from one thread, and end
  // soon once they are cancelled.
  using LookUp = std::function<absl::StatusOr<std::vector<IndexAnswer>>(
      std::uint64_t epoch, std::span<const Digest> digests, std::uint64_t& index_epoch,
      client::CallCancellation& cancellation)>;
  struct Options {
    // Half of it for the list, and a quarter each for the footers that are looked into and for
    // what this run stores. 0: there is no list, and of the others what is needed. Nothing: the
    // list may have MaxIndexedChunks, and the others are as of kByPlaceBytes. For a list knows all
    // that the store has, and an index may know little of it.
    std::optional<std::uint64_t> memory_bytes = std::nullopt;
    // Of chunks that are not uploaded; empty: nobody can be asked.
    LookUp look_up = {};
    // It has failed and is not called again: files that have not changed are read. Once.
    std::function<void(const absl::Status&)> on_look_up_failed = {};
    // Reading of footers ends, with Cancelled, once it is true. Outlives this.
    const std::atomic<bool>* cancelled = nullptr;
  };
  KnownChunks(std::string packs_directory, Options options);
  KnownChunks(const KnownChunks&) = delete;
  KnownChunks& operator=(const KnownChunks&) = delete;

  // Once, before all else. `guard` outlives this.
  absl::Status Open(const CollectionGuard& guard);
  bool is_by_place() const { return list_ == nullptr; }

  // A place of the chunk, as far as memory tells.
  std::optional<ChunkPlace> Find(const Digest& digest) const;
  // The place that a server names, if it is one. May read the disk.
  std::optional<ChunkPlace> FindNamed(const ChunkRef& chunk, std::string_view locator);
  // The length of a chunk that lies there, if it does.
  std::optional<std::uint32_t> LengthAt(const Digest& digest, std::string_view locator);
  // A pack that this run has sealed.
  void AddPack(SealedPack sealed) { placed_.AddPack(std::move(sealed)); }

  // Nobody is asked any more, and what reads many footers ends with Cancelled.
  void Stop() { cancellation_.Cancel(); }
  bool is_stopped() const {
    return cancellation_.cancelled() || (options_.cancelled != nullptr && *options_.cancelled);
  }

  // One thread calls what follows.

  // HoldAll will be asked of these: they are looked up at once.
  void Expect(std::span<const ChunkRef> chunks);
  // Whether the store has all of them and will keep them.
  bool HoldAll(std::span<const ChunkRef> chunks);
  // Where the metadata of a snapshot lies that was there before this run. Until the next call.
  ChunkPlaces& PlacesOf(std::span<const ChunkRef> metadata);

  // The highest that the index was told to have; 0: none.
  std::uint64_t index_epoch() const { return index_epoch_; }

  // A chunk of this snapshot's own metadata, and where it lies. Any thread.
  void NameMetadata(const ChunkRef& chunk, std::string_view locator) {
    metadata_.Name(chunk, locator);
  }
  // CollectionGuard::Check of this snapshot. `visit` reads its metadata with the reader.
  using Visit = std::function<absl::Status(ChunkReader& reader, const ChunkVisitor& visit)>;
  absl::StatusOr<FinishCheck> Check(const Store& store, const Visit& visit);

  // What the agent takes for its footers however little it is given: one of the largest that
  // kerf writes.
  static constexpr std::uint64_t kMinFooterBytes = std::uint64_t{16} << 20;
  // The same for what the run stores.
  static constexpr std::uint64_t kMinOwnBytes = std::uint64_t{1} << 20;
  // A check at the end takes this of each chunk that it looks for at a time,
  static constexpr std::uint64_t kSoughtChunkBytes = 96;
  // and looks for so many at least.
  static constexpr std::size_t kMinSoughtChunks = std::size_t{1} << 16;
  // Lost chunks that a check names; beyond, it counts.
  static constexpr std::size_t kMaxLostChunks = 1000;

 private:
  // Where the index says that the chunks lie; "" where it does not, and where it cannot be asked.
  std::vector<std::string> AskForPlaces(std::span<const ChunkRef> chunks);
  bool AreWhereTheIndexSays(std::span<const ChunkRef> chunks);

  const Options options_;
  // As options_ say, but for a list that nobody has bounded.
  const std::uint64_t memory_bytes_;
  const CollectionGuard* guard_ = nullptr;
  // Null: the list does not fit.
  std::unique_ptr<ChunkIndex> list_;
  // Of list_: those whose place there goes.
  DigestSet distrusted_;
  PlacedChunks placed_;
  NamedPlaces metadata_;
  std::unique_ptr<NamedPlaces> others_;
  // What Expect was told, and whether it is there.
  absl::flat_hash_map<Digest, bool, DigestHash> expected_;
  client::CallCancellation cancellation_;
  bool has_given_up_ = false;
  std::uint64_t index_epoch_ = 0;
};

}  // namespace kerf::agent
