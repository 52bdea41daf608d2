// What a worker knows of how files went on: opened runs, found by any of their chunks, and fetched
// from the store before they are needed.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/cut_run.h"
#include "kernels/rapid/run_seal.h"
#include "server/hints/scope.h"
#include "server/hints/segment.h"
#include "server/hints/segment_store.h"
#include "server/hints/size_table.h"

namespace kerf {

struct HintCacheOptions {
  // Runs are sealed and believed with it.
  RunKey key;
  // Of all that is held, from above.
  std::size_t capacity_bytes = std::size_t{64} << 20;
  // What is remembered of the chunks that followed one, for profiles with a criterion; once there
  // is one, size lists have an eighth of the capacity. 0: none.
  std::size_t max_sizes = SizeList::kDefaultSizes;
  // Of the process; what goes beyond is not fetched, or not written this time.
  std::size_t max_fetches = 64;
  std::size_t max_written_segments = 256;
  // What the store did not have is not asked for again for so long.
  std::chrono::milliseconds forget_absent_after{60'000};
  // A segment that was written so many days ago is written again when its file comes again, so that
  // the store does not take it for old. Below the stores' times to live.
  std::uint32_t rewrite_after_days = 7;
  // The system's clocks if empty.
  std::function<std::chrono::steady_clock::time_point()> now;
  // Days since 1970.
  std::function<std::uint32_t()> today;
};

// Counted since the start, but for the last two.
struct HintCounters {
  // Questions where a chunk leads to, and answers that named a segment.
  std::uint64_t anchors_asked = 0;
  std::uint64_t anchors_found = 0;
  std::uint64_t fetches = 0;
  // How they ended: the rest of `fetches` is under way.
  std::uint64_t fetches_found = 0;
  std::uint64_t fetches_not_found = 0;
  // Questions as well.
  std::uint64_t fetches_failed = 0;
  // Forged, damaged, of another key, or not what was asked for.
  std::uint64_t fetches_refused = 0;
  // Questions and fetches not begun because max_fetches were under way.
  std::uint64_t fetches_over_limit = 0;
  // What a stream was told to be late.
  std::uint64_t hints_late = 0;
  // Segments given to the store, such that it could not write, and such that were not given to it
  // because max_written_segments were under way.
  std::uint64_t segments_written = 0;
  std::uint64_t segments_failed = 0;
  std::uint64_t segments_over_limit = 0;
  std::uint64_t evictions = 0;
  std::uint64_t held_segments = 0;
  std::uint64_t held_bytes = 0;
};

// Thread-safe. No call waits for the store, unless that answers before it returns. It may go while
// fetches are under way: they come to nothing.
class HintCache : public std::enable_shared_from_this<HintCache> {
 public:
  // What it costs at most that a chunk is found, beside its RunChunk.
  static constexpr std::size_t kPlaceBytes = 44;

  // Which segment a chunk stands in, and where.
  struct Place {
    std::shared_ptr<const CutRun> run;
    std::size_t index = 0;
    SegmentId id;
    std::optional<SegmentId> next;
  };
  // To be kept, here and in the store.
  struct NewSegment {
    std::shared_ptr<const CutRun> run;
    // By SealRun with the cache's key and the scope's repository.
    std::vector<std::uint8_t> sealed_run;
    std::optional<SegmentId> next;
    std::vector<Digest> anchors;
  };
  // A segment whose run is what was asked for.
  struct Known {
    SegmentId id;
    std::optional<SegmentId> next;
    // It need not be written again unless it has another next one.
    bool is_fresh = false;
  };

  // `store` outlives the cache; null: nothing is fetched or written.
  static std::shared_ptr<HintCache> Create(HintCacheOptions options, SegmentStore* store);
  HintCache(const HintCache&) = delete;
  HintCache& operator=(const HintCache&) = delete;

  // Where the chunk stands in what is held: in the segment that came last, and there in the first
  // place.
  std::optional<Place> Find(const HintScope& scope, const Digest& digest);
  // A chunk by its place, which its digest may not tell where a file repeats itself.
  struct Cursor {
    SegmentId id;
    std::size_t index = 0;
  };
  // As Find.
  std::optional<Cursor> CursorAt(const HintScope& scope, const Digest& digest);
  // Appends the digests of up to `max_count` chunks behind the cursor, over segments that are held,
  // and moves it to the last of them.
  void AppendFollowing(const HintScope& scope, std::size_t max_count, Cursor* cursor,
                       std::vector<Digest>* digests);

  // `next` has followed the chunk in a file, and was not ended by the file's end.
  void LearnNext(const HintScope& scope, const Digest& digest, NextSize next);
  SizeList NextSizes(const HintScope& scope, const Digest& digest);

  // Fetches the segment that the chunk leads to, unless that is held, on its way, or known to be
  // missing. For anchors, and for the first chunks of files: what else is asked for is not there.
  enum class Wanting : std::uint8_t {
    kHeld,
    // By this call, which may have been answered since.
    kAsked,
    // On its way, missing, or there are too many on their way.
    kNothing,
  };
  Wanting Want(const std::shared_ptr<const HintScope>& scope, const Digest& digest);
  // The same of the segments that follow a held one: kFetchAhead of them, one after another.
  void WantFollowing(const std::shared_ptr<const HintScope>& scope, const SegmentId& id);
  // Whether such a fetch is under way.
  bool IsOnItsWay(const HintScope& scope, const Digest& digest);
  bool IsOnItsWay(const HintScope& scope, const SegmentId& id);
  void CountLate();

  // The held segment of just this run.
  std::optional<Known> FindSame(const HintScope& scope, std::span<const RunChunk> chunks,
                                bool ended_by_eof);
  // All of them are committed.
  void Keep(const std::shared_ptr<const HintScope>& scope, std::vector<NewSegment> segments);

  const RunKey& key() const { return options_.key; }
  HintCounters counters();

 private:
  using Slot = std::uint32_t;
  // A chunk in a scope, or a segment's id: 64 bits of it.
  using ShortKey = std::uint64_t;

  struct Held {
    HintScope::Id scope_id{};
    SegmentId id;
    std::optional<SegmentId> next;
    std::uint32_t written_day = 0;
    // Null: the slot is free.
    std::shared_ptr<const CutRun> run;
    std::list<Slot>::iterator use;
  };
  struct Spot {
    Slot slot = 0;
    std::uint32_t index = 0;
  };
  struct Absent {
    ShortKey key = 0;
    std::chrono::steady_clock::time_point until;
  };
  struct Opened {
    SegmentId id;
    std::optional<SegmentId> next;
    std::uint32_t written_day = 0;
    std::shared_ptr<const CutRun> run;
  };
  enum class Outcome : std::uint8_t { kFound, kNotFound, kFailed, kRefused };
  // A segment, the chunk that led to it, if one did, and how many behind it are wanted as well.
  struct Wanted {
    SegmentId id;
    std::optional<Digest> anchor;
    int following_count = 0;
  };

  HintCache(HintCacheOptions options, SegmentStore* store);

  static ShortKey KeyOf(const HintScope::Id& scope_id, const Digest& digest);
  static ShortKey KeyOf(const HintScope::Id& scope_id, const SegmentId& id);
  static std::size_t CostOf(const CutRun& run);

  void OnFound(const std::shared_ptr<const HintScope>& scope, const Digest& anchor,
               const absl::StatusOr<std::optional<SegmentId>>& id);
  void Fetch(const std::shared_ptr<const HintScope>& scope, const Wanted& wanted);
  // Of these `count` segments, each named by the one before, the first that is not held, and then
  // those behind it.
  void FetchInTurn(const std::shared_ptr<const HintScope>& scope, SegmentId id, int count);
  void OnFetched(const std::shared_ptr<const HintScope>& scope, const Wanted& wanted,
                 const absl::StatusOr<std::optional<std::string>>& bytes);
  void OnWritten(const HintScope& scope, std::span<const SegmentId> ids,
                 const absl::Status& status);
  Outcome Open(const HintScope& scope, const Wanted& wanted, std::string_view bytes,
               Opened* opened) const;

  // All with the lock held.
  void CountFetched(const HintScope::Id& scope_id, const Wanted& wanted, Outcome outcome);
  // Whether it may be asked for; then it counts as under way.
  bool Begin(ShortKey key);
  bool IsAbsent(ShortKey key) const;
  void RememberAbsent(ShortKey key);
  // Null: it is not held.
  const Held* HeldAs(const HintScope::Id& scope_id, const SegmentId& id) const;
  void Insert(const HintScope::Id& scope_id, Opened opened);
  void PlaceChunks(Slot slot);
  const Held* HeldWith(const HintScope::Id& scope_id, const Digest& digest, std::size_t* index);
  Slot FreeSlot();
  void Evict(Slot slot);
  void Use(const Held& held);

  const HintCacheOptions options_;
  SegmentStore* const store_;
  SizeTable sizes_;

  std::mutex mutex_;
  std::vector<Held> slots_;
  std::vector<Slot> free_slots_;
  // The most recently used one first.
  std::list<Slot> uses_;
  absl::flat_hash_map<ShortKey, Spot> places_;
  absl::flat_hash_map<ShortKey, Slot> by_id_;
  absl::flat_hash_set<ShortKey> under_way_;
  // A table of fixed size: a key's place is overwritten by the next one that belongs there.
  std::vector<Absent> absent_;
  std::size_t writing_count_ = 0;
  HintCounters counters_;
};

}  // namespace kerf
