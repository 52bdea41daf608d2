// A hashed memtable without a database around it: what RocksDB may ask of one, and readers beside
// the writer, for the thread sanitizer, with which RocksDB is not compiled.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/slice.h"
#include "server/index/hashed_memtable.h"

namespace rocksdb {

// Where memtables take memory from. RocksDB does not install the header that has it: these are the
// same functions in the same order.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual char* Allocate(std::size_t size_bytes) = 0;
  virtual char* AllocateAligned(std::size_t size_bytes, std::size_t huge_page_bytes,
                                Logger* logger) = 0;
  virtual std::size_t BlockSize() const = 0;
};

}  // namespace rocksdb

namespace kerf {
namespace {

using rocksdb::MemTableRep;
using rocksdb::Slice;

constexpr std::size_t kTrailerBytes = 8;
constexpr std::uint64_t kPut = 1;

// Gives memory at each address in turn.
class OddMemory final : public rocksdb::Allocator {
 public:
  char* Allocate(std::size_t size_bytes) override {
    const std::size_t shift = pieces_.size() % 8;
    pieces_.push_back(std::make_unique<char[]>(size_bytes + shift));
    return pieces_.back().get() + shift;
  }
  char* AllocateAligned(std::size_t size_bytes, std::size_t /*huge_page_bytes*/,
                        rocksdb::Logger* /*logger*/) override {
    return Allocate(size_bytes);
  }
  std::size_t BlockSize() const override { return 4096; }

 private:
  std::vector<std::unique_ptr<char[]>> pieces_;
};

std::string_view ViewOf(Slice slice) { return {slice.data(), slice.size()}; }

std::string Little(std::uint64_t number) {
  std::string bytes;
  for (std::size_t index = 0; index < kTrailerBytes; ++index) {
    bytes.push_back(static_cast<char>(number >> (8 * index) & 0xFF));
  }
  return bytes;
}

std::string_view UserKeyOf(std::string_view internal_key) {
  return internal_key.substr(0, internal_key.size() - kTrailerBytes);
}

std::uint64_t SequenceOf(std::string_view internal_key) {
  std::uint64_t number = 0;
  for (std::size_t index = 1; index <= kTrailerBytes; ++index) {
    number = number << 8 | static_cast<std::uint8_t>(internal_key[internal_key.size() - index]);
  }
  return number >> 8;
}

std::string InternalKey(std::string_view key, std::uint64_t sequence) {
  return Cat(key, Little(sequence << 8 | kPut));
}

// Keys here are shorter than 100 bytes.
std::string_view InternalKeyOf(const char* entry) {
  return {entry + 1, static_cast<std::uint8_t>(*entry)};
}

// Keys by their bytes, the newest entry of one first.
class Order final : public MemTableRep::KeyComparator {
 public:
  int operator()(const char* a, const char* b) const override {
    return Compare(InternalKeyOf(a), InternalKeyOf(b));
  }
  int operator()(const char* a, const Slice& b) const override {
    return Compare(InternalKeyOf(a), ViewOf(b));
  }
  static int Compare(std::string_view a, std::string_view b) {
    const int keys = UserKeyOf(a).compare(UserKeyOf(b));
    if (keys != 0) return keys;
    if (SequenceOf(a) == SequenceOf(b)) return 0;
    return SequenceOf(a) > SequenceOf(b) ? -1 : 1;
  }
};

struct Entry {
  std::string key;
  std::uint64_t sequence = 0;

  friend bool operator==(const Entry&, const Entry&) = default;
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.sequence > b.sequence;
  }
};

Entry EntryAt(const MemTableRep::Iterator& at) {
  const std::string_view internal_key = InternalKeyOf(at.key());
  return {std::string(UserKeyOf(internal_key)), SequenceOf(internal_key)};
}

class Table {
 public:
  explicit Table(std::size_t bucket_count) {
    factory_ = NewHashedMemtables(bucket_count);
    table_.reset(factory_->CreateMemTableRep(order_, &memory_, nullptr, nullptr));
  }

  bool Insert(const Entry& entry) {
    const std::string internal_key = InternalKey(entry.key, entry.sequence);
    char* bytes = nullptr;
    const rocksdb::KeyHandle handle = table_->Allocate(internal_key.size() + 2, &bytes);
    *bytes = static_cast<char>(internal_key.size());
    internal_key.copy(bytes + 1, internal_key.size());
    // A value of no bytes.
    bytes[1 + internal_key.size()] = 0;
    return table_->InsertKey(handle);
  }

  // The entries of the key that are not newer than that, as Get meets them.
  std::vector<std::uint64_t> SequencesOf(std::string_view key, std::uint64_t sequence) {
    const std::unique_ptr<MemTableRep::Iterator> at(table_->GetDynamicPrefixIterator());
    std::vector<std::uint64_t> found;
    for (at->Seek(InternalKey(key, sequence), nullptr); at->Valid(); at->Next()) {
      EXPECT_EQ(EntryAt(*at).key, key);
      found.push_back(EntryAt(*at).sequence);
    }
    return found;
  }

  std::unique_ptr<MemTableRep::Iterator> Walk() {
    return std::unique_ptr<MemTableRep::Iterator>(table_->GetIterator());
  }

  MemTableRep& operator*() { return *table_; }

 private:
  const Order order_;
  OddMemory memory_;
  std::shared_ptr<rocksdb::MemTableRepFactory> factory_;
  std::unique_ptr<MemTableRep> table_;
};

std::vector<Entry> AllOf(MemTableRep::Iterator& at) {
  std::vector<Entry> all;
  for (at.SeekToFirst(); at.Valid(); at.Next()) all.push_back(EntryAt(at));
  return all;
}

// With the sequence numbers from 1 on.
std::vector<Entry> RandomEntries(std::size_t count, std::size_t key_count) {
  Random random(TestSeed());
  std::vector<Entry> entries;
  for (std::uint64_t sequence = 1; sequence <= count; ++sequence) {
    entries.push_back({Cat("key", random.Below(key_count)), sequence});
  }
  return entries;
}

TEST(HashedMemtableAloneTest, WhatIsThereTwiceIsTakenOnce) {
  Table table(1);
  for (const std::uint64_t sequence : {5u, 9u, 7u, 3u}) {
    EXPECT_TRUE(table.Insert({"key", sequence}));
    EXPECT_FALSE(table.Insert({"key", sequence}));
  }
  EXPECT_TRUE(table.Insert({"other", 5}));
  EXPECT_EQ(table.SequencesOf("key", 100), (std::vector<std::uint64_t>{9, 7, 5, 3}));
  EXPECT_EQ(table.SequencesOf("key", 6), (std::vector<std::uint64_t>{5, 3}));
  EXPECT_EQ(table.SequencesOf("key", 2), std::vector<std::uint64_t>{});
  EXPECT_EQ(table.SequencesOf("none", 100), std::vector<std::uint64_t>{});
  const std::unique_ptr<MemTableRep::Iterator> at = table.Walk();
  EXPECT_EQ(AllOf(*at),
            (std::vector<Entry>{{"key", 9}, {"key", 7}, {"key", 5}, {"key", 3}, {"other", 5}}));
}

TEST(HashedMemtableAloneTest, SaysWhatItContains) {
  Table table(4);
  const std::vector<Entry> entries = RandomEntries(200, 20);
  const auto contains = [&table](const Entry& entry) {
    const std::string internal_key = InternalKey(entry.key, entry.sequence);
    return (*table).Contains((static_cast<char>(internal_key.size()) + internal_key).c_str());
  };
  for (const Entry& entry : entries) {
    EXPECT_FALSE(contains(entry));
    ASSERT_TRUE(table.Insert(entry));
    EXPECT_TRUE(contains(entry));
    EXPECT_FALSE(contains({entry.key, entry.sequence + 1}));
    EXPECT_FALSE(contains({entry.key + "x", entry.sequence}));
  }
  for (const Entry& entry : entries) EXPECT_TRUE(contains(entry));
}

// Memory beside the allocator's is told, so that small memtables do not come with large tables.
TEST(HashedMemtableAloneTest, SaysWhatItsBucketsTake) {
  EXPECT_LE((*Table(1)).ApproximateMemoryUsage(), 64u);
  EXPECT_GE((*Table(1000)).ApproximateMemoryUsage(), 1000 * sizeof(void*));
  EXPECT_LE((*Table(1000)).ApproximateMemoryUsage(), 1024 * (sizeof(void*) + 1));
  EXPECT_GT((*Table(0)).ApproximateMemoryUsage(), 0u);
}

TEST(HashedMemtableAloneTest, AnEmptyOneHasNoPlace) {
  Table table(16);
  const std::unique_ptr<MemTableRep::Iterator> at = table.Walk();
  EXPECT_FALSE(at->Valid());
  at->SeekToFirst();
  EXPECT_FALSE(at->Valid());
  at->SeekToLast();
  EXPECT_FALSE(at->Valid());
  at->Seek(InternalKey("key", 1), nullptr);
  EXPECT_FALSE(at->Valid());
  at->SeekForPrev(InternalKey("key", 1), nullptr);
  EXPECT_FALSE(at->Valid());
}

// Every place of it, and the two ends, from every side.
TEST(HashedMemtableAloneTest, SeeksAndSteps) {
  Table table(16);
  std::vector<Entry> entries = RandomEntries(300, 40);
  for (const Entry& entry : entries) ASSERT_TRUE(table.Insert(entry));
  std::sort(entries.begin(), entries.end());
  const std::unique_ptr<MemTableRep::Iterator> at = table.Walk();
  const auto expect_at = [&](std::vector<Entry>::const_iterator expected) {
    ASSERT_EQ(at->Valid(), expected != entries.cend());
    if (!at->Valid()) return;
    ASSERT_EQ(EntryAt(*at), *expected);
  };
  std::vector<Entry> asked = entries;
  for (const Entry& entry : entries) {
    asked.push_back({entry.key, entry.sequence + 1});
    asked.push_back({entry.key + "0", entry.sequence});
  }
  asked.push_back({"", 1});
  asked.push_back({"z", 1});
  for (const Entry& entry : asked) {
    const auto from = std::lower_bound(entries.cbegin(), entries.cend(), entry);
    at->Seek(InternalKey(entry.key, entry.sequence), nullptr);
    expect_at(from);
    if (at->Valid()) {
      at->Next();
      expect_at(from + 1);
    }
    const auto behind = std::upper_bound(entries.cbegin(), entries.cend(), entry);
    const auto before = behind == entries.cbegin() ? entries.cend() : behind - 1;
    at->SeekForPrev(InternalKey(entry.key, entry.sequence), nullptr);
    expect_at(before);
    if (at->Valid()) {
      at->Prev();
      expect_at(before == entries.cbegin() ? entries.cend() : before - 1);
    }
    ASSERT_FALSE(HasFailure()) << entry.key << " " << entry.sequence;
  }
}

// Each walk has what was there as it began, few or many entries behind the one before it, at either
// end and in between, and keeps it.
TEST(HashedMemtableAloneTest, AWalkHasWhatCameSinceTheLastOne) {
  Random random(TestSeed());
  for (int round = 0; round < 10; ++round) {
    Table table(std::size_t{1} << random.Below(8));
    std::vector<Entry> entries = RandomEntries(800, 1 + random.Below(600));
    // Out of order, too, as a damaged log has them.
    for (int swaps = 0; round % 2 == 1 && swaps < 100; ++swaps) {
      std::swap(entries[random.Below(entries.size())], entries[random.Below(entries.size())]);
    }
    std::unique_ptr<MemTableRep::Iterator> earlier;
    std::vector<Entry> earlier_expected;
    for (std::size_t count = 0; count < entries.size();) {
      const std::size_t added_count = random.Between(1, random.OneIn(4) ? 150 : 4);
      for (std::size_t added = 0; added < added_count && count < entries.size(); ++added) {
        ASSERT_TRUE(table.Insert(entries[count++]));
      }
      std::vector<Entry> expected(entries.begin(),
                                  entries.begin() + static_cast<std::ptrdiff_t>(count));
      std::sort(expected.begin(), expected.end());
      std::unique_ptr<MemTableRep::Iterator> at = table.Walk();
      ASSERT_EQ(AllOf(*at), expected) << "round " << round << ", " << count << " entries";
      if (earlier != nullptr) {
        ASSERT_EQ(AllOf(*earlier), earlier_expected);
      }
      earlier = std::move(at);
      earlier_expected = std::move(expected);
    }
  }
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Whatever keys have in common: none is looked for among many.
TEST(HashedMemtableAloneTest, KeysOfALargeOneTakeNoLonger) {
  constexpr std::uint64_t kCount = 30'000;
  constexpr std::uint64_t kPartCount = 3'000;
  Table table(kCount);
  double first_seconds = 0;
  double last_seconds = 0;
  for (std::uint64_t sequence = 1; sequence <= kCount; ++sequence) {
    const Entry entry{Cat("E\6photos\1", 1'000'000 + sequence, "anything behind it"), sequence};
    const double begin = ThreadSeconds();
    ASSERT_TRUE(table.Insert(entry));
    const double seconds = ThreadSeconds() - begin;
    if (sequence <= kPartCount) first_seconds += seconds;
    if (sequence > kCount - kPartCount) last_seconds += seconds;
  }
  EXPECT_LT(last_seconds, 6 * first_seconds + 0.01);
}

// A client may ask for one entry at a time, beside others who write: not all is sorted each time.
TEST(HashedMemtableAloneTest, WalksBesideAWriterCostWhatItWrites) {
  constexpr std::size_t kCount = 30'000;
  constexpr int kWalkCount = 200;
  Table table(kCount);
  const auto seconds_of_a_walk = [&table] {
    const double begin = ThreadSeconds();
    const std::unique_ptr<MemTableRep::Iterator> at = table.Walk();
    at->Seek(InternalKey("key5", 1), nullptr);
    EXPECT_TRUE(at->Valid());
    return ThreadSeconds() - begin;
  };
  Random random(TestSeed());
  std::uint64_t sequence = 0;
  const auto insert = [&] {
    ASSERT_TRUE(table.Insert({Cat("key", random.Below(std::uint64_t{1} << 60)), ++sequence}));
  };
  while (sequence < kCount) insert();
  const double sorting_seconds = seconds_of_a_walk();
  double seconds = 0;
  for (int walk = 0; walk < kWalkCount; ++walk) {
    insert();
    insert();
    seconds += seconds_of_a_walk();
  }
  EXPECT_LT(seconds, 0.2 * kWalkCount * sorting_seconds);
}

// Readers as RocksDB has them: each up to a sequence number that was told behind the insertion, and
// all up to there is there for it, whatever the writer does meanwhile.
class Readers {
 public:
  Readers(Table& table, const std::vector<Entry>& entries) : table_(table), entries_(entries) {}

  // The writer: all up to there is inserted.
  void Tell(std::uint64_t sequence) { told_.store(sequence, std::memory_order_release); }

  void Read(std::uint64_t seed) {
    Random random(seed);
    for (std::uint64_t sequence = 0; sequence < entries_.size();) {
      sequence = told_.load(std::memory_order_acquire);
      for (int lookup = 0; lookup < 20; ++lookup) {
        ReadKey(entries_[random.Below(entries_.size())].key, sequence);
      }
      if (random.OneIn(8)) ReadAll(sequence);
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  void ReadKey(const std::string& key, std::uint64_t sequence) {
    std::vector<std::uint64_t> expected;
    for (std::uint64_t number = sequence; number > 0; --number) {
      if (entries_[number - 1].key == key) expected.push_back(number);
    }
    ASSERT_EQ(table_.SequencesOf(key, sequence), expected);
  }

  void ReadAll(std::uint64_t sequence) {
    std::vector<Entry> expected(entries_.begin(),
                                entries_.begin() + static_cast<std::ptrdiff_t>(sequence));
    std::sort(expected.begin(), expected.end());
    const std::unique_ptr<MemTableRep::Iterator> at = table_.Walk();
    std::vector<Entry> met;
    std::vector<Entry> of_then;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      met.push_back(EntryAt(*at));
      if (met.back().sequence <= sequence) of_then.push_back(met.back());
    }
    ASSERT_TRUE(std::is_sorted(met.begin(), met.end()));
    ASSERT_EQ(of_then, expected);
  }

  Table& table_;
  const std::vector<Entry>& entries_;
  std::atomic<std::uint64_t> told_{0};
};

TEST(HashedMemtableAloneTest, ReadersBesideTheWriter) {
  constexpr std::size_t kReaderCount = 3;
  for (const std::size_t bucket_count : {1u, 8u, 1024u}) {
    Table table(bucket_count);
    const std::vector<Entry> entries = RandomEntries(3000, 60);
    Readers readers(table, entries);
    std::vector<std::thread> threads;
    threads.reserve(kReaderCount);
    for (std::uint64_t reader = 0; reader < kReaderCount; ++reader) {
      threads.emplace_back([&readers, reader] { readers.Read(TestSeed() + reader); });
    }
    for (const Entry& entry : entries) {
      EXPECT_TRUE(table.Insert(entry));
      if (entry.sequence % 7 == 0 || entry.sequence == entries.size()) readers.Tell(entry.sequence);
      if (entry.sequence % 64 == 0) std::this_thread::yield();
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_FALSE(HasFailure()) << bucket_count << " buckets";
  }
}

// What comes while all is put in order is met there or not, and has one place behind that.
TEST(HashedMemtableAloneTest, WhatComesMeanwhileHasOnePlace) {
  constexpr std::uint64_t kCount = 2000;
  // Few, so that they are put in their places by the next walk.
  constexpr std::uint64_t kAddedCount = 100;
  for (int round = 0; round < 20; ++round) {
    Table table(kCount);
    std::vector<Entry> entries;
    for (std::uint64_t sequence = 1; sequence <= kCount + kAddedCount; ++sequence) {
      entries.push_back({Cat("key", sequence * 7919 % 10'007), sequence});
    }
    for (std::uint64_t index = 0; index < kCount; ++index) {
      ASSERT_TRUE(table.Insert(entries[index]));
    }
    std::atomic<bool> is_writing{false};
    std::thread writer([&] {
      for (std::uint64_t index = kCount; index < entries.size(); ++index) {
        EXPECT_TRUE(table.Insert(entries[index]));
        is_writing = true;
        std::this_thread::sleep_for(std::chrono::microseconds(10));
      }
    });
    while (!is_writing) std::this_thread::yield();
    const std::unique_ptr<MemTableRep::Iterator> meanwhile = table.Walk();
    const std::vector<Entry> met = AllOf(*meanwhile);
    writer.join();
    EXPECT_GT(met.size(), kCount);
    EXPECT_TRUE(std::is_sorted(met.begin(), met.end()));
    std::sort(entries.begin(), entries.end());
    const std::unique_ptr<MemTableRep::Iterator> at = table.Walk();
    ASSERT_EQ(AllOf(*at), entries) << "round " << round;
  }
}

}  // namespace
}  // namespace kerf
