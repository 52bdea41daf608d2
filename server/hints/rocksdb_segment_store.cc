#include "server/hints/rocksdb_segment_store.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "server/index/disk_room.h"
#include "server/index/rocksdb_store.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

// A file that says that the folder is ours. Not in the database, which forgets what is oldest.
constexpr std::string_view kMarkerName = "KERF_HINTS";
constexpr std::string_view kMarkerText = "1\n";

constexpr char kSegmentLetter = 's';
constexpr char kAnchorLetter = 'a';

// Most of the anchors that are asked for are not there.
constexpr double kFilterBitsPerKey = 10;
constexpr std::size_t kMinMemtableBytes = 64 * kKiB;
constexpr std::size_t kMemtableShare = 32;
constexpr int kMemtableCount = 3;

std::size_t MemtableBytes(const RocksDbSegmentOptions& options) {
  return std::clamp<std::size_t>(options.capacity_bytes / kMemtableShare, kMinMemtableBytes,
                                 std::max(options.memtable_bytes, kMinMemtableBytes));
}

rocksdb::Options DatabaseOptions(const RocksDbSegmentOptions& options) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kFilterBitsPerKey));
  table.cache_index_and_filter_blocks = true;

  rocksdb::Options database;
  if (options.env != nullptr) database.env = options.env;
  database.create_if_missing = true;
  database.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // Digests do not compress.
  database.compression = rocksdb::kNoCompression;
  // Nothing is ever merged: the files with what is oldest are deleted.
  database.compaction_style = rocksdb::kCompactionStyleFIFO;
  const std::size_t memtable_bytes = MemtableBytes(options);
  database.compaction_options_fifo.max_table_files_size =
      std::min(options.capacity_bytes, RocksDbSegmentOptions::kMaxFiles * memtable_bytes);
  database.compaction_options_fifo.allow_compaction = false;
  // By size alone. The defaults go by the machine's clock, too: set forward by 30 days it would
  // make an end of them all. RocksDB takes the one for the other where that is 0.
  database.ttl = 0;
  database.periodic_compaction_seconds = 0;
  database.level0_slowdown_writes_trigger = std::numeric_limits<int>::max();
  database.level0_stop_writes_trigger = std::numeric_limits<int>::max();
  database.write_buffer_size = memtable_bytes;
  database.max_write_buffer_number = kMemtableCount;
  // FIFO wants all files open.
  database.max_open_files = -1;
  database.max_background_jobs = 1;
  database.info_log = RocksDbLog();
  database.stats_dump_period_sec = 0;
  database.stats_persist_period_sec = 0;
  return database;
}

std::string KeyOf(char letter, const std::string& key) { return letter + key; }

class RocksDbSegmentStore final : public SegmentStore {
 public:
  RocksDbSegmentStore(std::string path, std::uint64_t min_free_bytes,
                      std::unique_ptr<rocksdb::DB> database)
      : path_(std::move(path)), min_free_bytes_(min_free_bytes), database_(std::move(database)) {}

  void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) override {
    done(Find(KeyOf(kAnchorLetter, HintKeyOf(scope, anchor))));
  }
  void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) override {
    done(Get(KeyOf(kSegmentLetter, HintKeyOf(scope, id)), kMaxSegmentBytes + 1));
  }
  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    absl::Status status = CheckRoom();
    if (!status.ok()) return done(status);
    rocksdb::WriteBatch batch;
    for (const StoredSegment& segment : segments) {
      status.Update(FromRocksDb(
          batch.Put(KeyOf(kSegmentLetter, HintKeyOf(scope, segment.id)), segment.bytes), kWriting));
      const rocksdb::Slice id(reinterpret_cast<const char*>(segment.id.bytes.data()),
                              segment.id.bytes.size());
      for (const Digest& anchor : segment.anchors) {
        status.Update(
            FromRocksDb(batch.Put(KeyOf(kAnchorLetter, HintKeyOf(scope, anchor)), id), kWriting));
      }
    }
    rocksdb::WriteOptions write;
    // What is lost with the process is written again with the next version of its file; and nobody
    // waits for a disk that is behind.
    write.disableWAL = true;
    write.no_slowdown = true;
    status.Update(FromRocksDb(database_->Write(write, &batch), kWriting));
    done(status);
  }
  std::string_view backend_name() const override { return "rocksdb"; }

 private:
  static constexpr std::string_view kWriting = "writing hints";

  absl::StatusOr<std::optional<std::string>> Get(const std::string& key, std::size_t max_bytes) {
    rocksdb::PinnableSlice value;
    const rocksdb::Status status =
        database_->Get(rocksdb::ReadOptions(), database_->DefaultColumnFamily(), key, &value);
    if (status.IsNotFound()) return std::nullopt;
    KERF_RETURN_IF_ERROR(FromRocksDb(status, "reading hints"));
    return std::string(value.data(), std::min(value.size(), max_bytes));
  }

  absl::StatusOr<std::optional<SegmentId>> Find(const std::string& key) {
    SegmentId id;
    KERF_ASSIGN_OR_RETURN(const std::optional<std::string> value, Get(key, id.bytes.size() + 1));
    if (!value.has_value()) return std::nullopt;
    if (value->size() != id.bytes.size()) {
      return absl::DataLossError("reading hints: an anchor that is no segment's id");
    }
    std::copy(value->begin(), value->end(), id.bytes.begin());
    return id;
  }

  absl::Status CheckRoom() {
    KERF_ASSIGN_OR_RETURN(const DiskState disk, ReadDisk(path_));
    const bool has_room = disk.free_bytes >= min_free_bytes_;
    if (has_room == has_room_.exchange(has_room)) {
      return has_room ? absl::OkStatus() : absl::ResourceExhaustedError("no room for hints");
    }
    if (has_room) {
      Log(LogLevel::kInfo, Cat("hints are written to ", path_, " again"));
      return absl::OkStatus();
    }
    const std::string text =
        Cat("the disk of ", path_, " has ", FormatByteSize(disk.free_bytes),
            " of room left: hints are written from ", FormatByteSize(min_free_bytes_), " on");
    Log(LogLevel::kWarning, text);
    return absl::ResourceExhaustedError(ToAbsl(text));
  }

  const std::string path_;
  const std::uint64_t min_free_bytes_;
  std::atomic<bool> has_room_{true};
  const std::unique_ptr<rocksdb::DB> database_;
};

absl::Status FileError(const std::string& path, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(), ToAbsl(Cat("the hints in ", path)));
}

// Makes the folder ours, or finds that it is.
absl::Status Claim(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return FileError(path, error);
  const std::filesystem::path marker = std::filesystem::path(path) / kMarkerName;
  const bool is_ours = std::filesystem::exists(marker, error);
  if (error) return FileError(path, error);
  if (is_ours) return absl::OkStatus();
  const bool is_empty = std::filesystem::is_empty(path, error);
  if (error) return FileError(path, error);
  if (!is_empty) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat(path, " holds something that is not kerf's hints; use another folder")));
  }
  std::ofstream out(marker);
  out << kMarkerText;
  out.close();
  if (!out) return absl::UnavailableError(ToAbsl(Cat("cannot write ", marker.string())));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentStore>> OpenRocksDbSegmentStore(
    const std::string& path, const RocksDbSegmentOptions& options) {
  KERF_RETURN_IF_ERROR(Claim(path));
  const rocksdb::Options database_options = DatabaseOptions(options);
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(database_options, path, &opened);
  if (absl::IsDataLoss(FromRocksDb(status, path))) {
    KERF_RETURN_IF_ERROR(FromRocksDb(rocksdb::DestroyDB(path, database_options),
                                     Cat("deleting the damaged hints in ", path)));
    // It may have taken the folder as well.
    KERF_RETURN_IF_ERROR(Claim(path));
    status = rocksdb::DB::Open(database_options, path, &opened);
  }
  std::unique_ptr<rocksdb::DB> database(opened);
  KERF_RETURN_IF_ERROR(FromRocksDb(status, Cat("opening the hints in ", path)));
  // What waits in memory is written without asking again.
  const std::uint64_t waiting_bytes = kMemtableCount * MemtableBytes(options);
  const std::uint64_t min_free_bytes =
      options.min_free_bytes + std::min(waiting_bytes, options.capacity_bytes);
  return std::make_unique<RocksDbSegmentStore>(path, min_free_bytes, std::move(database));
}

}  // namespace kerf
