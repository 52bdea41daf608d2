#include "server/hints/hint_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/little_endian.h"

namespace kerf {
namespace {

constexpr std::size_t kAbsentCount = 4096;
// Size lists get one part in so many of the memory.
constexpr std::size_t kSizesDivisor = 8;
// Of a segment that the store may not have: old enough to be written again when it comes again.
constexpr std::uint32_t kNeverWritten = 0;
// Segments that are fetched ahead of the one that is in use: some 2,900 chunks, more than are
// looked up ahead at once (server/worker/file_hints.h).
constexpr int kFetchAhead = 4;
// Of a segment, beside its chunks: run, slot and tables, from above.
constexpr std::size_t kSegmentBytes = 512;
// A key's place is the same for chunks and ids, but the keys differ.
constexpr std::uint64_t kIdMark = 0x9E3779B97F4A7C15u;

HintCacheOptions WithClocks(HintCacheOptions options) {
  if (!options.now) options.now = [] { return std::chrono::steady_clock::now(); };
  if (!options.today) {
    options.today = [] {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      return static_cast<std::uint32_t>(
          std::chrono::duration_cast<std::chrono::hours>(now).count() / 24);
    };
  }
  return options;
}

}  // namespace

std::shared_ptr<HintCache> HintCache::Create(HintCacheOptions options, SegmentStore* store) {
  return std::shared_ptr<HintCache>(new HintCache(std::move(options), store));
}

HintCache::HintCache(HintCacheOptions options, SegmentStore* store)
    : options_(WithClocks(std::move(options))),
      store_(store),
      sizes_(options_.capacity_bytes / kSizesDivisor, options_.max_sizes),
      absent_(kAbsentCount) {}

HintCache::ShortKey HintCache::KeyOf(const HintScope::Id& scope_id, const Digest& digest) {
  return LoadLittleEndian<std::uint64_t>(digest.bytes.data()) ^
         LoadLittleEndian<std::uint64_t>(scope_id.data());
}

HintCache::ShortKey HintCache::KeyOf(const HintScope::Id& scope_id, const SegmentId& id) {
  return LoadLittleEndian<std::uint64_t>(id.bytes.data()) ^
         LoadLittleEndian<std::uint64_t>(scope_id.data()) ^ kIdMark;
}

std::size_t HintCache::CostOf(const CutRun& run) {
  return kSegmentBytes + run.chunks().size() * (sizeof(RunChunk) + kPlaceBytes);
}

std::optional<HintCache::Place> HintCache::Find(const HintScope& scope, const Digest& digest) {
  const std::lock_guard lock(mutex_);
  std::size_t index = 0;
  const Held* const held = HeldWith(scope.id(), digest, &index);
  if (held == nullptr) return std::nullopt;
  Use(*held);
  return Place{held->run, index, held->id, held->next};
}

std::optional<HintCache::Cursor> HintCache::CursorAt(const HintScope& scope, const Digest& digest) {
  const std::lock_guard lock(mutex_);
  Cursor cursor;
  const Held* const held = HeldWith(scope.id(), digest, &cursor.index);
  if (held == nullptr) return std::nullopt;
  cursor.id = held->id;
  return cursor;
}

void HintCache::AppendFollowing(const HintScope& scope, std::size_t max_count, Cursor* cursor,
                                std::vector<Digest>* digests) {
  const std::lock_guard lock(mutex_);
  // What follows what is only what somebody has said: it may go in circles.
  for (int segment = 0; segment <= kFetchAhead && max_count > 0; ++segment) {
    const Held* const held = HeldAs(scope.id(), cursor->id);
    if (held == nullptr) return;
    const std::span<const RunChunk> chunks = held->run->chunks();
    if (cursor->index >= chunks.size()) return;
    const std::size_t count = std::min(max_count, chunks.size() - cursor->index - 1);
    for (const RunChunk& chunk : chunks.subspan(cursor->index + 1, count)) {
      digests->push_back(chunk.digest);
    }
    cursor->index += count;
    max_count -= count;
    if (max_count == 0 || !held->next.has_value()) return;
    if (HeldAs(scope.id(), *held->next) == nullptr) return;
    // Its first chunk is the last one of this segment.
    *cursor = {*held->next, 0};
  }
}

void HintCache::LearnNext(const HintScope& scope, const Digest& digest, NextSize next) {
  sizes_.Hit(KeyOf(scope.id(), digest), next);
}

SizeList HintCache::NextSizes(const HintScope& scope, const Digest& digest) {
  return sizes_.Find(KeyOf(scope.id(), digest));
}

HintCache::Wanting HintCache::Want(const std::shared_ptr<const HintScope>& scope,
                                   const Digest& digest) {
  if (store_ == nullptr || !scope->is_useful()) return Wanting::kNothing;
  {
    const std::lock_guard lock(mutex_);
    const ShortKey key = KeyOf(scope->id(), digest);
    std::size_t index = 0;
    if (HeldWith(scope->id(), digest, &index) != nullptr) return Wanting::kHeld;
    if (!Begin(key)) return Wanting::kNothing;
    ++counters_.anchors_asked;
  }
  store_->FindByAnchor(
      *scope, digest,
      [weak = weak_from_this(), scope, digest](const absl::StatusOr<std::optional<SegmentId>>& id) {
        if (const auto cache = weak.lock()) cache->OnFound(scope, digest, id);
      });
  return Wanting::kAsked;
}

void HintCache::OnFound(const std::shared_ptr<const HintScope>& scope, const Digest& anchor,
                        const absl::StatusOr<std::optional<SegmentId>>& id) {
  {
    const std::lock_guard lock(mutex_);
    const ShortKey key = KeyOf(scope->id(), anchor);
    under_way_.erase(key);
    if (!id.ok()) ++counters_.fetches_failed;
    if (!id.ok() || !id->has_value()) return RememberAbsent(key);
    ++counters_.anchors_found;
    const ShortKey id_key = KeyOf(scope->id(), **id);
    if (by_id_.contains(id_key)) {
      // Held, but not with this chunk: the anchor is wrong.
      std::size_t index = 0;
      if (HeldWith(scope->id(), anchor, &index) == nullptr) RememberAbsent(key);
      return;
    }
    if (!Begin(id_key)) return;
    under_way_.insert(key);
    ++counters_.fetches;
  }
  Fetch(scope, {.id = **id, .anchor = anchor});
}

void HintCache::WantFollowing(const std::shared_ptr<const HintScope>& scope, const SegmentId& id) {
  if (store_ == nullptr || !scope->is_useful()) return;
  std::optional<SegmentId> next;
  {
    const std::lock_guard lock(mutex_);
    const Held* const held = HeldAs(scope->id(), id);
    if (held != nullptr) next = held->next;
  }
  if (next.has_value()) FetchInTurn(scope, *next, kFetchAhead);
}

void HintCache::FetchInTurn(const std::shared_ptr<const HintScope>& scope, SegmentId id,
                            int count) {
  {
    const std::lock_guard lock(mutex_);
    while (count > 0) {
      const Held* const held = HeldAs(scope->id(), id);
      if (held == nullptr) break;
      if (--count == 0 || !held->next.has_value()) return;
      id = *held->next;
    }
    if (count == 0 || !Begin(KeyOf(scope->id(), id))) return;
    ++counters_.fetches;
  }
  Fetch(scope, {.id = id, .anchor = std::nullopt, .following_count = count - 1});
}

void HintCache::Fetch(const std::shared_ptr<const HintScope>& scope, const Wanted& wanted) {
  store_->Fetch(*scope, wanted.id,
                [weak = weak_from_this(), scope,
                 wanted](const absl::StatusOr<std::optional<std::string>>& bytes) {
                  if (const auto cache = weak.lock()) cache->OnFetched(scope, wanted, bytes);
                });
}

void HintCache::OnFetched(const std::shared_ptr<const HintScope>& scope, const Wanted& wanted,
                          const absl::StatusOr<std::optional<std::string>>& bytes) {
  // Before the lock: a seal takes as long as hashing the segment.
  Opened opened;
  Outcome outcome = Outcome::kFailed;
  if (bytes.ok()) {
    outcome = bytes->has_value() ? Open(*scope, wanted, **bytes, &opened) : Outcome::kNotFound;
  }
  std::optional<SegmentId> next;
  if (outcome == Outcome::kFound) next = opened.next;
  {
    const std::lock_guard lock(mutex_);
    CountFetched(scope->id(), wanted, outcome);
    if (outcome == Outcome::kFound) Insert(scope->id(), std::move(opened));
  }
  if (next.has_value()) FetchInTurn(scope, *next, wanted.following_count);
}

void HintCache::CountFetched(const HintScope::Id& scope_id, const Wanted& wanted, Outcome outcome) {
  std::vector<ShortKey> keys = {KeyOf(scope_id, wanted.id)};
  if (wanted.anchor.has_value()) keys.push_back(KeyOf(scope_id, *wanted.anchor));
  for (const ShortKey key : keys) {
    under_way_.erase(key);
    if (outcome != Outcome::kFound) RememberAbsent(key);
  }
  switch (outcome) {
    case Outcome::kFound:
      ++counters_.fetches_found;
      return;
    case Outcome::kNotFound:
      ++counters_.fetches_not_found;
      return;
    case Outcome::kFailed:
      ++counters_.fetches_failed;
      return;
    case Outcome::kRefused:
      ++counters_.fetches_refused;
      return;
  }
}

HintCache::Outcome HintCache::Open(const HintScope& scope, const Wanted& wanted,
                                   std::string_view bytes, Opened* opened) const {
  const absl::StatusOr<Segment> segment = ParseSegment(bytes);
  if (!segment.ok()) return Outcome::kRefused;
  absl::StatusOr<CutRun> run = OpenRun(options_.key, scope.repository(), scope.upload_profile(),
                                       scope.digest_algorithm(), segment->sealed_run);
  if (!run.ok() || run->chunks().size() > kMaxSegmentChunks) return Outcome::kRefused;
  opened->id = segment->id();
  opened->next = segment->next;
  opened->written_day = segment->written_day;
  // Else an honest segment in the wrong place would be fetched again and again.
  const auto is_anchor = [&](const RunChunk& chunk) { return chunk.digest == *wanted.anchor; };
  if (opened->id != wanted.id ||
      (wanted.anchor.has_value() && std::ranges::none_of(run->chunks(), is_anchor))) {
    return Outcome::kRefused;
  }
  opened->run = std::make_shared<const CutRun>(*std::move(run));
  return Outcome::kFound;
}

bool HintCache::Begin(ShortKey key) {
  if (under_way_.contains(key) || IsAbsent(key)) return false;
  if (under_way_.size() >= options_.max_fetches) {
    ++counters_.fetches_over_limit;
    return false;
  }
  under_way_.insert(key);
  return true;
}

bool HintCache::IsAbsent(ShortKey key) const {
  const Absent& absent = absent_[key % absent_.size()];
  return absent.key == key && options_.now() < absent.until;
}

void HintCache::RememberAbsent(ShortKey key) {
  absent_[key % absent_.size()] = {key, options_.now() + options_.forget_absent_after};
}

bool HintCache::IsOnItsWay(const HintScope& scope, const Digest& digest) {
  const std::lock_guard lock(mutex_);
  return under_way_.contains(KeyOf(scope.id(), digest));
}

bool HintCache::IsOnItsWay(const HintScope& scope, const SegmentId& id) {
  const std::lock_guard lock(mutex_);
  return under_way_.contains(KeyOf(scope.id(), id));
}

void HintCache::CountLate() {
  const std::lock_guard lock(mutex_);
  ++counters_.hints_late;
}

std::optional<HintCache::Known> HintCache::FindSame(const HintScope& scope,
                                                    std::span<const RunChunk> chunks,
                                                    bool ended_by_eof) {
  KERF_CHECK(!chunks.empty());
  const std::lock_guard lock(mutex_);
  // Some of its chunks may stand in another segment as well.
  for (const std::size_t tried : {std::size_t{0}, chunks.size() / 2, chunks.size() - 1}) {
    std::size_t index = 0;
    const Held* const held = HeldWith(scope.id(), chunks[tried].digest, &index);
    if (held == nullptr || held->run->ended_by_eof() != ended_by_eof ||
        !std::ranges::equal(held->run->chunks(), chunks)) {
      continue;
    }
    Use(*held);
    const std::uint32_t today = options_.today();
    const bool is_fresh =
        held->written_day <= today && today - held->written_day < options_.rewrite_after_days;
    return Known{held->id, held->next, is_fresh};
  }
  return std::nullopt;
}

void HintCache::Keep(const std::shared_ptr<const HintScope>& scope,
                     std::vector<NewSegment> segments) {
  if (segments.empty()) return;
  KERF_CHECK(scope->is_useful());
  const std::uint32_t today = options_.today();
  std::vector<StoredSegment> stored;
  std::vector<SegmentId> ids;
  for (NewSegment& segment : segments) {
    const Segment value = {segment.next, today, segment.sealed_run};
    const SegmentId id = value.id();
    // Before the lock, though it may not be wanted: it copies the segment.
    std::string bytes = store_ != nullptr ? EncodeSegment(value) : std::string();
    const std::lock_guard lock(mutex_);
    const bool is_written = store_ != nullptr && writing_count_ < options_.max_written_segments;
    if (is_written) {
      ++writing_count_;
      ++counters_.segments_written;
      stored.push_back({id, std::move(bytes), std::move(segment.anchors)});
      ids.push_back(id);
    } else if (store_ != nullptr) {
      ++counters_.segments_over_limit;
    }
    Insert(scope->id(),
           {id, segment.next, is_written ? today : kNeverWritten, std::move(segment.run)});
  }
  if (stored.empty()) return;
  store_->Put(*scope, std::move(stored),
              [weak = weak_from_this(), scope, ids = std::move(ids)](const absl::Status& status) {
                if (const auto cache = weak.lock()) cache->OnWritten(*scope, ids, status);
              });
}

void HintCache::OnWritten(const HintScope& scope, std::span<const SegmentId> ids,
                          const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  writing_count_ -= ids.size();
  if (status.ok()) return;
  counters_.segments_failed += ids.size();
  for (const SegmentId& id : ids) {
    const auto found = by_id_.find(KeyOf(scope.id(), id));
    if (found != by_id_.end()) slots_[found->second].written_day = kNeverWritten;
  }
}

HintCounters HintCache::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void HintCache::Insert(const HintScope::Id& scope_id, Opened opened) {
  const ShortKey key = KeyOf(scope_id, opened.id);
  if (const auto found = by_id_.find(key); found != by_id_.end()) Evict(found->second);
  const std::size_t cost = CostOf(*opened.run);
  const std::size_t capacity_bytes = options_.capacity_bytes - sizes_.memory_bytes();
  if (cost > capacity_bytes) return;
  while (counters_.held_bytes + cost > capacity_bytes) {
    Evict(uses_.back());
    ++counters_.evictions;
  }
  const Slot slot = FreeSlot();
  uses_.push_front(slot);
  slots_[slot] = {scope_id,     opened.id, opened.next, opened.written_day, std::move(opened.run),
                  uses_.begin()};
  by_id_[key] = slot;
  ++counters_.held_segments;
  counters_.held_bytes += cost;
  PlaceChunks(slot);
}

void HintCache::PlaceChunks(Slot slot) {
  const Held& held = slots_[slot];
  const std::span<const RunChunk> chunks = held.run->chunks();
  // From behind: of equal chunks the first has most behind it.
  for (std::size_t index = chunks.size(); index-- > 0;) {
    const auto [place, is_new] = places_.try_emplace(KeyOf(held.scope_id, chunks[index].digest),
                                                     Spot{slot, static_cast<std::uint32_t>(index)});
    if (is_new) continue;
    // Where something follows is better than the end of a segment, which is where the next one
    // begins.
    const bool is_end = index + 1 == chunks.size();
    const Spot& old = place->second;
    if (is_end && old.index + 1 < slots_[old.slot].run->chunks().size()) continue;
    place->second = {slot, static_cast<std::uint32_t>(index)};
  }
}

const HintCache::Held* HintCache::HeldAs(const HintScope::Id& scope_id, const SegmentId& id) const {
  const auto found = by_id_.find(KeyOf(scope_id, id));
  if (found == by_id_.end()) return nullptr;
  const Held& held = slots_[found->second];
  // A short key may be another segment's as well.
  return held.id == id && held.scope_id == scope_id ? &held : nullptr;
}

const HintCache::Held* HintCache::HeldWith(const HintScope::Id& scope_id, const Digest& digest,
                                           std::size_t* index) {
  const auto found = places_.find(KeyOf(scope_id, digest));
  if (found == places_.end()) return nullptr;
  const Held& held = slots_[found->second.slot];
  *index = found->second.index;
  // A short key may be another chunk's as well.
  const bool is_it = held.scope_id == scope_id && held.run->chunks()[*index].digest == digest;
  return is_it ? &held : nullptr;
}

HintCache::Slot HintCache::FreeSlot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<Slot>(slots_.size() - 1);
  }
  const Slot slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void HintCache::Evict(Slot slot) {
  Held& held = slots_[slot];
  for (const RunChunk& chunk : held.run->chunks()) {
    const auto found = places_.find(KeyOf(held.scope_id, chunk.digest));
    if (found != places_.end() && found->second.slot == slot) places_.erase(found);
  }
  by_id_.erase(KeyOf(held.scope_id, held.id));
  uses_.erase(held.use);
  --counters_.held_segments;
  counters_.held_bytes -= CostOf(*held.run);
  held = Held();
  free_slots_.push_back(slot);
}

void HintCache::Use(const Held& held) { uses_.splice(uses_.begin(), uses_, held.use); }

}  // namespace kerf
