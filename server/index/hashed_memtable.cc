#include "server/index/hashed_memtable.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/seeded_hash.h"
#include "server/index/key_order.h"

namespace kerf {
namespace {

using rocksdb::MemTableRep;
using rocksdb::Slice;

// Of an entry as RocksDB gives it: length of the key in varint form, key, 8 bytes of sequence
// number and kind, value.
constexpr std::size_t kTrailerBytes = 8;
// So far ahead memory is asked for: entries that follow each other lie anywhere.
constexpr std::size_t kAhead = 12;
// Of more new entries than one in so many all is sorted again: looking for the place of one among
// those that are sorted takes about as long as sorting so many.
constexpr std::size_t kMinShare = 16;
constexpr std::size_t kCacheLineBytes = 64;
// Memory comes at any address.
constexpr std::size_t kNodeAlignment = alignof(std::uint64_t);

std::string_view UserKeyOf(Slice internal_key) {
  return {internal_key.data(), internal_key.size() - kTrailerBytes};
}

// Key and trailer.
Slice InternalKeyOf(const char* entry) {
  std::size_t size_bytes = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(*entry++);
    size_bytes |= static_cast<std::size_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return {entry, size_bytes};
  }
}

// The newest entry of a key, or an older one. Its entry lies behind it.
struct Node {
  // Of the same bucket, of another key. Kept up to date until a newer entry of its key takes its
  // place; whoever stands here then goes on in the bucket as it was at that moment.
  std::atomic<Node*> next{nullptr};
  // The next older entry of the same key.
  std::atomic<Node*> older{nullptr};
  // What was inserted before it, of any key.
  const Node* before = nullptr;
  std::uint64_t hash = 0;

  char* entry() { return reinterpret_cast<char*>(this + 1); }
  const char* entry() const { return reinterpret_cast<const char*>(this + 1); }
};

using Entries = std::vector<const char*>;

// Walks over entries in order.
class SortedWalk;
// Walks over the entries of one key, from newer to older: all that a lookup needs.
class KeyWalk;

// What a reader must see it sees without any order in here: RocksDB tells of a sequence number only
// behind the insertion of what has it (with release), and a reader takes the number up to which it
// reads before it comes here (with acquire). What is inserted meanwhile has a later number and is
// passed over, so that it may be met or not, by each reader at each place. The orders in here see
// to it that whoever meets a node meets all of it.
class HashedMemtable final : public MemTableRep {
 public:
  HashedMemtable(const KeyComparator& order, rocksdb::Allocator* allocator,
                 std::size_t bucket_count)
      : MemTableRep(allocator),
        order_(order),
        bucket_mask_(std::bit_ceil(std::max<std::size_t>(bucket_count, 1)) - 1),
        buckets_(bucket_mask_ + 1),
        marks_(bucket_mask_ + 1) {}

  rocksdb::KeyHandle Allocate(std::size_t entry_bytes, char** entry) override {
    char* memory = nullptr;
    MemTableRep::Allocate(kNodeAlignment - 1 + sizeof(Node) + entry_bytes, &memory);
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    memory += (kNodeAlignment - address % kNodeAlignment) % kNodeAlignment;
    Node* node = new (memory) Node;
    *entry = node->entry();
    return node;
  }

  void Insert(rocksdb::KeyHandle handle) override { KERF_CHECK(InsertKey(handle)); }

  bool InsertKey(rocksdb::KeyHandle handle) override {
    Node* node = static_cast<Node*>(handle);
    const std::string_view key = UserKeyOf(InternalKeyOf(node->entry()));
    node->hash = SeededHash(key);
    const Place place = Find(key, node->hash);
    if (place.node == nullptr) {
      InsertFirst(node);
    } else if (order_(node->entry(), place.node->entry()) < 0) {
      node->older.store(place.node, std::memory_order_relaxed);
      node->next.store(place.node->next.load(std::memory_order_relaxed), std::memory_order_relaxed);
      // Who stands at the older one goes on from there all the same.
      place.link->store(node, std::memory_order_release);
    } else if (!InsertBehind(node, place.node)) {
      return false;
    }
    // There is one writer.
    node->before = last_.load(std::memory_order_relaxed);
    last_.store(node, std::memory_order_release);
    return true;
  }

  bool Contains(const char* entry) const override {
    const Slice key = InternalKeyOf(entry);
    const Node* node = NewestOf(key);
    return node != nullptr && order_(node->entry(), key) == 0;
  }

  std::size_t ApproximateMemoryUsage() override {
    return buckets_.size() * (sizeof(buckets_[0]) + sizeof(marks_[0]));
  }

  Iterator* GetIterator(rocksdb::Arena* arena) override;
  // MemTableRep::Get asks for it, and walks over the entries of its key.
  Iterator* GetDynamicPrefixIterator(rocksdb::Arena* arena) override;

  // The newest entry of the key that is not newer than this one; null: none.
  const Node* NewestOf(Slice internal_key) const {
    const std::string_view key = UserKeyOf(internal_key);
    const Node* node = Find(key, SeededHash(key)).node;
    while (node != nullptr && order_(node->entry(), internal_key) < 0) node = OlderOf(node);
    return node;
  }

  static const Node* OlderOf(const Node* node) {
    return node->older.load(std::memory_order_acquire);
  }

  // All that was there when it was called, and perhaps more, in order.
  std::shared_ptr<const Entries> Sorted() {
    const std::lock_guard lock(sorted_mutex_);
    // Before the entries: what comes meanwhile is looked for again.
    const Node* const last = last_.load(std::memory_order_acquire);
    if (sorted_ != nullptr && sorted_last_ == last) return sorted_;
    std::optional<Entries> entries = sorted_ == nullptr ? std::nullopt : Completed(*sorted_, last);
    if (!entries.has_value()) entries = SortAll();
    sorted_ = std::make_shared<const Entries>(*std::move(entries));
    sorted_last_ = last;
    return sorted_;
  }

  const KeyComparator& order() const { return order_; }

 private:
  struct Place {
    std::atomic<Node*>* link = nullptr;
    Node* node = nullptr;
  };

  Entries SortAll() const {
    std::vector<OwnedKey<Node>> keys;
    // About as many as there are keys.
    keys.reserve(buckets_.size());
    for (std::size_t index = 0; index < buckets_.size(); ++index) {
      if (index + kAhead < buckets_.size()) {
        __builtin_prefetch(buckets_[index + kAhead].load(std::memory_order_relaxed));
      }
      for (const Node* node = buckets_[index].load(std::memory_order_acquire); node != nullptr;
           node = node->next.load(std::memory_order_acquire)) {
        keys.push_back({node});
      }
    }
    SortByKey(keys, [](const Node& node) { return UserKeyOf(InternalKeyOf(node.entry())); });
    Entries entries;
    entries.reserve(keys.size());
    for (std::size_t index = 0; index < keys.size(); ++index) {
      if (index + kAhead < keys.size()) __builtin_prefetch(keys[index + kAhead].owner);
      for (const Node* node = keys[index].owner; node != nullptr; node = OlderOf(node)) {
        entries.push_back(node->entry());
      }
    }
    return entries;
  }

  // `sorted`, which has all up to sorted_last_, with what was inserted from there to `last`;
  // nothing if that is so much that all is sorted as fast. So whoever reads a little beside a
  // writer, again and again, pays for what was written once, and beyond that for a copy of some
  // pointers.
  std::optional<Entries> Completed(const Entries& sorted, const Node* last) const {
    Entries added;
    for (const Node* node = last; node != sorted_last_; node = node->before) {
      if (added.size() * kMinShare >= sorted.size()) return std::nullopt;
      added.push_back(node->entry());
    }
    const auto is_before = [this](const char* a, const char* b) { return order_(a, b) < 0; };
    std::sort(added.begin(), added.end(), is_before);
    Entries entries;
    entries.reserve(sorted.size() + added.size());
    auto rest = sorted.begin();
    for (const char* entry : added) {
      const auto behind = std::lower_bound(rest, sorted.end(), entry, is_before);
      entries.insert(entries.end(), rest, behind);
      rest = behind;
      // Inserted while all was sorted, and met there.
      if (rest != sorted.end() && *rest == entry) continue;
      entries.push_back(entry);
    }
    entries.insert(entries.end(), rest, sorted.end());
    return entries;
  }

  // One of eight, by other bits than those that choose the bucket.
  static std::uint8_t MarkOf(std::uint64_t hash) {
    return static_cast<std::uint8_t>(1u << (hash >> 61));
  }

  // The first entry of its key.
  void InsertFirst(Node* node) {
    // Before the node: whoever looks for it goes by the mark.
    std::atomic<std::uint8_t>& marks = marks_[node->hash & bucket_mask_];
    marks.store(marks.load(std::memory_order_relaxed) | MarkOf(node->hash),
                std::memory_order_relaxed);
    // To the front: what is new is asked for first.
    std::atomic<Node*>& first = buckets_[node->hash & bucket_mask_];
    node->next.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
    first.store(node, std::memory_order_release);
  }

  // Not newer than the newest one of its key, as a damaged log may have it. False: it is there.
  bool InsertBehind(Node* node, Node* newest) {
    for (Node* newer = newest; order_(node->entry(), newer->entry()) != 0;) {
      Node* const older = newer->older.load(std::memory_order_relaxed);
      if (older == nullptr || order_(node->entry(), older->entry()) < 0) {
        node->older.store(older, std::memory_order_relaxed);
        newer->older.store(node, std::memory_order_release);
        return true;
      }
      newer = older;
    }
    return false;
  }

  // The node of the newest entry of the key, and what leads to it; no node: there is none.
  Place Find(std::string_view key, std::uint64_t hash) const {
    if ((marks_[hash & bucket_mask_].load(std::memory_order_relaxed) & MarkOf(hash)) == 0) {
      return {};
    }
    std::atomic<Node*>* link = &buckets_[hash & bucket_mask_];
    while (Node* node = link->load(std::memory_order_acquire)) {
      if (node->hash == hash && UserKeyOf(InternalKeyOf(node->entry())) == key) {
        return {link, node};
      }
      link = &node->next;
    }
    return {};
  }

  const KeyComparator& order_;
  const std::size_t bucket_mask_;
  // Readers change nothing: mutable so that one way leads to a node for them and for the writer.
  mutable std::vector<std::atomic<Node*>> buckets_;
  // Which keys a bucket may have: nearly all that are asked for, or written, are in none, and this
  // says so out of the second-level cache, where a node is in memory.
  std::vector<std::atomic<std::uint8_t>> marks_;
  // The one that was inserted last.
  std::atomic<const Node*> last_{nullptr};

  std::mutex sorted_mutex_;
  // Has all that was inserted up to there.
  const Node* sorted_last_ = nullptr;
  std::shared_ptr<const Entries> sorted_;
};

// Where an iterator lies. RocksDB wants it in an arena of its own, of a class that it does not
// show, and then calls the destructor alone, or deletes it. So the memory belongs to the thread,
// and an iterator gives it back as it is destroyed: nobody else has it before that is over.
template <typename Object>
class ThreadMemory {
 public:
  template <typename... Arguments>
  static Object* New(Arguments&&... arguments) {
    std::vector<std::unique_ptr<Room>>& free = Free();
    std::unique_ptr<Room> room;
    if (free.empty()) {
      room = std::make_unique<Room>();
    } else {
      room = std::move(free.back());
      free.pop_back();
    }
    return new (room.release()->bytes) Object(std::forward<Arguments>(arguments)...);
  }
  static void GiveBack(Object* object) {
    std::vector<std::unique_ptr<Room>>& free = Free();
    // Of a thread in which more of them end than begin. Never that of this object, which has not
    // quite ended yet.
    if (free.size() == kMaxFreeCount) free.pop_back();
    free.emplace_back(reinterpret_cast<Room*>(object));
  }

 private:
  static constexpr std::size_t kMaxFreeCount = 64;

  struct Room {
    alignas(Object) std::byte bytes[sizeof(Object)];
  };
  static std::vector<std::unique_ptr<Room>>& Free() {
    static thread_local std::vector<std::unique_ptr<Room>> free;
    return free;
  }
};

class SortedWalk final : public MemTableRep::Iterator {
 public:
  explicit SortedWalk(HashedMemtable* table) : table_(*table) {}
  ~SortedWalk() override { ThreadMemory<SortedWalk>::GiveBack(this); }
  // Given back already.
  static void operator delete(void* /*memory*/) {}
  static void* operator new(std::size_t /*size*/, void* memory) { return memory; }

  bool Valid() const override { return entries_ != nullptr && at_ < entries_->size(); }
  const char* key() const override { return (*entries_)[at_]; }
  void Next() override {
    ++at_;
    if (at_ + kAhead >= entries_->size()) return;
    const char* entry = (*entries_)[at_ + kAhead];
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + kCacheLineBytes);
  }
  // In front of the first one there is no valid place.
  void Prev() override { at_ = at_ == 0 ? entries_->size() : at_ - 1; }
  void Seek(const Slice& internal_key, const char* /*entry*/) override {
    at_ = FirstFrom(internal_key);
  }
  void SeekForPrev(const Slice& internal_key, const char* /*entry*/) override {
    at_ = FirstFrom(internal_key);
    if (Valid() && table_.order()(key(), internal_key) == 0) return;
    Prev();
  }
  void SeekToFirst() override {
    Take();
    at_ = 0;
  }
  void SeekToLast() override {
    Take();
    at_ = entries_->empty() ? 0 : entries_->size() - 1;
  }

 private:
  // At the first use: many an iterator is made and never asked.
  void Take() {
    if (entries_ == nullptr) entries_ = table_.Sorted();
  }
  std::size_t FirstFrom(const Slice& internal_key) {
    Take();
    const auto found = std::lower_bound(entries_->begin(), entries_->end(), internal_key,
                                        [this](const char* entry, const Slice& wanted) {
                                          return table_.order()(entry, wanted) < 0;
                                        });
    return static_cast<std::size_t>(found - entries_->begin());
  }

  HashedMemtable& table_;
  std::shared_ptr<const Entries> entries_;
  std::size_t at_ = 0;
};

class KeyWalk final : public MemTableRep::Iterator {
 public:
  explicit KeyWalk(const HashedMemtable* table) : table_(*table) {}
  static void operator delete(void* /*memory*/) {}
  static void* operator new(std::size_t /*size*/, void* memory) { return memory; }

  bool Valid() const override { return node_ != nullptr; }
  const char* key() const override { return node_->entry(); }
  void Next() override { node_ = HashedMemtable::OlderOf(node_); }
  void Seek(const Slice& internal_key, const char* /*entry*/) override {
    node_ = table_.NewestOf(internal_key);
  }
  void Prev() override { node_ = nullptr; }
  void SeekForPrev(const Slice& /*internal_key*/, const char* /*entry*/) override {
    node_ = nullptr;
  }
  void SeekToFirst() override { node_ = nullptr; }
  void SeekToLast() override { node_ = nullptr; }

 private:
  const HashedMemtable& table_;
  const Node* node_ = nullptr;
};

MemTableRep::Iterator* HashedMemtable::GetIterator(rocksdb::Arena* /*arena*/) {
  return ThreadMemory<SortedWalk>::New(this);
}

MemTableRep::Iterator* HashedMemtable::GetDynamicPrefixIterator(rocksdb::Arena* arena) {
  // Of a database with prefixes: kerf's has none.
  if (arena != nullptr) return GetIterator(arena);
  // MemTableRep::Get makes one for each lookup, and leaves it (RocksDB 7.8). A thread has one
  // lookup at a time.
  alignas(KeyWalk) static thread_local std::byte memory[sizeof(KeyWalk)];
  return new (memory) KeyWalk(this);
}

class HashedMemtables final : public rocksdb::MemTableRepFactory {
 public:
  explicit HashedMemtables(std::size_t bucket_count) : bucket_count_(bucket_count) {}

  using MemTableRepFactory::CreateMemTableRep;
  MemTableRep* CreateMemTableRep(const MemTableRep::KeyComparator& order,
                                 rocksdb::Allocator* allocator,
                                 const rocksdb::SliceTransform* /*transform*/,
                                 rocksdb::Logger* /*logger*/) override {
    return new HashedMemtable(order, allocator, bucket_count_);
  }
  const char* Name() const override { return "kerf.hashed"; }
  bool CanHandleDuplicatedKey() const override { return true; }

 private:
  const std::size_t bucket_count_;
};

}  // namespace

std::shared_ptr<rocksdb::MemTableRepFactory> NewHashedMemtables(std::size_t bucket_count) {
  return std::make_shared<HashedMemtables>(bucket_count);
}

}  // namespace kerf
