#include "server/index/rocksdb_index.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/wait_for.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "server/index/codec.h"
#include "server/index/rocksdb_store.h"
#include "server/index/testing/conformance.h"
#include "server/index/testing/rocksdb_folder.h"

namespace kerf {
namespace {

IndexBackend RocksDbBackend() {
  static std::atomic<int> number{0};
  const auto folder = std::make_shared<std::unique_ptr<RocksDbFolder>>();
  return {
      .create =
          [folder] {
            *folder = std::make_unique<RocksDbFolder>(Cat("conformance", ++number));
            return OpenSmall((*folder)->path());
          },
      .reopen =
          [folder](std::unique_ptr<Index> index) {
            index.reset();
            return OpenSmall((*folder)->path());
          },
  };
}

INSTANTIATE_TEST_SUITE_P(RocksDb, IndexConformance, ::testing::Values(RocksDbBackend()));

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

std::vector<IndexEntry> Entries(std::uint64_t first, std::uint64_t count) {
  std::vector<IndexEntry> entries(count);
  for (std::uint64_t index = 0; index < count; ++index) {
    Random random(first + index);
    random.Fill(entries[index].digest.bytes);
    entries[index].length_bytes = 1;
    entries[index].locator = Cat("at ", first + index);
  }
  return entries;
}

std::uint64_t CountHits(Index& index, std::uint64_t epoch, const std::vector<IndexEntry>& entries) {
  std::vector<Digest> digests;
  digests.reserve(entries.size());
  for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
  std::vector<LookupResult> results(digests.size());
  EXPECT_TRUE(WaitFor(index.Lookup(kRepository, epoch, digests, results)).ok());
  std::uint64_t hit_count = 0;
  for (const LookupResult& result : results) {
    hit_count += result.verdict == Verdict::kDuplicate ? 1 : 0;
  }
  return hit_count;
}

void WriteAndDie(const std::string& path) {
  const std::unique_ptr<Index> index = OpenSmall(path);
  for (std::uint64_t first = 0; first < 30'000; first += 500) {
    if (!WaitFor(index->Commit(kRepository, 3, Entries(first, 500), false)).ok()) std::_Exit(1);
  }
  if (WaitFor(index->Forget(kRepository, Entries(0, 1000)))->forgotten_count != 1000) std::_Exit(2);
  if (!WaitFor(index->AdvanceEpoch(kRepository, 4, 0)).ok()) std::_Exit(3);
  if (!WaitFor(index->Commit(kRepository, 4, Entries(30'000, 10), false)).ok()) std::_Exit(4);
  kill(getpid(), SIGKILL);
}

TEST(RocksDbIndexDeathTest, AKilledProcessLosesNothing) {
  // Runs the program again, so that RocksDB's threads are not forked.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path = RocksDbFolder::PathOf("killed");
  EXPECT_EXIT(WriteAndDie(path), ::testing::KilledBySignal(SIGKILL), "");
  const std::unique_ptr<Index> index = OpenSmall(path);
  EXPECT_EQ(CountHits(*index, 4, Entries(0, 1000)), 0u);
  EXPECT_EQ(CountHits(*index, 4, Entries(1000, 29'010)), 29'010u);
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->entry_count, 29'010u);
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, 4u);
  std::filesystem::remove_all(path);
}

TEST(RocksDbIndexTest, SaysThatAnotherHasItOpen) {
  const RocksDbFolder folder("locked");
  const std::unique_ptr<Index> index = OpenSmall(folder.path());
  const auto second = OpenRocksDbIndex(folder.path(), SmallRocksDbOptions());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(MessageOf(second.status()).find(folder.path()), std::string_view::npos);
  EXPECT_NE(MessageOf(second.status()).find("already open"), std::string_view::npos);
}

// docs/adr/0025. The name of what it has in memory is in a file that nobody reads, and is left
// whole.
TEST(RocksDbIndexTest, ItsMemtablesDoNotSort) {
  const RocksDbFolder folder("memtables");
  {
    const auto database = OpenRocksDb(folder.path(), SmallRocksDbOptions());
    ASSERT_TRUE(database.ok()) << database.status();
    EXPECT_STREQ((*database)->GetOptions().memtable_factory->Name(), "kerf.hashed");
  }
  int options_count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = file.path().filename();
    EXPECT_FALSE(name.ends_with(".dbtmp")) << name;
    options_count += name.starts_with("OPTIONS-") ? 1 : 0;
  }
  EXPECT_EQ(options_count, 1);
}

TEST(RocksDbIndexTest, NeedsAParentFolder) {
  const RocksDbFolder folder("missing");
  const auto index = OpenRocksDbIndex(folder.path() + "/deeper/still", SmallRocksDbOptions());
  EXPECT_EQ(index.status().code(), absl::StatusCode::kNotFound) << index.status();
}

// Writes past kerf, as a disk or another program might.
void Put(const std::string& path, const std::string& key, const std::string& value) {
  const auto database = OpenRocksDb(path, SmallRocksDbOptions());
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE((*database)->Put(rocksdb::WriteOptions(), key, value).ok());
}

TEST(RocksDbIndexTest, RefusesANewerFormat) {
  const RocksDbFolder folder("newer");
  OpenSmall(folder.path());
  Put(folder.path(), std::string(index_codec::kFormatKey),
      index_codec::EncodeNumber(index_codec::kFormatVersion + 1));
  const auto index = OpenRocksDbIndex(folder.path(), SmallRocksDbOptions());
  EXPECT_EQ(index.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(MessageOf(index.status()).find("format 2"), std::string_view::npos);
}

TEST(RocksDbIndexTest, RefusesADatabaseThatIsNotKerfs) {
  const RocksDbFolder folder("foreign");
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* foreign = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, folder.path(), &foreign).ok());
  ASSERT_TRUE(foreign->Put(rocksdb::WriteOptions(), "key", "value").ok());
  delete foreign;
  EXPECT_EQ(OpenRocksDbIndex(folder.path(), SmallRocksDbOptions()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(RocksDbIndexTest, CorruptValuesAreDataLoss) {
  const auto data_loss = absl::StatusCode::kDataLoss;
  const std::vector<IndexEntry> entries = Entries(0, 1);
  const Digest& digest = entries[0].digest;
  const std::string key = Cat(index_codec::RepositoryKey(index_codec::KeyKind::kEntry, kRepository),
                              index_codec::DigestKey(kRepository, digest));
  const std::string good = index_codec::EncodeEntry({1, 2, "a"});
  for (const std::string& bad :
       {std::string(), std::string("garbage"), good + "x", good.substr(0, good.size() - 1)}) {
    const RocksDbFolder folder("corrupt");
    OpenSmall(folder.path());
    Put(folder.path(), key, bad);
    const std::unique_ptr<Index> index = OpenSmall(folder.path());
    LookupResult result;
    EXPECT_EQ(
        WaitFor(index->Lookup(kRepository, 1, std::span(&digest, 1), std::span(&result, 1))).code(),
        data_loss);
    EXPECT_EQ(WaitFor(index->Commit(kRepository, 1, entries, false)).code(), data_loss);
    EXPECT_EQ(WaitFor(index->Forget(kRepository, entries)).status().code(), data_loss);
    EXPECT_EQ(WaitFor(index->Scan(kRepository, std::nullopt, 1)).status().code(), data_loss);
  }
}

TEST(RocksDbIndexTest, CorruptNumbersAreDataLoss) {
  const RocksDbFolder folder("corrupt_numbers");
  OpenSmall(folder.path());
  Put(folder.path(), index_codec::RepositoryKey(index_codec::KeyKind::kEntryCount, kRepository),
      "?");
  {
    const std::unique_ptr<Index> index = OpenSmall(folder.path());
    EXPECT_EQ(WaitFor(index->Stats(kRepository)).status().code(), absl::StatusCode::kDataLoss);
  }
  Put(folder.path(), index_codec::RepositoryKey(index_codec::KeyKind::kEpoch, kRepository), "?");
  EXPECT_EQ(OpenRocksDbIndex(folder.path(), SmallRocksDbOptions()).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(RocksDbIndexTest, ADamagedFileIsDataLossOrRefused) {
  const RocksDbFolder folder("damaged");
  {
    const std::unique_ptr<Index> index = OpenSmall(folder.path());
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, Entries(0, 20'000), false)).ok());
  }
  std::uint64_t damaged_count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().extension() != ".sst") continue;
    std::filesystem::resize_file(file.path(), file.file_size() / 2);
    ++damaged_count;
  }
  ASSERT_GT(damaged_count, 0u);
  const auto index = OpenRocksDbIndex(folder.path(), SmallRocksDbOptions());
  EXPECT_EQ(index.status().code(), absl::StatusCode::kDataLoss) << index.status();
}

// In one piece they would be read whole for each miss once the cache holds them no more; and a
// kerfd that writes them so, as 0.1.0 does, reads them.
TEST(RocksDbIndexTest, FiltersAndIndexesLieInParts) {
  constexpr std::uint64_t kEntries = 20'000;
  const RocksDbFolder folder("parts");
  {
    const std::unique_ptr<Index> index = OpenSmall(folder.path());
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, Entries(0, kEntries), false)).ok());
  }
  {
    const auto written = OpenRocksDb(folder.path(), SmallRocksDbOptions());
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_TRUE((*written)->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).ok());
    rocksdb::TablePropertiesCollection tables;
    ASSERT_TRUE((*written)->GetPropertiesOfAllTables(&tables).ok());
    ASSERT_FALSE(tables.empty());
    for (const auto& [name, properties] : tables) {
      EXPECT_GT(properties->index_partitions, 1u) << name;
    }
  }
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::OpenForReadOnly(options, folder.path(), &opened).ok());
  const std::unique_ptr<rocksdb::DB> database(opened);
  const std::unique_ptr<rocksdb::Iterator> at(database->NewIterator(rocksdb::ReadOptions()));
  std::uint64_t found_count = 0;
  for (at->Seek("E"); at->Valid() && at->key().starts_with("E"); at->Next()) {
    std::string value;
    ASSERT_TRUE(database->Get(rocksdb::ReadOptions(), at->key(), &value).ok());
    ++found_count;
  }
  EXPECT_GE(found_count, kEntries);
}

TEST(RocksDbIndexTest, SyncedCommitsAreCommits) {
  const RocksDbFolder folder("synced");
  RocksDbIndexOptions options = SmallRocksDbOptions();
  options.sync_commits = true;
  const auto index = OpenRocksDbIndex(folder.path(), options);
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_TRUE(WaitFor((*index)->Commit(kRepository, 1, Entries(0, 2000), false)).ok());
  EXPECT_EQ(CountHits(**index, 1, Entries(0, 2000)), 2000u);
}

// As of the index in memory, and of what a start finds.
TEST(RocksDbIndexTest, OneThatIsClosedHasNoEpochForTheTotals) {
  const RocksDbFolder folder("closed");
  const RepositoryId dropped{"dropped", DigestAlgorithm::kBlake3};
  for (const bool is_first : {true, false}) {
    auto index = OpenRocksDbIndex(folder.path(), SmallRocksDbOptions());
    ASSERT_TRUE(index.ok()) << index.status();
    if (is_first) {
      ASSERT_TRUE(WaitFor((*index)->AdvanceEpoch({"home", DigestAlgorithm::kBlake3}, 7, 0)).ok());
      std::vector<IndexEntry> entries(3);
      for (std::size_t number = 0; number < entries.size(); ++number) {
        entries[number] = {{{static_cast<std::uint8_t>(number)}}, 1, "a"};
      }
      ASSERT_TRUE(WaitFor((*index)->Commit(dropped, 9, entries, false)).ok());
      ASSERT_TRUE(WaitFor((*index)->AdvanceEpoch(dropped, 9, 0)).ok());
      EXPECT_EQ((*index)->CountAll()->epoch, 9u);
      ASSERT_TRUE(WaitFor((*index)->Drop(dropped, std::nullopt, 1))->last.has_value());
    }
    EXPECT_EQ((*index)->CountAll()->epoch, 7u);
  }
}

}  // namespace
}  // namespace kerf
