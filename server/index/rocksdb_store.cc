#include "server/index/rocksdb_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "rocksdb/cache.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "server/index/codec.h"
#include "server/index/hashed_memtable.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

// One lookup of an absent digest in a hundred reads a block for nothing.
constexpr double kFilterBitsPerKey = 10;
constexpr std::size_t kBlockBytes = 4 * kKiB;
constexpr std::uint64_t kTableFileBytes = 64 * kMiB;
constexpr std::uint64_t kFirstLevelBytes = 256 * kMiB;
constexpr int kMemtableCount = 4;
// What an entry takes in a memtable: there are about as many buckets as entries.
constexpr std::size_t kMemtableEntryBytes = 128;
constexpr int kBackgroundJobCount = 2;
constexpr std::size_t kMaxLogLineBytes = 1024;

std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// Sums modulo 2^64, so that a negative number may be added.
class AddNumbers : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* existing,
             const rocksdb::Slice& added, std::string* sum,
             rocksdb::Logger* /*logger*/) const override {
    const auto first = existing == nullptr ? absl::StatusOr<std::uint64_t>(0)
                                           : index_codec::ParseNumber(ToView(*existing));
    const auto second = index_codec::ParseNumber(ToView(added));
    if (!first.ok() || !second.ok()) return false;
    *sum = index_codec::EncodeNumber(*first + *second);
    return true;
  }

  // Part of the format: RocksDB keeps it.
  const char* Name() const override { return "kerf.add_numbers"; }
};

rocksdb::BlockBasedTableOptions TableOptions(const RocksDbIndexOptions& options) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  table.block_size = kBlockBytes;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kFilterBitsPerKey));
  table.whole_key_filtering = true;
  // Filters and indexes count against the cache, or memory would grow with the index.
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // In parts of a block's size, of which a lookup reads those that it needs. In one piece a table
  // file of 64 MiB has a filter of 1 MiB: where filters outgrow the cache each miss read it whole
  // (ADR 0025).
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.metadata_block_size = kBlockBytes;
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  return table;
}

rocksdb::Options DatabaseOptions(const RocksDbIndexOptions& options) {
  rocksdb::Options database;
  if (options.env != nullptr) database.env = options.env;
  database.create_if_missing = true;
  // A log that is gone while a later one is there is damage. Else what was forgotten in the one
  // would be back behind an epoch that was raised in the other: a synced write tells the manifest
  // of all logs before its own.
  database.track_and_verify_wals_in_manifest = true;
  database.merge_operator = std::make_shared<AddNumbers>();
  database.table_factory.reset(rocksdb::NewBlockBasedTableFactory(TableOptions(options)));
  // Digests do not compress.
  database.compression = rocksdb::kNoCompression;
  database.max_open_files = options.max_open_files;
  database.max_background_jobs = kBackgroundJobCount;
  database.write_buffer_size = options.memtable_bytes / (kMemtableCount / 2);
  database.db_write_buffer_size = options.memtable_bytes;
  database.max_write_buffer_number = kMemtableCount;
  // Sorting each entry as it comes cost four times as much as all else that a commit does (ADR
  // 0025). Where keys are looked for by their hash a filter in front of them saves nothing.
  database.memtable_factory = NewHashedMemtables(database.write_buffer_size / kMemtableEntryBytes);
  database.allow_concurrent_memtable_write = false;
  database.target_file_size_base = kTableFileBytes;
  database.max_bytes_for_level_base = kFirstLevelBytes;
  database.level_compaction_dynamic_level_bytes = true;
  database.info_log = RocksDbLog();
  database.stats_dump_period_sec = 0;
  database.stats_persist_period_sec = 0;
  return database;
}

absl::Status OpenError(const std::string& path, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  // RocksDB has no code for it: the first is said of another process, the second of this one.
  if (text.find("While lock file") != std::string::npos ||
      text.find("lock hold by current process") != std::string::npos) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("the index in ", path,
                   " is already open; stop the other kerfd or use another data folder")));
  }
  const absl::Status error = FromRocksDb(status, Cat("opening the index in ", path));
  if (error.code() != absl::StatusCode::kDataLoss) return error;
  return absl::DataLossError(
      ToAbsl(Cat(MessageOf(error),
                 "; delete this folder and start again: nothing that was backed up is "
                 "lost, agents upload once more what the index does not know")));
}

// RocksDB calls it corruption that it was not let look at a file, too (no descriptors, no
// permission, a disk that does not answer). A file that is not there is lost.
bool IsRefusal(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return text.find("IO error") != std::string::npos &&
         text.find(std::strerror(ENOENT)) == std::string::npos;
}

// RocksDB would begin a new database beside what is left of one, without a word.
absl::Status CheckNotBeheaded(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path + "/CURRENT", error)) return absl::OkStatus();
  if (error) {
    return absl::UnavailableError(
        ToAbsl(Cat("opening the index in ", path, ": ", error.message())));
  }
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string extension = entry.path().extension();
    if (extension != ".sst" && extension != ".log") continue;
    return absl::DataLossError(
        ToAbsl(Cat("opening the index in ", path, ": its file CURRENT is missing, and ",
                   entry.path().filename().string(), " is there")));
  }
  return absl::OkStatus();
}

bool IsEmpty(rocksdb::DB& database) {
  const std::unique_ptr<rocksdb::Iterator> at(database.NewIterator(rocksdb::ReadOptions()));
  at->SeekToFirst();
  return !at->Valid() && at->status().ok();
}

absl::Status CheckFormat(rocksdb::DB& database, const std::string& path) {
  const rocksdb::Slice key(index_codec::kFormatKey.data(), index_codec::kFormatKey.size());
  std::string value;
  const rocksdb::Status read = database.Get(rocksdb::ReadOptions(), key, &value);
  if (read.IsNotFound()) {
    if (!IsEmpty(database)) {
      return absl::FailedPreconditionError(
          ToAbsl(Cat(path, " holds a database that is not kerf's index; use another folder")));
    }
    rocksdb::WriteOptions write;
    write.sync = true;
    return FromRocksDb(
        database.Put(write, key, index_codec::EncodeNumber(index_codec::kFormatVersion)),
        Cat("writing the index in ", path));
  }
  KERF_RETURN_IF_ERROR(FromRocksDb(read, Cat("reading the index in ", path)));
  KERF_ASSIGN_OR_RETURN(const std::uint64_t version, index_codec::ParseNumber(value));
  if (version > index_codec::kFormatVersion) {
    return absl::FailedPreconditionError(ToAbsl(
        Cat("the index in ", path, " has format ", version, " and this kerf knows formats up to ",
            index_codec::kFormatVersion, "; use a newer kerf, or another folder")));
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<rocksdb::Logger> RocksDbLog() {
  class ToLog final : public rocksdb::Logger {
   public:
    ToLog() : Logger(rocksdb::WARN_LEVEL) {}

    // What comes without a level is a heading: all options, for instance.
    void Logv(const char* /*format*/, va_list /*arguments*/) override {}
    void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
      if (level < rocksdb::WARN_LEVEL || level > rocksdb::FATAL_LEVEL) return;
      std::array<char, kMaxLogLineBytes> line{};
      std::vsnprintf(line.data(), line.size(), format, arguments);
      // What fails is told by whoever asked, too.
      Log(LogLevel::kDebug, Cat("RocksDB: ", line.data()));
    }
  };
  return std::make_shared<ToLog>();
}

absl::Status FromRocksDb(const rocksdb::Status& status, std::string_view doing) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = Cat(doing, ": ", status.ToString());
  const absl::string_view message = ToAbsl(text);
  switch (status.code()) {
    case rocksdb::Status::kCorruption:
      if (IsRefusal(status)) return absl::UnavailableError(message);
      return absl::DataLossError(message);
    case rocksdb::Status::kIOError:
      if (status.subcode() == rocksdb::Status::kNoSpace) {
        return absl::ResourceExhaustedError(message);
      }
      if (status.subcode() == rocksdb::Status::kPathNotFound) return absl::NotFoundError(message);
      return absl::UnavailableError(message);
    case rocksdb::Status::kNotFound:
      return absl::NotFoundError(message);
    case rocksdb::Status::kTimedOut:
      return absl::DeadlineExceededError(message);
    case rocksdb::Status::kIncomplete:
    case rocksdb::Status::kShutdownInProgress:
    case rocksdb::Status::kAborted:
    case rocksdb::Status::kBusy:
    case rocksdb::Status::kTryAgain:
      return absl::UnavailableError(message);
    default:
      // What is left says that kerf called RocksDB wrongly.
      return absl::InternalError(message);
  }
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenRocksDb(const std::string& path,
                                                         const RocksDbIndexOptions& options) {
  KERF_RETURN_IF_ERROR(CheckNotBeheaded(path));
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(DatabaseOptions(options), path, &opened);
  std::unique_ptr<rocksdb::DB> database(opened);
  if (!status.ok()) return OpenError(path, status);
  KERF_RETURN_IF_ERROR(CheckFormat(*database, path));
  return database;
}

}  // namespace kerf
