// Whether chunks lie where somebody says that they do: what a store holds, place by place.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/packs/chunk_places.h"
#include "client/store/packs/footer_cache.h"
#include "client/store/packs/pack_writer.h"

namespace kerf::agent {

// What a backup by place takes that was given no bound, or a quarter of the machine's memory where
// that is less.
inline constexpr std::uint64_t kByPlaceBytes = std::uint64_t{1} << 30;

// Believes nobody: a place counts only if the pack is there, durably, and its own footer says so.
// Its memory does not grow with the store, but for the names of the packs (kPackNameBytes each).
// docs/adr/0026-chunks-by-place.md. Thread-safe.
class PlacedChunks {
 public:
  struct Memory {
    // Of footers that are kept.
    std::uint64_t footer_bytes = 0;
    // Of packs that this process has sealed: the last ones.
    std::uint64_t own_bytes = 0;
  };

  PlacedChunks(std::string packs_directory, const Memory& memory)
      : packs_directory_(std::move(packs_directory)),
        max_own_bytes_(memory.own_bytes),
        footers_(packs_directory_, memory.footer_bytes),
        rows_(0, RowHash{this}, RowEqual{this}) {}
  PlacedChunks(const PlacedChunks&) = delete;
  PlacedChunks& operator=(const PlacedChunks&) = delete;

  // Lists the packs and makes their names durable. Once, before all else, and after the epoch and
  // the plan of collections were read: all that At says was seen later.
  absl::Status Open();

  // The place that the locator names, if a pack is there, durably, whose footer has this chunk, of
  // this length, at that place. May read the disk. What is not there is nobody's error, and neither
  // is a locator that is none.
  std::optional<ChunkPlace> At(const ChunkRef& chunk, std::string_view locator);
  // The same of a chunk whose length nobody has said.
  std::optional<ChunkPlace> At(const Digest& digest, std::string_view locator);

  // A pack that this process has sealed.
  void AddPack(SealedPack sealed);
  // Where a chunk of the packs lies that were added last; reads nothing.
  std::optional<ChunkPlace> FindOwn(const Digest& digest) const;

  const std::string& packs_directory() const { return packs_directory_; }
  const FooterCache& footers() const { return footers_; }
  // What the packs take that were added last.
  std::uint64_t own_bytes() const;

  // What a chunk of those takes beside its line in a footer.
  static constexpr std::uint64_t kOwnRowBytes = 24;
  // What the name of a pack takes.
  static constexpr std::uint64_t kPackNameBytes = 40;

 private:
  // A pack by its number since the first that was added, and the chunk in its footer.
  struct Row {
    std::uint32_t number = 0;
    std::uint32_t chunk_index = 0;
  };
  struct RowHash {
    using is_transparent = void;
    const PlacedChunks* chunks;
    std::size_t operator()(const Row& row) const { return DigestHash()(chunks->DigestOf(row)); }
    std::size_t operator()(const Digest& digest) const { return DigestHash()(digest); }
  };
  struct RowEqual {
    using is_transparent = void;
    const PlacedChunks* chunks;
    bool operator()(const Row& a, const Row& b) const {
      return chunks->DigestOf(a) == chunks->DigestOf(b);
    }
    bool operator()(const Row& a, const Digest& b) const { return chunks->DigestOf(a) == b; }
    bool operator()(const Digest& a, const Row& b) const { return a == chunks->DigestOf(b); }
  };

  const std::shared_ptr<const KnownPack>& OwnPack(const Row& row) const {
    return own_[row.number - first_number_];
  }
  const Digest& DigestOf(const Row& row) const {
    return OwnPack(row)->footer.chunks[row.chunk_index].digest;
  }
  static std::uint64_t BytesOf(const KnownPack& pack) {
    return pack.memory_bytes() + pack.footer.chunks.size() * kOwnRowBytes;
  }
  void ForgetFirstOwn();
  bool IsNameDurable(const PackId& id);

  const std::string packs_directory_;
  const std::uint64_t max_own_bytes_;
  FooterCache footers_;

  std::mutex names_mutex_;
  // Packs whose names were seen, and are durable since.
  absl::flat_hash_set<PackId> durable_;

  mutable std::mutex own_mutex_;
  std::deque<std::shared_ptr<const KnownPack>> own_;
  std::uint32_t first_number_ = 0;
  absl::flat_hash_set<Row, RowHash, RowEqual> rows_;
  std::uint64_t own_bytes_ = 0;
};

// Chunks whose places are known by name, such as those of one snapshot's metadata. Thread-safe.
class NamedPlaces final : public ChunkPlaces {
 public:
  enum class Moved {
    // A chunk that is not where it was is gone.
    kStaysAway,
    // All footers of the store are read for it.
    kIsLookedFor,
  };
  // `chunks` outlive it. Reading all footers ends once `is_ended`, which any thread may ask.
  NamedPlaces(PlacedChunks& chunks, Moved moved, std::function<bool()> is_ended = {})
      : chunks_(chunks), moved_(moved), is_ended_(std::move(is_ended)) {}

  // The chunk is looked for there from now on.
  void Name(const ChunkRef& chunk, std::string_view locator);

  std::optional<ChunkPlace> Locate(const Digest& digest) const override;
  std::vector<ChunkPlace> LocateAll(const Digest& digest) const override;
  absl::StatusOr<bool> LookAgain() override;
  const std::string& packs_directory() const override { return chunks_.packs_directory(); }

 private:
  PlacedChunks& chunks_;
  const Moved moved_;
  const std::function<bool()> is_ended_;
  mutable std::mutex mutex_;
  struct Named {
    std::uint32_t length_bytes = 0;
    Locator locator;
  };
  absl::flat_hash_map<Digest, Named, DigestHash> named_;
};

}  // namespace kerf::agent
