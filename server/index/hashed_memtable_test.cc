// RocksDB over hashed memtables, beside a map that is put in order always.
#include "server/index/hashed_memtable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "server/index/testing/append_merge.h"

namespace kerf {
namespace {

using Model = std::map<std::string, std::string>;

class HashedMemtableTest : public testing::Test {
 protected:
  HashedMemtableTest() {
    const char* root = std::getenv("TEST_TMPDIR");
    path_ = Cat(root != nullptr ? root : "/tmp", "/kerf_hashed_memtable_test");
    std::filesystem::remove_all(path_);
  }
  ~HashedMemtableTest() override {
    database_.reset();
    std::filesystem::remove_all(path_);
  }

  // Few buckets, so that keys meet in them.
  void Open(bool is_hashed = true, std::size_t bucket_count = 16,
            std::size_t memtable_bytes = 1 << 20) {
    database_.reset();
    rocksdb::Options options;
    options.create_if_missing = true;
    options.merge_operator = std::make_shared<AppendMerge>();
    options.write_buffer_size = memtable_bytes;
    if (is_hashed) {
      options.memtable_factory = NewHashedMemtables(bucket_count);
      options.allow_concurrent_memtable_write = false;
    }
    rocksdb::DB* database = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, path_, &database);
    ASSERT_TRUE(status.ok()) << status.ToString();
    database_.reset(database);
  }

  std::optional<std::string> Get(const std::string& key,
                                 const rocksdb::Snapshot* snapshot = nullptr) {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    std::string value;
    const rocksdb::Status status = database_->Get(read, key, &value);
    EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    return status.ok() ? std::optional(value) : std::nullopt;
  }

  // Of all keys, those that are not there, too; and going through it in both directions.
  void ExpectHolds(const Model& model, const std::vector<std::string>& keys,
                   const rocksdb::Snapshot* snapshot = nullptr) {
    for (const std::string& key : keys) {
      const auto found = model.find(key);
      EXPECT_EQ(Get(key, snapshot),
                found == model.end() ? std::nullopt : std::optional(found->second))
          << key;
    }
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(read));
    std::vector<std::pair<std::string, std::string>> forward;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      forward.emplace_back(at->key().ToString(), at->value().ToString());
    }
    EXPECT_EQ(forward,
              (std::vector<std::pair<std::string, std::string>>(model.begin(), model.end())));
    std::vector<std::pair<std::string, std::string>> backward;
    for (at->SeekToLast(); at->Valid(); at->Prev()) {
      backward.emplace_back(at->key().ToString(), at->value().ToString());
    }
    EXPECT_EQ(backward,
              (std::vector<std::pair<std::string, std::string>>(model.rbegin(), model.rend())));
    ExpectSeeks(model, keys, *at);
  }

  void ExpectSeeks(const Model& model, const std::vector<std::string>& keys,
                   rocksdb::Iterator& at) {
    for (std::size_t index = 0; index < keys.size(); index += 7) {
      at.Seek(keys[index]);
      const auto from = model.lower_bound(keys[index]);
      ASSERT_EQ(at.Valid(), from != model.end());
      if (at.Valid()) {
        EXPECT_EQ(at.key().ToString(), from->first);
      }
      at.SeekForPrev(keys[index]);
      const auto behind = model.upper_bound(keys[index]);
      ASSERT_EQ(at.Valid(), behind != model.begin());
      if (at.Valid()) {
        EXPECT_EQ(at.key().ToString(), std::prev(behind)->first);
      }
    }
  }

  // Some changes in one batch; of one key there may be several.
  void ChangeSomething(Random& random, const std::vector<std::string>& keys, Model& model) {
    rocksdb::WriteBatch writes;
    const std::uint64_t count = random.Between(1, 8);
    for (std::uint64_t change = 0; change < count; ++change) {
      const std::string& key = keys[random.Below(keys.size())];
      const std::string value = Cat(random.Below(1000));
      switch (random.Below(4)) {
        case 0:
          ASSERT_TRUE(writes.Delete(key).ok());
          model.erase(key);
          break;
        case 1:
          ASSERT_TRUE(writes.Merge(key, value).ok());
          model[key] += value;
          break;
        default:
          ASSERT_TRUE(writes.Put(key, value).ok());
          model[key] = value;
          break;
      }
    }
    ASSERT_TRUE(database_->Write(rocksdb::WriteOptions(), &writes).ok());
  }

  std::string path_;
  std::unique_ptr<rocksdb::DB> database_;
};

std::vector<std::string> Keys(Random& random, std::size_t count) {
  std::vector<std::string> keys;
  keys.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    std::string key = Cat(random.OneIn(2) ? "Ephotos" : "C", "");
    const std::uint64_t size_bytes = random.Below(12);
    for (std::uint64_t byte = 0; byte < size_bytes; ++byte) {
      key.push_back(static_cast<char>(random.OneIn(3) ? 0 : random.Below(256)));
    }
    keys.push_back(key);
  }
  return keys;
}

TEST_F(HashedMemtableTest, AnEmptyOneHasNothing) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ExpectHolds({}, {"", "a"});
}

// With flushes, snapshots and new openings, of which some have RocksDB's own memtables.
TEST_F(HashedMemtableTest, HoldsWhatAMapHolds) {
  Random random(TestSeed());
  const std::vector<std::string> keys = Keys(random, 300);
  Model model;
  Open();
  ASSERT_FALSE(HasFatalFailure());
  for (int round = 0; round < 20; ++round) {
    for (int change = 0; change < 100; ++change) ChangeSomething(random, keys, model);
    const rocksdb::Snapshot* snapshot = database_->GetSnapshot();
    const Model then = model;
    ExpectHolds(model, keys);
    for (int change = 0; change < 50; ++change) ChangeSomething(random, keys, model);
    ExpectHolds(then, keys, snapshot);
    ExpectHolds(model, keys);
    if (random.OneIn(3)) {
      ASSERT_TRUE(database_->Flush(rocksdb::FlushOptions()).ok());
    }
    ExpectHolds(then, keys, snapshot);
    database_->ReleaseSnapshot(snapshot);
    if (random.OneIn(3)) Open(/*is_hashed=*/!random.OneIn(3), std::size_t{1} << random.Below(8));
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// Each database is read by the other kind, from its log and from its table files.
TEST_F(HashedMemtableTest, FilesAreThoseOfAnyMemtable) {
  for (const bool is_hashed : {true, false}) {
    Open(is_hashed);
    ASSERT_FALSE(HasFatalFailure());
    for (int number = 0; number < 2000; ++number) {
      const std::string key = Cat(is_hashed ? "hashed" : "sorted", number);
      ASSERT_TRUE(database_->Put(rocksdb::WriteOptions(), key, Cat(number)).ok());
      if (number == 1000) {
        ASSERT_TRUE(database_->Flush(rocksdb::FlushOptions()).ok());
      }
    }
    Open(!is_hashed);
    ASSERT_FALSE(HasFatalFailure());
    for (int number = 0; number < 2000; ++number) {
      EXPECT_EQ(Get(Cat(is_hashed ? "hashed" : "sorted", number)), Cat(number));
    }
  }
}

TEST_F(HashedMemtableTest, ManyMergesOfOneKeyAreNotInTheWayOfOthers) {
  Open(/*is_hashed=*/true, /*bucket_count=*/1);
  ASSERT_FALSE(HasFatalFailure());
  std::string expected;
  for (int number = 0; number < 3000; ++number) {
    ASSERT_TRUE(database_->Merge(rocksdb::WriteOptions(), "sum", Cat(number)).ok());
    expected += Cat(number);
    if (number % 100 != 0) continue;
    ASSERT_TRUE(database_->Put(rocksdb::WriteOptions(), Cat("key", number), "value").ok());
    EXPECT_EQ(Get("sum"), expected);
  }
  for (int number = 0; number < 3000; number += 100) EXPECT_EQ(Get(Cat("key", number)), "value");
  ASSERT_TRUE(database_->Flush(rocksdb::FlushOptions()).ok());
  EXPECT_EQ(Get("sum"), expected);
}

// What was written before an iterator was made is what it shows.
TEST_F(HashedMemtableTest, AnIteratorShowsOneMoment) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(database_->Put(rocksdb::WriteOptions(), "a", "1").ok());
  ASSERT_TRUE(database_->Put(rocksdb::WriteOptions(), "c", "1").ok());
  const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
  // Never used.
  const std::unique_ptr<rocksdb::Iterator> other(database_->NewIterator(rocksdb::ReadOptions()));
  ASSERT_TRUE(database_->Put(rocksdb::WriteOptions(), "a", "2").ok());
  ASSERT_TRUE(database_->Put(rocksdb::WriteOptions(), "b", "2").ok());
  ASSERT_TRUE(database_->Delete(rocksdb::WriteOptions(), "c").ok());
  std::string seen;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    seen += at->key().ToString() + at->value().ToString();
  }
  EXPECT_EQ(seen, "a1c1");
}

// Iterators end in other threads than they began in, and behind the memtable's own end.
TEST_F(HashedMemtableTest, IteratorsMayGoFromThreadToThread) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(database_->Put(rocksdb::WriteOptions(), "a", "1").ok());
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
    at->SeekToFirst();
    ASSERT_TRUE(database_->Flush(rocksdb::FlushOptions()).ok());
    ASSERT_TRUE(database_->Put(rocksdb::WriteOptions(), Cat("b", round), "1").ok());
    std::thread([&at] {
      EXPECT_TRUE(at->Valid());
      EXPECT_EQ(at->key().ToString(), "a");
      at.reset();
    }).join();
  }
  // More than a thread keeps room for.
  std::vector<std::unique_ptr<rocksdb::Iterator>> many;
  many.reserve(200);
  for (int number = 0; number < 200; ++number) {
    many.emplace_back(database_->NewIterator(rocksdb::ReadOptions()));
    many.back()->SeekToFirst();
  }
  std::thread([&many] { many.clear(); }).join();
}

// Of a log of RocksDB that fits into one block: a checksum, two bytes of length, a kind, what it
// has.
std::vector<std::string> RecordsOf(const std::string& log) {
  constexpr std::size_t kHeaderBytes = 7;
  std::vector<std::string> records;
  for (std::size_t at = 0; at + kHeaderBytes <= log.size();) {
    const std::size_t size_bytes = kHeaderBytes + static_cast<std::uint8_t>(log[at + 4]) +
                                   256u * static_cast<std::uint8_t>(log[at + 5]);
    records.push_back(log.substr(at, size_bytes));
    at += size_bytes;
  }
  return records;
}

// Of a log whose writes are out of order is taken what RocksDB's own memtables take of it. (One
// that has a sequence number twice, or one before its first, ends the process with either: RocksDB,
// as Debian builds it, asserts that there is none.)
TEST_F(HashedMemtableTest, OfADamagedLogIsTakenWhatAnyMemtableTakes) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  for (const char* key : {"a", "b", "a", "c", "a"}) {
    ASSERT_TRUE(database_->Merge(rocksdb::WriteOptions(), key, Cat(key, "1")).ok());
  }
  database_.reset();
  const auto is_log = [](const auto& file) { return file.path().extension() == ".log"; };
  const std::filesystem::directory_iterator files(path_);
  const auto log = std::find_if(begin(files), end(files), is_log);
  ASSERT_TRUE(log != end(files));
  std::string bytes(std::filesystem::file_size(log->path()), '\0');
  std::ifstream(log->path()).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const std::vector<std::string> records = RecordsOf(bytes);
  ASSERT_EQ(records.size(), 5u);
  const std::string kept = path_ + "-kept";
  std::filesystem::remove_all(kept);
  std::filesystem::rename(path_, kept);
  Random random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> shuffled = records;
    for (std::size_t index = records.size() - 1; index > 1; --index) {
      std::swap(shuffled[index], shuffled[random.Between(1, index)]);
    }
    std::string damaged;
    for (const std::string& record : shuffled) damaged += record;
    std::vector<std::optional<std::string>> got[2];
    for (const bool is_hashed : {true, false}) {
      std::filesystem::remove_all(path_);
      std::filesystem::copy(kept, path_);
      std::ofstream(std::filesystem::path(path_) / log->path().filename(), std::ios::trunc)
          << damaged;
      Open(is_hashed);
      ASSERT_FALSE(HasFatalFailure());
      for (const char* key : {"a", "b", "c"}) got[is_hashed ? 1 : 0].push_back(Get(key));
      ASSERT_TRUE(database_->Merge(rocksdb::WriteOptions(), "a", "2").ok());
      got[is_hashed ? 1 : 0].push_back(Get("a"));
      database_.reset();
    }
    ASSERT_EQ(got[0], got[1]) << "round " << round;
  }
  std::filesystem::remove_all(kept);
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A client chooses digests. With this word in the last 16 bytes of a key absl's hash forgets all in
// front of it: such keys would lie in one bucket, and each write would walk over all before it.
TEST_F(HashedMemtableTest, KeysThatAreChosenTakeNoLonger) {
  constexpr char kWord[] = "\x44\x73\x70\x03\x2E\x8A\x19\x13";
  constexpr int kKeyCount = 30'000;
  Open(/*is_hashed=*/true, /*bucket_count=*/1 << 15, /*memtable_bytes=*/64 << 20);
  ASSERT_FALSE(HasFatalFailure());
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  double seconds[2] = {};
  for (const bool is_chosen : {false, true}) {
    const double begin = ThreadSeconds();
    for (int number = 0; number < kKeyCount; ++number) {
      std::string key = Cat("E\6photos\1", 1'000'000 + number, is_chosen ? "chosen" : "others");
      key.resize(32, '.');
      key.append(is_chosen ? std::string(kWord, 8) : "anything").push_back('.');
      ASSERT_TRUE(database_->Put(write, key, "value").ok());
    }
    seconds[is_chosen ? 1 : 0] = ThreadSeconds() - begin;
  }
  EXPECT_LT(seconds[1], 4 * seconds[0] + 0.1);
}

// What one batch writes is seen whole or not at all, by iterators and by lookups of one snapshot,
// however many are written meanwhile.
TEST_F(HashedMemtableTest, ABatchIsSeenWhole) {
  constexpr std::uint64_t kKeyCount = 40;
  constexpr int kRoundCount = 500;
  Open(/*is_hashed=*/true, /*bucket_count=*/8, /*memtable_bytes=*/64 << 10);
  ASSERT_FALSE(HasFatalFailure());
  std::atomic<bool> is_done{false};
  // Round by round each key has that round's number, or in some rounds the odd keys have none.
  const auto expect_one_round = [](const Model& seen) {
    if (seen.empty()) return;
    ASSERT_EQ(seen.size(), std::stoi(seen.begin()->second) % 3 == 0 ? kKeyCount / 2 : kKeyCount);
    for (const auto& [key, value] : seen) ASSERT_EQ(value, seen.begin()->second) << key;
  };
  const auto read = [&](std::uint64_t seed) {
    Random random(seed);
    while (!is_done && !HasFailure()) {
      const rocksdb::Snapshot* snapshot = database_->GetSnapshot();
      rocksdb::ReadOptions options;
      options.snapshot = snapshot;
      std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(options));
      Model forward;
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        forward[at->key().ToString()] = at->value().ToString();
      }
      expect_one_round(forward);
      Model backward;
      for (at->SeekForPrev("kez"); at->Valid(); at->Prev()) {
        backward[at->key().ToString()] = at->value().ToString();
      }
      ASSERT_EQ(forward, backward);
      Model looked_up;
      for (std::uint64_t key = 0; key < kKeyCount; ++key) {
        const std::optional<std::string> value = Get(Cat("key", key), snapshot);
        if (value.has_value()) looked_up[Cat("key", key)] = *value;
      }
      ASSERT_EQ(forward, looked_up);
      at.reset();
      database_->ReleaseSnapshot(snapshot);
    }
  };
  std::vector<std::thread> readers;
  readers.reserve(3);
  for (std::uint64_t reader = 0; reader < 3; ++reader) {
    readers.emplace_back(read, TestSeed() + reader);
  }
  for (int round = 1; round <= kRoundCount; ++round) {
    rocksdb::WriteBatch writes;
    for (std::uint64_t key = 0; key < kKeyCount; ++key) {
      const std::string name = Cat("key", (key + static_cast<std::uint64_t>(round)) % kKeyCount);
      const bool is_odd = (key + static_cast<std::uint64_t>(round)) % 2 == 1;
      EXPECT_TRUE(
          (round % 3 == 0 && is_odd ? writes.Delete(name) : writes.Put(name, Cat(round))).ok());
    }
    EXPECT_TRUE(database_->Write(rocksdb::WriteOptions(), &writes).ok());
  }
  is_done = true;
  for (std::thread& reader : readers) reader.join();
}

// Readers take no lock: whatever they meet, a key that was there stays there, and its value rises.
TEST_F(HashedMemtableTest, ReadersSeeWhatWasWrittenBefore) {
  constexpr int kKeyCount = 64;
  constexpr int kRoundCount = 400;
  Open(/*is_hashed=*/true, /*bucket_count=*/8, /*memtable_bytes=*/64 << 10);
  ASSERT_FALSE(HasFatalFailure());
  std::atomic<int> round{0};
  std::atomic<bool> is_done{false};
  const auto read = [&](std::uint64_t seed) {
    Random random(seed);
    while (!is_done) {
      const int from = round;
      const std::string key = Cat("key", random.Below(kKeyCount));
      const std::optional<std::string> value = Get(key);
      if (from > 0) {
        ASSERT_TRUE(value.has_value());
        ASSERT_GE(std::stoi(*value), from);
      }
      if (!random.OneIn(50)) continue;
      const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
      int count = 0;
      for (at->SeekToFirst(); at->Valid(); at->Next()) ++count;
      if (from > 0) {
        ASSERT_EQ(count, kKeyCount);
      }
    }
  };
  std::vector<std::thread> readers;
  readers.reserve(3);
  for (std::uint64_t reader = 0; reader < 3; ++reader) {
    readers.emplace_back(read, TestSeed() + reader);
  }
  for (int number = 1; number <= kRoundCount; ++number) {
    for (int key = 0; key < kKeyCount; ++key) {
      EXPECT_TRUE(database_->Put(rocksdb::WriteOptions(), Cat("key", key), Cat(number)).ok());
    }
    round = number;
  }
  is_done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace kerf
