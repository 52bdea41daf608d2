#include "server/hints/memory_segment_store.h"

#include <list>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace kerf {
namespace {

// What a segment and an anchor cost beside the value: keys and tables, from above.
constexpr std::size_t kSegmentOverheadBytes = 256;
constexpr std::size_t kAnchorBytes = 192;

class MemorySegmentStore final : public SegmentStore {
 public:
  explicit MemorySegmentStore(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) override {
    done(IdOf(HintKeyOf(scope, anchor)));
  }
  void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) override {
    done(BytesOf(HintKeyOf(scope, id)));
  }
  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    for (StoredSegment& segment : segments) {
      std::vector<std::string> anchors;
      anchors.reserve(segment.anchors.size());
      for (const Digest& anchor : segment.anchors) anchors.push_back(HintKeyOf(scope, anchor));
      Insert(
          {HintKeyOf(scope, segment.id), segment.id, std::move(segment.bytes), std::move(anchors)});
    }
    done(absl::OkStatus());
  }
  std::string_view backend_name() const override { return "memory"; }

 private:
  struct Kept {
    std::string key;
    SegmentId id;
    std::string bytes;
    std::vector<std::string> anchors;

    std::size_t cost_bytes() const {
      return kSegmentOverheadBytes + bytes.size() + anchors.size() * kAnchorBytes;
    }
  };
  // The most recently used one first.
  using KeptList = std::list<Kept>;

  std::optional<std::string> BytesOf(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return std::nullopt;
    kept_.splice(kept_.begin(), kept_, found->second);
    return found->second->bytes;
  }

  std::optional<SegmentId> IdOf(const std::string& anchor) {
    const std::lock_guard lock(mutex_);
    const auto found = by_anchor_.find(anchor);
    if (found == by_anchor_.end()) return std::nullopt;
    return found->second->id;
  }

  void Insert(Kept kept) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(kept.key); found != by_key_.end()) Remove(found->second);
    kept_.push_front(std::move(kept));
    const auto front = kept_.begin();
    held_bytes_ += front->cost_bytes();
    by_key_[front->key] = front;
    for (const std::string& anchor : front->anchors) by_anchor_[anchor] = front;
    while (held_bytes_ > capacity_bytes_) Remove(std::prev(kept_.end()));
  }

  void Remove(KeptList::iterator kept) {
    for (const std::string& anchor : kept->anchors) {
      const auto found = by_anchor_.find(anchor);
      if (found != by_anchor_.end() && found->second == kept) by_anchor_.erase(found);
    }
    held_bytes_ -= kept->cost_bytes();
    by_key_.erase(kept->key);
    kept_.erase(kept);
  }

  const std::size_t capacity_bytes_;
  std::mutex mutex_;
  KeptList kept_;
  std::size_t held_bytes_ = 0;
  absl::flat_hash_map<std::string, KeptList::iterator> by_key_;
  absl::flat_hash_map<std::string, KeptList::iterator> by_anchor_;
};

}  // namespace

std::unique_ptr<SegmentStore> CreateMemorySegmentStore(std::size_t capacity_bytes) {
  return std::make_unique<MemorySegmentStore>(capacity_bytes);
}

}  // namespace kerf
