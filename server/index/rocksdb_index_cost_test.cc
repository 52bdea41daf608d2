// What the embedded index takes of memory and of a disk.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/index_costs.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/wait_for.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "server/index/codec.h"
#include "server/index/rocksdb_index.h"
#include "server/index/rocksdb_store.h"
#include "server/index/testing/rocksdb_folder.h"

namespace kerf {
namespace {

// What an index takes of this process's memory once it is open.
std::size_t BytesOfOpen(const std::string& path) {
  const std::size_t before = mallinfo2().uordblks;
  const std::unique_ptr<Index> index = OpenSmall(path);
  // A repository that is in the middle.
  const auto stats = WaitFor(index->Stats({Cat("photos-", 10'000), DigestAlgorithm::kBlake3}));
  EXPECT_TRUE(stats.ok()) << stats.status();
  return mallinfo2().uordblks - before;
}

TEST(RocksDbIndexCostTest, NamesTakeNoMemory) {
  constexpr int kNameCount = 100'000;
  const RocksDbFolder none("no_names");
  const RocksDbFolder many("many_names");
  for (const RocksDbFolder* folder : {&none, &many}) OpenSmall(folder->path());
  BytesOfOpen(none.path());
  const std::size_t bytes_without = BytesOfOpen(none.path());
  {
    auto written = OpenRocksDb(many.path(), SmallRocksDbOptions());
    ASSERT_TRUE(written.ok()) << written.status();
    for (int number = 0; number < kNameCount; ++number) {
      const RepositoryId repository{Cat("photos-", number), DigestAlgorithm::kBlake3};
      const std::string key = index_codec::RepositoryKey(index_codec::KeyKind::kEpoch, repository);
      ASSERT_TRUE((*written)->Put(rocksdb::WriteOptions(), key, index_codec::EncodeNumber(3)).ok());
    }
    rocksdb::FlushOptions flush;
    ASSERT_TRUE((*written)->Flush(flush).ok());
  }
  const std::size_t bytes_with = BytesOfOpen(many.path());
  std::printf("%zu bytes without names, %zu with %d\n", bytes_without, bytes_with, kNameCount);
  // What it caches of its files has a bound of its own.
  EXPECT_LE(bytes_with, bytes_without + 2 * SmallRocksDbOptions().block_cache_bytes);
  const std::unique_ptr<Index> index = OpenSmall(many.path());
  EXPECT_EQ(
      WaitFor(index->Stats({Cat("photos-", kNameCount - 1), DigestAlgorithm::kBlake3}))->epoch, 3u);
}

// What who plans reckons with (base/index_costs.h): here of a name of 32 characters.
TEST(RocksDbIndexCostTest, AnEntryCostsWhatIsSaid) {
  const RocksDbIndexOptions usual;
  EXPECT_EQ(usual.block_cache_bytes, index_costs::kEmbeddedBlockCacheBytes);
  EXPECT_EQ(usual.memtable_bytes, index_costs::kEmbeddedMemtableBytes);
  EXPECT_EQ(usual.max_open_files, static_cast<int>(index_costs::kEmbeddedOpenFiles));
  constexpr std::uint64_t kEntries = 100'000;
  constexpr std::size_t kBatch = 4'000;
  const RepositoryId repository{std::string(32, 'f'), DigestAlgorithm::kBlake3};
  const RocksDbFolder folder("costs");
  {
    const std::unique_ptr<Index> index = OpenSmall(folder.path());
    Random random(1);
    std::vector<IndexEntry> entries(kBatch);
    for (std::uint64_t done = 0; done < kEntries; done += kBatch) {
      for (IndexEntry& entry : entries) {
        random.Fill(entry.digest.bytes);
        entry.length_bytes = 8'192;
        entry.locator.resize(20);
        random.Fill(std::span(reinterpret_cast<std::uint8_t*>(entry.locator.data()), 20));
      }
      ASSERT_TRUE(WaitFor(index->Commit(repository, 1'000, entries, false)).ok());
    }
  }
  const auto database = OpenRocksDb(folder.path(), SmallRocksDbOptions());
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE((*database)->CompactRange({}, nullptr, nullptr).ok());
  std::uint64_t table_bytes = 0;
  ASSERT_TRUE(
      (*database)->GetIntProperty(rocksdb::DB::Properties::kLiveSstFilesSize, &table_bytes));
  const double bytes = static_cast<double>(table_bytes) / kEntries;
  std::printf("%.1f bytes an entry\n", bytes);
  EXPECT_NEAR(bytes, index_costs::kEmbeddedDiskBytes, 0.05 * index_costs::kEmbeddedDiskBytes);
}

}  // namespace
}  // namespace kerf
