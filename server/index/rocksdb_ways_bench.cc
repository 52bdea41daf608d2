// What ways of writing new entries into a RocksDB cost, beside each other: processor time of those
// who write and look up, and of RocksDB's own threads. docs/adr/0025 has the figures.
//
//   rocksdb_ways_bench [ENTRIES [NAME...]]    a million, and all of them
//
// Names are taken in their order, each as often as it is given.
//
// Each way gets the same entries, a thousand at a time, as streams commit them: looked up before
// (all are new), looked for again, and written. Some are looked up again, and some are deleted. Of
// a way that is walked one entry is read by an iterator behind each thousand. Then the database is
// closed, opened as kerf 0.1.0 opens it, and held to what was written.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/units.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/options.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "server/index/hashed_memtable.h"
#include "server/index/key_order.h"

namespace kerf {
namespace {

constexpr std::uint64_t kBatchCount = 1024;
constexpr std::uint64_t kHitsEvery = 8;
constexpr std::uint64_t kDeletesEvery = 16;
constexpr std::uint64_t kDeletedCount = 16;
constexpr std::uint64_t kRunCount = 64 * 1024;
constexpr std::uint64_t kRestRounds = 100;
constexpr char kPrefix[] = "E\006photos\001";

struct Setup {
  rocksdb::Options database;
  rocksdb::BlockBasedTableOptions table;
  rocksdb::WriteOptions write;
  bool ingests = false;
  // The memtable must not be read.
  bool is_write_only = false;
  bool is_walked = false;
};

struct Way {
  std::string name;
  std::function<void(Setup&)> change;
};

double Seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Adds up the processor time of this thread while it lives.
class Timed {
 public:
  explicit Timed(double* seconds) : seconds_(*seconds) {}
  ~Timed() { seconds_ += Seconds(CLOCK_THREAD_CPUTIME_ID) - began_; }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& seconds_;
  const double began_ = Seconds(CLOCK_THREAD_CPUTIME_ID);
};

std::string KeyOf(std::uint64_t number) {
  std::uint8_t digest[32];
  Random random(number);
  random.Fill(digest);
  return std::string(kPrefix) + std::string(reinterpret_cast<const char*>(digest), sizeof digest);
}

// As the codec encodes epoch 1, 8 KiB and a locator of 20 bytes.
std::string ValueOf(std::uint64_t number) {
  std::string value("\001\001\200\100\024", 5);
  std::uint8_t locator[20];
  Random random(number + 1);
  random.Fill(locator);
  return value.append(reinterpret_cast<const char*>(locator), sizeof locator);
}

// As server/index/rocksdb_store.cc has it in 0.1.0.
Setup Standing() {
  Setup setup;
  rocksdb::BlockBasedTableOptions& table = setup.table;
  table.block_cache = rocksdb::NewLRUCache(64 * kMiB);
  table.block_size = 4 * kKiB;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  rocksdb::Options& database = setup.database;
  database.create_if_missing = true;
  database.track_and_verify_wals_in_manifest = true;
  database.compression = rocksdb::kNoCompression;
  database.max_open_files = 512;
  database.max_background_jobs = 2;
  database.write_buffer_size = 16 * kMiB;
  database.db_write_buffer_size = 32 * kMiB;
  database.max_write_buffer_number = 4;
  database.memtable_whole_key_filtering = true;
  database.memtable_prefix_bloom_size_ratio = 0.05;
  database.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(1));
  database.target_file_size_base = 64 * kMiB;
  database.max_bytes_for_level_base = 256 * kMiB;
  database.level_compaction_dynamic_level_bytes = true;
  database.stats_dump_period_sec = 0;
  database.stats_persist_period_sec = 0;
  return setup;
}

void UseMemtable(Setup& setup, std::shared_ptr<rocksdb::MemTableRepFactory> memtables) {
  setup.database.memtable_factory = std::move(memtables);
  setup.database.allow_concurrent_memtable_write = false;
  setup.database.memtable_prefix_bloom_size_ratio = 0;
  setup.database.memtable_whole_key_filtering = false;
  setup.database.memtable_insert_with_hint_prefix_extractor.reset();
}

void UseHashed(Setup& setup) { UseMemtable(setup, NewHashedMemtables(128 * 1024)); }

void UsePrefixHash(Setup& setup, rocksdb::MemTableRepFactory* memtables) {
  UseMemtable(setup, std::shared_ptr<rocksdb::MemTableRepFactory>(memtables));
  setup.database.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(sizeof kPrefix - 1 + 8));
}

void UseUniversal(Setup& setup) {
  setup.database.compaction_style = rocksdb::kCompactionStyleUniversal;
  setup.database.level0_file_num_compaction_trigger = 8;
  setup.database.compaction_options_universal.max_size_amplification_percent = 1000;
}

std::vector<Way> WaysOfRocksDb() {
  return {
      {"stands", [](Setup&) {}},
      {"no hint",
       [](Setup& setup) { setup.database.memtable_insert_with_hint_prefix_extractor.reset(); }},
      {"one writer", [](Setup& setup) { setup.database.allow_concurrent_memtable_write = false; }},
      {"pipelined", [](Setup& setup) { setup.database.enable_pipelined_write = true; }},
      {"unordered", [](Setup& setup) { setup.database.unordered_write = true; }},
      {"two queues", [](Setup& setup) { setup.database.two_write_queues = true; }},
      {"log by hand", [](Setup& setup) { setup.database.manual_wal_flush = true; }},
      {"no log", [](Setup& setup) { setup.write.disableWAL = true; }},
      {"vector",
       [](Setup& setup) {
         UseMemtable(setup, std::make_shared<rocksdb::VectorRepFactory>(128 * 1024));
         setup.is_write_only = true;
       }},
      {"hash skip list",
       [](Setup& setup) { UsePrefixHash(setup, rocksdb::NewHashSkipListRepFactory(128 * 1024)); }},
      {"hash linked list",
       [](Setup& setup) { UsePrefixHash(setup, rocksdb::NewHashLinkListRepFactory(128 * 1024)); }},
  };
}

std::vector<Way> OtherWays() {
  return {
      {"hashed", UseHashed},
      {"hashed, twice the buckets",
       [](Setup& setup) { UseMemtable(setup, NewHashedMemtables(256 * 1024)); }},
      {"hashed, no log",
       [](Setup& setup) {
         UseHashed(setup);
         setup.write.disableWAL = true;
       }},
      {"hashed, blocks 16K",
       [](Setup& setup) {
         UseHashed(setup);
         setup.table.block_size = 16 * kKiB;
       }},
      {"hashed, plain blocks",
       [](Setup& setup) {
         UseHashed(setup);
         setup.table.data_block_index_type =
             rocksdb::BlockBasedTableOptions::kDataBlockBinarySearch;
       }},
      {"hashed, ribbon",
       [](Setup& setup) {
         UseHashed(setup);
         setup.table.filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10));
       }},
      {"hashed, 8 files",
       [](Setup& setup) {
         UseHashed(setup);
         setup.database.level0_file_num_compaction_trigger = 8;
       }},
      {"hashed, 8 files, plain",
       [](Setup& setup) {
         UseHashed(setup);
         setup.database.level0_file_num_compaction_trigger = 8;
         setup.table.data_block_index_type =
             rocksdb::BlockBasedTableOptions::kDataBlockBinarySearch;
       }},
      {"hashed, 12 files",
       [](Setup& setup) {
         UseHashed(setup);
         setup.database.level0_file_num_compaction_trigger = 12;
       }},
      {"hashed, 64 MiB",
       [](Setup& setup) {
         UseMemtable(setup, NewHashedMemtables(256 * 1024));
         setup.database.write_buffer_size = 32 * kMiB;
         setup.database.db_write_buffer_size = 64 * kMiB;
       }},
      {"hashed, universal",
       [](Setup& setup) {
         UseHashed(setup);
         UseUniversal(setup);
       }},
      {"hashed, 64 MiB, universal",
       [](Setup& setup) {
         UseMemtable(setup, NewHashedMemtables(256 * 1024));
         setup.database.write_buffer_size = 32 * kMiB;
         setup.database.db_write_buffer_size = 64 * kMiB;
         UseUniversal(setup);
       }},
      {"ingested", [](Setup& setup) { setup.ingests = true; }},
      {"ingested, universal",
       [](Setup& setup) {
         setup.ingests = true;
         UseUniversal(setup);
       }},
  };
}

// As of an index whose filters and indexes are several times what its cache holds.
void UseSmallCache(Setup& setup) {
  UseHashed(setup);
  setup.table.block_cache = rocksdb::NewLRUCache(1 * kMiB);
}

void UseParts(Setup& setup) {
  UseSmallCache(setup);
  setup.table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  setup.table.partition_filters = true;
  setup.table.metadata_block_size = 4 * kKiB;
}

std::vector<Way> SmallCacheWays() {
  return {
      {"small cache", UseSmallCache},
      {"small cache, parts", UseParts},
      {"small cache, parts 1K",
       [](Setup& setup) {
         UseParts(setup);
         setup.table.metadata_block_size = 1 * kKiB;
       }},
      {"small cache, parts 16K",
       [](Setup& setup) {
         UseParts(setup);
         setup.table.metadata_block_size = 16 * kKiB;
       }},
      {"hashed, parts",
       [](Setup& setup) {
         UseParts(setup);
         setup.table.block_cache = rocksdb::NewLRUCache(64 * kMiB);
       }},
  };
}

std::vector<Way> WalkedWays() {
  return {
      {"stands, walked", [](Setup& setup) { setup.is_walked = true; }},
      {"hashed, walked",
       [](Setup& setup) {
         UseHashed(setup);
         setup.is_walked = true;
       }},
  };
}

void Must(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

std::unique_ptr<rocksdb::DB> Open(Setup& setup, const std::string& folder) {
  setup.database.table_factory.reset(rocksdb::NewBlockBasedTableFactory(setup.table));
  rocksdb::DB* database = nullptr;
  Must(rocksdb::DB::Open(setup.database, folder, &database));
  return std::unique_ptr<rocksdb::DB>(database);
}

struct Costs {
  double miss = 0;
  double read_before = 0;
  double write = 0;
  double hit = 0;
  double walk = 0;
  double run = 0;
  double rest_miss = 0;
  double rest_hit = 0;
  double background = 0;
  std::uint64_t write_count = 0;
  std::uint64_t hit_count = 0;
  std::uint64_t walk_count = 0;
  std::uint64_t disk_bytes = 0;
};

// One database under one way.
class Trial {
 public:
  Trial(const Way& way, std::uint64_t entry_count)
      : entry_count_(entry_count),
        folder_(Cat(std::filesystem::temp_directory_path().string(), "/kerf_ways.", getpid())) {
    std::filesystem::remove_all(folder_);
    setup_ = Standing();
    way.change(setup_);
    database_ = Open(setup_, folder_);
    if (!setup_.ingests) return;
    log_ = open((folder_ + "/kerf.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    KERF_CHECK(log_ >= 0);
  }
  ~Trial() {
    if (log_ >= 0) close(log_);
    database_.reset();
    std::filesystem::remove_all(folder_);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  Costs Run() {
    const double process = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double thread = Seconds(CLOCK_THREAD_CPUTIME_ID);
    for (std::uint64_t first = 0; first < entry_count_; first += kBatchCount) WriteBatchFrom(first);
    if (setup_.ingests) Ingest();
    WaitForRest();
    costs_.background =
        (Seconds(CLOCK_PROCESS_CPUTIME_ID) - process) - (Seconds(CLOCK_THREAD_CPUTIME_ID) - thread);
    if (setup_.is_write_only) Must(database_->Flush(rocksdb::FlushOptions()));
    for (std::uint64_t round = 0; round < kRestRounds; ++round) {
      Look((std::uint64_t{1} << 40) + round * kBatchCount, false, &costs_.rest_miss);
      Look(random_.Below(entry_count_ - kBatchCount), true, &costs_.rest_hit);
    }
    if (setup_.write.disableWAL) Must(database_->Flush(rocksdb::FlushOptions()));
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      costs_.disk_bytes += file.path().extension() == ".sst" ? file.file_size() : 0;
    }
    Verify();
    return costs_;
  }

 private:
  void WriteBatchFrom(std::uint64_t first) {
    std::vector<std::string> keys(kBatchCount);
    std::vector<std::string> values(kBatchCount);
    for (std::uint64_t index = 0; index < kBatchCount; ++index) {
      keys[index] = KeyOf(first + index);
      values[index] = ValueOf(first + index);
    }
    if (!setup_.is_write_only) {
      Find(keys, false, false, &costs_.miss);
      std::vector<std::string> sorted = keys;
      std::sort(sorted.begin(), sorted.end());
      Find(sorted, false, true, &costs_.read_before);
    }
    Write(keys, values);
    if (setup_.is_walked) WalkToOne();
    ++batch_count_;
    if (batch_count_ % kHitsEvery == 0 && !setup_.is_write_only) {
      Look(random_.Below(first + 1), true, &costs_.hit);
      costs_.hit_count += kBatchCount;
    }
    if (batch_count_ % kDeletesEvery == 0) DeleteBehind(first);
  }

  void Write(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
    costs_.write_count += keys.size();
    if (!setup_.ingests) {
      const Timed timed(&costs_.write);
      rocksdb::WriteBatch writes;
      for (std::size_t index = 0; index < keys.size(); ++index) {
        Must(writes.Put(keys[index], values[index]));
      }
      Must(database_->Write(setup_.write, &writes));
      return;
    }
    {
      const Timed timed(&costs_.write);
      std::string record;
      for (std::size_t index = 0; index < keys.size(); ++index) {
        record.append(keys[index]).append(values[index]);
        young_.try_emplace(keys[index], values[index]);
      }
      // Its checksum costs little beside that.
      KERF_CHECK(write(log_, record.data(), record.size()) == static_cast<ssize_t>(record.size()));
    }
    if (young_.size() >= kRunCount) Ingest();
  }

  // What is young becomes a table file.
  void Ingest() {
    if (young_.empty()) return;
    const Timed timed(&costs_.run);
    std::vector<OwnedKey<std::pair<const std::string, std::string>>> keys;
    keys.reserve(young_.size());
    for (const auto& entry : young_) keys.push_back({&entry});
    SortByKey(keys, [](const auto& entry) { return std::string_view(entry.first); });
    rocksdb::SstFileWriter writer{rocksdb::EnvOptions(), setup_.database};
    const std::string path = Cat(folder_, "/run.", batch_count_);
    Must(writer.Open(path));
    for (const auto& key : keys) Must(writer.Put(key.owner->first, key.owner->second));
    Must(writer.Finish());
    rocksdb::IngestExternalFileOptions ingest;
    ingest.move_files = true;
    Must(database_->IngestExternalFile({path}, ingest));
    young_.clear();
    KERF_CHECK(ftruncate(log_, 0) == 0);
  }

  void DeleteBehind(std::uint64_t first) {
    rocksdb::WriteBatch writes;
    for (std::uint64_t index = 0; index < kDeletedCount; ++index) {
      const std::string key = KeyOf(first + 7 * index);
      // What is young is not in the database; what is there would need a mark here.
      young_.erase(key);
      Must(writes.Delete(key));
      deleted_.push_back(first + 7 * index);
    }
    Must(database_->Write(setup_.write, &writes));
  }

  void Look(std::uint64_t first, bool is_there, double* seconds) {
    std::vector<std::string> keys;
    keys.reserve(kBatchCount);
    for (std::uint64_t index = 0; index < kBatchCount; ++index) {
      keys.push_back(KeyOf(first + index));
    }
    Find(keys, is_there, false, seconds);
  }

  void WalkToOne() {
    const std::string from = KeyOf(random_.Below(std::uint64_t{1} << 40));
    ++costs_.walk_count;
    const Timed timed(&costs_.walk);
    const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
    at->Seek(from);
    Must(at->status());
  }

  void Find(const std::vector<std::string>& keys, bool is_there, bool is_sorted, double* seconds) {
    const Timed timed(seconds);
    std::vector<rocksdb::Slice> slices;
    slices.reserve(keys.size());
    std::size_t found_count = 0;
    for (const std::string& key : keys) {
      if (setup_.ingests && young_.contains(key)) {
        ++found_count;
      } else {
        slices.emplace_back(key);
      }
    }
    std::vector<rocksdb::PinnableSlice> values(slices.size());
    std::vector<rocksdb::Status> statuses(slices.size());
    database_->MultiGet(rocksdb::ReadOptions(), database_->DefaultColumnFamily(), slices.size(),
                        slices.data(), values.data(), statuses.data(), is_sorted);
    for (const rocksdb::Status& status : statuses) {
      KERF_CHECK(status.ok() || status.IsNotFound());
      found_count += status.ok() ? 1 : 0;
    }
    // Some have been deleted.
    KERF_CHECK(is_there ? found_count > kBatchCount / 2 : found_count == 0);
  }

  void WaitForRest() {
    const auto number = [this](const char* name) {
      std::uint64_t value = 0;
      KERF_CHECK(database_->GetIntProperty(name, &value));
      return value;
    };
    while (number("rocksdb.num-running-compactions") + number("rocksdb.num-running-flushes") +
               number("rocksdb.compaction-pending") + number("rocksdb.mem-table-flush-pending") >
           0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  void Verify() {
    database_.reset();
    Setup plain = Standing();
    database_ = Open(plain, folder_);
    absl::flat_hash_map<std::uint64_t, bool> is_deleted;
    for (const std::uint64_t number : deleted_) is_deleted[number] = true;
    for (std::uint64_t number = 0; number < entry_count_; number += number % 7 == 0 ? 1 : 3) {
      std::string value;
      const rocksdb::Status status = database_->Get(rocksdb::ReadOptions(), KeyOf(number), &value);
      KERF_CHECK(status.IsNotFound() == is_deleted.contains(number));
      KERF_CHECK(status.IsNotFound() || value == ValueOf(number));
    }
    // In order, each once.
    const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
    std::string last;
    std::uint64_t count = 0;
    for (at->SeekToFirst(); at->Valid(); at->Next(), ++count) {
      KERF_CHECK(last < at->key().ToString());
      last = at->key().ToString();
    }
    Must(at->status());
    const std::uint64_t written_count =
        (entry_count_ + kBatchCount - 1) / kBatchCount * kBatchCount;
    KERF_CHECK(count == written_count - deleted_.size());
  }

  const std::uint64_t entry_count_;
  const std::string folder_;
  Setup setup_;
  std::unique_ptr<rocksdb::DB> database_;
  Random random_{1};
  std::uint64_t batch_count_ = 0;
  std::vector<std::uint64_t> deleted_;
  Costs costs_;
  // Of a way that ingests: what is in no table file.
  int log_ = -1;
  std::unordered_map<std::string, std::string> young_;
};

void Print(const Way& way, const Costs& costs) {
  const auto micros = [](double seconds, std::uint64_t count) {
    return count == 0 ? 0 : 1e6 * seconds / static_cast<double>(count);
  };
  const std::uint64_t count = costs.write_count;
  const std::uint64_t rest_count = kRestRounds * kBatchCount;
  std::printf("| %s | %.2f | %.2f | **%.2f** | %.2f | %.2f | %.2f | %.2f | %.2f | %.0f | %.0f |\n",
              way.name.c_str(), micros(costs.write, count),
              micros(costs.run + costs.background, count),
              micros(costs.write + costs.run + costs.background, count),
              micros(costs.read_before, count), micros(costs.miss, count),
              micros(costs.hit, costs.hit_count), micros(costs.rest_miss, rest_count),
              micros(costs.rest_hit, rest_count), micros(costs.walk, costs.walk_count),
              static_cast<double>(costs.disk_bytes) / static_cast<double>(count));
  std::fflush(stdout);
}

}  // namespace
}  // namespace kerf

int main(int argc, char** argv) {
  const std::uint64_t entry_count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  const std::vector<std::string> wanted(argv + std::min(argc, 2), argv + argc);
  std::printf(
      "| way | write | table files | both | read before | miss | hit | miss at rest | hit at rest "
      "| walk | bytes |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  std::vector<kerf::Way> ways = kerf::WaysOfRocksDb();
  for (kerf::Way& way : kerf::OtherWays()) ways.push_back(std::move(way));
  for (kerf::Way& way : kerf::SmallCacheWays()) ways.push_back(std::move(way));
  for (kerf::Way& way : kerf::WalkedWays()) ways.push_back(std::move(way));
  if (wanted.empty()) {
    for (const kerf::Way& way : ways) kerf::Print(way, kerf::Trial(way, entry_count).Run());
  }
  for (const std::string& name : wanted) {
    const auto way = std::find_if(ways.begin(), ways.end(),
                                  [&name](const kerf::Way& other) { return other.name == name; });
    if (way == ways.end()) {
      std::fprintf(stderr, "there is no way called %s\n", name.c_str());
      return 2;
    }
    kerf::Print(*way, kerf::Trial(*way, entry_count).Run());
  }
  return 0;
}
