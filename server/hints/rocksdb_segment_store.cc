#include "server/hints/rocksdb_segment_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <system_error>
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

absl::Status FileError(const std::string& path, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(), ToAbsl(Cat("the hints in ", path)));
}

// Makes the folder ours, or finds that it is. Nobody else gets into one that is made here, whatever
// the umask is, which is for kerfd's unix sockets.
absl::Status Claim(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return FileError(path, error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError(path, std::error_code(errno, std::generic_category()));
  }
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

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenDatabase(const std::string& path,
                                                          const RocksDbSegmentOptions& options) {
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
  return database;
}

// Behind an error of writing a database refuses everything, until it is opened anew. Not so where
// it only does not want to wait for the disk.
bool IsBroken(const rocksdb::Status& status) { return status.IsIOError() || status.IsCorruption(); }

class RocksDbSegmentStore final : public SegmentStore {
 public:
  // `failure`: why there is no database yet.
  RocksDbSegmentStore(std::string path, const RocksDbSegmentOptions& options,
                      std::unique_ptr<rocksdb::DB> database, const absl::Status& failure)
      : path_(std::move(path)),
        options_(options),
        min_free_bytes_(options.min_free_bytes +
                        // What waits in memory is written without asking again.
                        std::min<std::uint64_t>(kMemtableCount * MemtableBytes(options),
                                                options.capacity_bytes)),
        was_open_(database != nullptr),
        database_(std::move(database)) {
    if (!failure.ok()) Break(failure);
  }

  void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) override {
    done(Find(KeyOf(kAnchorLetter, HintKeyOf(scope, anchor))));
  }
  void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) override {
    done(Get(KeyOf(kSegmentLetter, HintKeyOf(scope, id)), kMaxSegmentBytes + 1));
  }
  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    absl::Status status = CheckRoom();
    if (status.ok()) status = OpenAgainIfBroken();
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
    status.Update(Write(write, batch));
    done(status);
  }
  std::string_view backend_name() const override { return "rocksdb"; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::string_view kWriting = "writing hints";
  static constexpr Clock::duration kLongestWait = RocksDbSegmentOptions::kLongestWait;
  static constexpr std::uint64_t kRoomMarginShare = 8;

  absl::Status Write(const rocksdb::WriteOptions& write, rocksdb::WriteBatch& batch) {
    absl::Status failure;
    {
      const std::shared_lock lock(database_mutex_);
      if (database_ == nullptr) return absl::UnavailableError("the hints are not open");
      const rocksdb::Status status = database_->Write(write, &batch);
      failure = FromRocksDb(status, kWriting);
      if (!IsBroken(status)) return failure;
    }
    const std::lock_guard lock(failure_mutex_);
    // Whoever was faster has said so.
    if (failure_.ok()) Break(failure);
    return failure;
  }

  // `failure_mutex_` is held, or nobody else is there yet.
  void Break(const absl::Status& failure) {
    failure_ = failure;
    const Clock::time_point now = Clock::now();
    // One that was well for long has failed for the first time.
    const bool is_again = wait_.count() > 0 && now - opened_ < kLongestWait;
    wait_ = is_again ? std::min<Clock::duration>(2 * wait_, kLongestWait)
                     : std::min<Clock::duration>(options_.first_wait, kLongestWait);
    next_try_ = now + wait_;
    is_broken_ = true;
    Log(LogLevel::kWarning,
        Cat("hints are not written to ", path_, ": ", MessageOf(failure), "; it is opened anew in ",
            std::chrono::ceil<std::chrono::seconds>(wait_).count(), " s or later"));
  }

  absl::Status OpenAgainIfBroken() {
    if (!is_broken_) return absl::OkStatus();
    const std::lock_guard lock(failure_mutex_);
    if (failure_.ok() || Clock::now() < next_try_) return failure_;
    const std::unique_lock alone(database_mutex_);
    // Two at a time have no place in the folder.
    database_.reset();
    absl::StatusOr<std::unique_ptr<rocksdb::DB>> database = OpenDatabase(path_, options_);
    if (!database.ok()) {
      Break(database.status());
      return failure_;
    }
    database_ = *std::move(database);
    opened_ = Clock::now();
    was_open_ = true;
    failure_ = absl::OkStatus();
    is_broken_ = false;
    Log(LogLevel::kInfo, Cat("the hints in ", path_, " are open again"));
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<std::string>> Get(const std::string& key, std::size_t max_bytes) {
    const std::shared_lock lock(database_mutex_);
    if (database_ == nullptr) return absl::UnavailableError("the hints are not open");
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
    const absl::StatusOr<DiskState> disk = options_.read_disk(path_);
    // Before the first opening there may be no folder. One that is gone is not made anew: its disk
    // may be unmounted.
    if (!disk.ok()) return was_open_ ? disk.status() : absl::OkStatus();
    const std::uint64_t margin_bytes = has_room_ ? 0 : min_free_bytes_ / kRoomMarginShare;
    const bool has_room = disk->free_bytes >= min_free_bytes_ + margin_bytes;
    if (has_room == has_room_.exchange(has_room)) {
      return has_room ? absl::OkStatus() : absl::ResourceExhaustedError("no room for hints");
    }
    if (has_room) {
      Log(LogLevel::kInfo, Cat("hints are written to ", path_, " again"));
      return absl::OkStatus();
    }
    const std::string text =
        Cat("the disk of ", path_, " has ", FormatByteSize(disk->free_bytes),
            " of room left: hints are written from ",
            FormatByteSize(min_free_bytes_ + min_free_bytes_ / kRoomMarginShare), " on");
    Log(LogLevel::kWarning, text);
    return absl::ResourceExhaustedError(ToAbsl(text));
  }

  const std::string path_;
  const RocksDbSegmentOptions options_;
  const std::uint64_t min_free_bytes_;
  std::atomic<bool> has_room_{true};
  std::atomic<bool> was_open_;
  // Shared by whoever uses the database, held alone by whoever opens it anew.
  std::shared_mutex database_mutex_;
  std::unique_ptr<rocksdb::DB> database_;
  // What failure_ says, for whoever only looks.
  std::atomic<bool> is_broken_{false};
  // Taken before database_mutex_.
  std::mutex failure_mutex_;
  absl::Status failure_;
  Clock::time_point opened_ = Clock::now();
  Clock::time_point next_try_;
  Clock::duration wait_{0};
};

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentStore>> OpenRocksDbSegmentStore(
    const std::string& path, const RocksDbSegmentOptions& options) {
  absl::StatusOr<std::unique_ptr<rocksdb::DB>> database = OpenDatabase(path, options);
  const absl::Status failure = database.status();
  if (!failure.ok() && (!options.opens_later || absl::IsFailedPrecondition(failure))) {
    return failure;
  }
  return std::make_unique<RocksDbSegmentStore>(
      path, options, database.ok() ? *std::move(database) : nullptr, failure);
}

}  // namespace kerf
