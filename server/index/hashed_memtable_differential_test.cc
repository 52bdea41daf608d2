// Two databases that are told the same, one over hashed memtables and one over RocksDB's own, and
// asked the same: each answer of the one is that of the other, whatever they are opened with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "server/index/hashed_memtable.h"
#include "server/index/testing/append_merge.h"

namespace kerf {
namespace {

constexpr std::size_t kKeyCount = 250;
constexpr int kOpeningCount = kIsSanitized ? 12 : 40;
constexpr int kStepsOfOpening = 150;
constexpr std::size_t kMaxOpenCount = 4;
constexpr std::size_t kPrefixBytes = 2;

struct Side {
  std::string path;
  bool is_hashed = false;
  std::unique_ptr<rocksdb::DB> database;
};

struct Moment {
  const rocksdb::Snapshot* of[2];
};

// Of both sides; its bounds are its own, as iterators keep pointers to them, and to their snapshot:
// RocksDB reads one that was released when such an iterator comes to another table file.
struct Walk {
  std::shared_ptr<const Moment> moment;
  rocksdb::ReadOptions read;
  std::string lower;
  std::string upper;
  rocksdb::Slice lower_slice;
  rocksdb::Slice upper_slice;
  bool stays_in_prefix = false;
  std::unique_ptr<rocksdb::Iterator> at[2];
};

class DifferentialTest : public testing::Test {
 protected:
  DifferentialTest() {
    // Whatever ends the process within RocksDB leaves nobody to tell.
    std::cout << "KERF_TEST_SEED=" << TestSeed() << std::endl;
    const char* root = std::getenv("TEST_TMPDIR");
    const std::string folder = Cat(root != nullptr ? root : "/tmp", "/kerf_hashed_differential");
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    for (int side = 0; side < 2; ++side) sides_[side].path = Cat(folder, "/", side);
    sides_[0].is_hashed = true;
    while (keys_.size() < kKeyCount) keys_.push_back(RandomKey());
  }
  ~DifferentialTest() override {
    Close();
    for (const Side& side : sides_) std::filesystem::remove_all(side.path);
  }

  // Alike at the beginning, with zeros at the end, one within the other.
  std::string RandomKey() {
    static constexpr const char* kBegins[] = {"", "C", "Ephotos", "Ephotos\x01",
                                              "Ephotosphotosphot"};
    std::string key = kBegins[random_.Below(5)];
    for (std::uint64_t left = random_.Below(random_.OneIn(8) ? 300 : 12); left > 0; --left) {
      key.push_back(static_cast<char>(random_.OneIn(3) ? 0 : random_.Below(256)));
    }
    return key;
  }
  const std::string& AnyKey() {
    // Some are written again and again.
    return keys_[random_.OneIn(3) ? random_.Below(4) : random_.Below(keys_.size())];
  }

  void Close() {
    walks_.clear();
    moments_.clear();
    for (Side& side : sides_) side.database.reset();
  }

  // With options that are drawn; sometimes each has what was the other's until now.
  void Open() {
    Close();
    if (random_.OneIn(4)) std::swap(sides_[0].path, sides_[1].path);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.merge_operator = std::make_shared<AppendMerge>();
    options.write_buffer_size = std::size_t{16 << 10} << random_.Below(6);
    options.arena_block_size = random_.OneIn(2) ? 4 << 10 : 0;
    options.max_write_buffer_number = static_cast<int>(random_.Between(2, 5));
    options.min_write_buffer_number_to_merge = static_cast<int>(random_.Between(1, 2));
    options.db_write_buffer_size = random_.OneIn(2) ? options.write_buffer_size : 0;
    options.max_write_buffer_size_to_maintain = random_.OneIn(3) ? 1 << 20 : 0;
    options.max_successive_merges = random_.OneIn(3) ? random_.Between(1, 5) : 0;
    options.memtable_protection_bytes_per_key = random_.OneIn(3) ? 8 : 0;
    options.memtable_whole_key_filtering = random_.OneIn(3);
    options.memtable_prefix_bloom_size_ratio = random_.OneIn(3) ? 0.1 : 0;
    options.avoid_flush_during_recovery = random_.OneIn(2);
    options.avoid_flush_during_shutdown = random_.OneIn(2);
    options.enable_pipelined_write = random_.OneIn(3);
    options.level0_file_num_compaction_trigger = static_cast<int>(random_.Between(2, 6));
    options.allow_concurrent_memtable_write = false;
    has_prefixes_ = random_.OneIn(3);
    if (has_prefixes_) {
      options.prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(kPrefixBytes));
    }
    const std::size_t bucket_count = std::size_t{1} << random_.Below(10);
    for (Side& side : sides_) {
      rocksdb::Options own = options;
      if (side.is_hashed) own.memtable_factory = NewHashedMemtables(bucket_count);
      rocksdb::DB* database = nullptr;
      const rocksdb::Status status = rocksdb::DB::Open(own, side.path, &database);
      ASSERT_TRUE(status.ok()) << status.ToString();
      side.database.reset(database);
    }
  }

  // What is on the disk now, as if both processes had been killed; sometimes while they flush.
  void Crash() {
    rocksdb::FlushOptions flush;
    flush.wait = false;
    const bool is_flushing = random_.OneIn(2);
    for (Side& side : sides_) {
      if (!is_flushing) break;
      ASSERT_TRUE(side.database->Flush(flush).ok());
    }
    for (Side& side : sides_) {
      rocksdb::Checkpoint* made = nullptr;
      ASSERT_TRUE(rocksdb::Checkpoint::Create(side.database.get(), &made).ok());
      const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
      // With the log as it is.
      const rocksdb::Status status =
          checkpoint->CreateCheckpoint(side.path + "-killed", std::uint64_t{1} << 60);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    Close();
    for (Side& side : sides_) {
      std::filesystem::remove_all(side.path);
      std::filesystem::rename(side.path + "-killed", side.path);
    }
  }

  void Write() {
    rocksdb::WriteBatch writes;
    for (std::uint64_t left = random_.Between(1, random_.OneIn(6) ? 200 : 6); left > 0; --left) {
      const std::string& key = AnyKey();
      std::string value = Cat(++value_count_);
      if (random_.OneIn(30)) value.resize(random_.Below(5000), '.');
      switch (random_.Below(10)) {
        case 0:
        case 1:
          ASSERT_TRUE(writes.Delete(key).ok());
          break;
        case 2:
        case 3:
          ASSERT_TRUE(writes.Merge(key, value).ok());
          break;
        case 4: {
          if (!random_.OneIn(10)) break;
          const std::string& other = AnyKey();
          ASSERT_TRUE(writes.DeleteRange(std::min(key, other), std::max(key, other)).ok());
          break;
        }
        default:
          ASSERT_TRUE(writes.Put(key, value).ok());
      }
    }
    for (Side& side : sides_) {
      rocksdb::WriteBatch copy(writes);
      ASSERT_TRUE(side.database->Write(rocksdb::WriteOptions(), &copy).ok());
    }
    ASSERT_EQ(sides_[0].database->GetLatestSequenceNumber(),
              sides_[1].database->GetLatestSequenceNumber());
  }

  // Of now, or of a moment that is kept.
  std::shared_ptr<const Moment> AnyMoment() {
    return moments_.empty() || random_.OneIn(2) ? nullptr
                                                : moments_[random_.Below(moments_.size())];
  }

  void Get() {
    const std::shared_ptr<const Moment> moment = AnyMoment();
    std::vector<std::string> asked;
    for (std::uint64_t left = random_.Between(1, 40); left > 0; --left) asked.push_back(AnyKey());
    const bool is_sorted = random_.OneIn(2);
    if (is_sorted) std::sort(asked.begin(), asked.end());
    const std::vector<rocksdb::Slice> slices(asked.begin(), asked.end());
    std::vector<std::pair<int, std::string>> single[2];
    std::vector<std::pair<int, std::string>> many[2];
    for (int side = 0; side < 2; ++side) {
      rocksdb::ReadOptions read;
      if (moment != nullptr) read.snapshot = moment->of[side];
      rocksdb::DB& database = *sides_[side].database;
      for (const rocksdb::Slice& key : slices) {
        std::string value;
        const rocksdb::Status status = database.Get(read, key, &value);
        single[side].emplace_back(status.code(), value);
      }
      std::vector<rocksdb::PinnableSlice> values(slices.size());
      std::vector<rocksdb::Status> statuses(slices.size());
      database.MultiGet(read, database.DefaultColumnFamily(), slices.size(), slices.data(),
                        values.data(), statuses.data(), is_sorted);
      for (std::size_t index = 0; index < slices.size(); ++index) {
        many[side].emplace_back(statuses[index].code(), values[index].ToString());
      }
    }
    ASSERT_EQ(single[0], single[1]);
    ASSERT_EQ(many[0], many[1]);
    ASSERT_EQ(single[0], many[0]);
  }

  void BeginWalk() {
    auto walk = std::make_unique<Walk>();
    const std::shared_ptr<const Moment> moment = AnyMoment();
    walk->moment = moment;
    walk->stays_in_prefix = has_prefixes_ && random_.OneIn(2);
    walk->read.total_order_seek = !walk->stays_in_prefix;
    walk->read.prefix_same_as_start = walk->stays_in_prefix;
    walk->lower = AnyKey();
    walk->upper = AnyKey();
    if (walk->upper < walk->lower) std::swap(walk->lower, walk->upper);
    walk->lower_slice = walk->lower;
    walk->upper_slice = walk->upper;
    const bool may_end = !walk->stays_in_prefix;
    if (may_end && random_.OneIn(3)) walk->read.iterate_lower_bound = &walk->lower_slice;
    if (may_end && random_.OneIn(3)) walk->read.iterate_upper_bound = &walk->upper_slice;
    for (int side = 0; side < 2; ++side) {
      rocksdb::ReadOptions read = walk->read;
      if (moment != nullptr) read.snapshot = moment->of[side];
      walk->at[side].reset(sides_[side].database->NewIterator(read));
    }
    if (walks_.size() == kMaxOpenCount) walks_.erase(walks_.begin());
    walks_.push_back(std::move(walk));
  }

  // Some steps, compared after each.
  void GoOn(Walk& walk) {
    for (std::uint64_t left = random_.Between(1, 60); left > 0; --left) {
      const std::uint64_t step = random_.Below(walk.stays_in_prefix ? 6 : 16);
      const std::string& key = AnyKey();
      const bool is_valid = walk.at[0]->Valid();
      for (const auto& at : walk.at) {
        if (step == 0 || (step < 6 && !is_valid)) {
          at->Seek(key);
        } else if (step < 6) {
          at->Next();
        } else if (step < 13 && is_valid) {
          at->Prev();
        } else if (step < 14) {
          at->SeekForPrev(key);
        } else if (step < 15) {
          at->SeekToFirst();
        } else {
          at->SeekToLast();
        }
      }
      ASSERT_EQ(walk.at[0]->Valid(), walk.at[1]->Valid());
      ASSERT_EQ(walk.at[0]->status().code(), walk.at[1]->status().code());
      if (!walk.at[0]->Valid()) continue;
      ASSERT_EQ(walk.at[0]->key().ToString(), walk.at[1]->key().ToString());
      ASSERT_EQ(walk.at[0]->value().ToString(), walk.at[1]->value().ToString());
    }
  }

  void KeepMoment() {
    if (moments_.size() == kMaxOpenCount) {
      moments_.erase(moments_.begin() +
                     static_cast<std::ptrdiff_t>(random_.Below(moments_.size())));
    }
    // Until the last walk of that moment has ended.
    const auto release = [this](const Moment* moment) {
      for (int side = 0; side < 2; ++side) {
        sides_[side].database->ReleaseSnapshot(moment->of[side]);
      }
      delete moment;
    };
    moments_.emplace_back(
        new Moment{{sides_[0].database->GetSnapshot(), sides_[1].database->GetSnapshot()}},
        release);
  }

  // All of it, in both directions.
  void CompareAll() {
    std::vector<std::pair<std::string, std::string>> all[2];
    for (int side = 0; side < 2; ++side) {
      rocksdb::ReadOptions read;
      read.total_order_seek = true;
      const std::unique_ptr<rocksdb::Iterator> at(sides_[side].database->NewIterator(read));
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        all[side].emplace_back(at->key().ToString(), at->value().ToString());
      }
      for (at->SeekToLast(); at->Valid(); at->Prev()) {
        all[side].emplace_back(at->key().ToString(), at->value().ToString());
      }
      ASSERT_TRUE(at->status().ok()) << at->status().ToString();
    }
    ASSERT_EQ(all[0], all[1]);
  }

  void Step() {
    switch (random_.Below(12)) {
      case 0:
        return KeepMoment();
      case 1:
        return BeginWalk();
      case 2:
      case 3:
        return walks_.empty() ? BeginWalk() : GoOn(*walks_[random_.Below(walks_.size())]);
      case 4:
      case 5:
        return Get();
      case 6: {
        if (!random_.OneIn(6)) return;
        for (Side& side : sides_) {
          const rocksdb::Status status = side.database->Flush(rocksdb::FlushOptions());
          ASSERT_TRUE(status.ok()) << status.ToString();
        }
        return;
      }
      case 7: {
        if (!random_.OneIn(20)) return;
        for (Side& side : sides_) {
          rocksdb::CompactRangeOptions options;
          ASSERT_TRUE(side.database->CompactRange(options, nullptr, nullptr).ok());
        }
        return;
      }
      default:
        return Write();
    }
  }

  Random random_{TestSeed()};
  std::vector<std::string> keys_;
  Side sides_[2];
  bool has_prefixes_ = false;
  std::uint64_t value_count_ = 0;
  std::vector<std::unique_ptr<Walk>> walks_;
  std::vector<std::shared_ptr<const Moment>> moments_;
};

TEST_F(DifferentialTest, BothAnswerAlike) {
  for (int opening = 0; opening < kOpeningCount; ++opening) {
    Open();
    ASSERT_FALSE(HasFatalFailure()) << "opening " << opening;
    CompareAll();
    for (int step = 0; step < kStepsOfOpening && !HasFatalFailure(); ++step) Step();
    if (!HasFatalFailure()) CompareAll();
    if (!HasFatalFailure() && random_.OneIn(3)) Crash();
    ASSERT_FALSE(HasFatalFailure()) << "opening " << opening;
  }
}

}  // namespace
}  // namespace kerf
