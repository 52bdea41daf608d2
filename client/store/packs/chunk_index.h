// What the store holds, by the footers of its packs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/pack_files.h"
#include "client/store/format/pack_format.h"
#include "client/store/packs/chunk_places.h"
#include "client/store/packs/known_pack.h"
#include "client/store/packs/pack_writer.h"

namespace kerf::agent {

// A pack whose footer cannot be read.
struct DamagedPack {
  std::string path;
  absl::Status status;
};

// How much is known of a pack that another process has put into the store.
enum class SeenPacks {
  // It is there now. For readers.
  kAreThere,
  // The same; and of a folder that cannot be listed nothing is known, while the others are read
  // (unlisted()). For who reads as much as can be read, and deletes and writes nothing for it.
  kAsFarAsListed,
  // It also survives the machine: it may have been renamed into place a moment ago, and its writer
  // may die before its name is durable. For all who write or delete something because a pack is
  // there.
  kAreDurable,
};

// Memory that an index takes for each chunk.
inline constexpr std::uint64_t kIndexBytesPerChunk = 64;
// Three quarters of the machine's memory, in chunks.
std::uint64_t MaxIndexedChunks();
// Whether a store has more of them than its list may have (ChunkIndex::Refresh).
bool IsTooManyChunks(const absl::Status& status);

// Thread-safe. Takes kIndexBytesPerChunk.
class ChunkIndex final : public ChunkPlaces {
 public:
  explicit ChunkIndex(std::string packs_directory, SeenPacks seen = SeenPacks::kAreThere,
                      std::uint64_t max_chunk_count = MaxIndexedChunks());

  // Refresh and its like end soon, with Cancelled and without having learnt anything, once
  // `is_ended`, which any thread may ask. Before all else.
  void EndWhen(std::function<bool()> is_ended) { is_ended_ = std::move(is_ended); }

  // Looks at the directory: learns packs that have come, forgets those that are gone. A damaged
  // pack whose footer not even its parity gives back is left out and listed in damaged(). An error
  // only for a directory that cannot be listed (see kAsFarAsListed), or IsTooManyChunks, which is
  // FailedPrecondition, for more chunks than max_chunk_count.
  absl::Status Refresh();
  // The same; false, and nothing is learnt or forgotten, for more chunks than max_chunk_count. Of a
  // folder of which nothing is known yet it may also say so behind its first kSamplePacks packs, if
  // all of it would be twice as much as fits where the others are as full.
  absl::StatusOr<bool> RefreshIfItFits() { return Learn(Sampling::kMayGuess); }
  // Refresh; true if other packs are there than before.
  absl::StatusOr<bool> LookAgain() override;

  // A pack that this process has sealed; saves reading its footer. Of a chunk that other packs hold
  // too, Locate gives this copy from now on.
  void AddPack(SealedPack sealed);

  bool Contains(const Digest& digest) const { return Locate(digest).has_value(); }
  // One of the places, if there are several.
  std::optional<ChunkPlace> Locate(const Digest& digest) const override;

  // All of them, the one that Locate gives first.
  std::vector<ChunkPlace> LocateAll(const Digest& digest) const override;

  std::vector<std::shared_ptr<const KnownPack>> packs() const;
  std::vector<DamagedPack> damaged() const;
  std::vector<UnlistedFolder> unlisted() const override;

  const std::string& packs_directory() const override { return packs_directory_; }

  static constexpr std::size_t kSamplePacks = 256;

 private:
  enum class Sampling { kMayGuess, kReadsAll };

  // Position of a pack in slots_, and of the chunk in its footer.
  struct Row {
    std::uint32_t slot = 0;
    std::uint32_t chunk_index = 0;
  };
  struct RowHash {
    using is_transparent = void;
    const ChunkIndex* index;
    std::size_t operator()(const Row& row) const { return DigestHash()(index->DigestOf(row)); }
    std::size_t operator()(const Digest& digest) const { return DigestHash()(digest); }
  };
  struct RowEqual {
    using is_transparent = void;
    const ChunkIndex* index;
    bool operator()(const Row& a, const Row& b) const {
      return index->DigestOf(a) == index->DigestOf(b);
    }
    bool operator()(const Row& a, const Digest& b) const { return index->DigestOf(a) == b; }
    bool operator()(const Digest& a, const Row& b) const { return a == index->DigestOf(b); }
  };

  const Digest& DigestOf(const Row& row) const {
    return slots_[row.slot]->footer.chunks[row.chunk_index].digest;
  }
  absl::StatusOr<bool> Learn(Sampling sampling);
  void Insert(std::shared_ptr<const KnownPack> pack);
  void Remove(const absl::flat_hash_set<std::string>& names);
  ChunkPlace PlaceOf(const Row& row) const { return {slots_[row.slot], row.chunk_index}; }
  static std::uint64_t KeyOf(const Row& row) {
    return std::uint64_t{row.slot} << 32 | row.chunk_index;
  }

  const std::string packs_directory_;
  const SeenPacks seen_;
  const std::uint64_t max_chunk_count_;
  // Empty: nobody ends it.
  std::function<bool()> is_ended_;
  mutable std::shared_mutex mutex_;
  std::vector<std::shared_ptr<const KnownPack>> slots_;
  absl::flat_hash_map<std::string, std::uint32_t> slot_of_;
  // Of each chunk the copy that came last.
  absl::flat_hash_set<Row, RowHash, RowEqual> rows_;
  // By the KeyOf a copy: the one that came before it. Chunks with one copy take nothing here.
  absl::flat_hash_map<std::uint64_t, Row> earlier_;
  std::vector<DamagedPack> damaged_;
  std::vector<UnlistedFolder> unlisted_;
};

// OK if all folders of packs can be listed.
absl::Status CheckPacksAreListed(const std::string& packs_directory);

}  // namespace kerf::agent
