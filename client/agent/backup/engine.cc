#include "client/agent/backup/engine.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/backup/entry_window.h"
#include "client/agent/backup/file_queue.h"
#include "client/agent/backup/file_sender.h"
#include "client/agent/backup/lane.h"
#include "client/agent/backup/late_commits.h"
#include "client/agent/backup/link_marks.h"
#include "client/agent/backup/metadata_upload.h"
#include "client/agent/backup/parent_tree.h"
#include "client/agent/backup/standard_input.h"
#include "client/agent/backup/stream_tally.h"
#include "client/cpp/shard_key.h"
#include "client/fs/scanner.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/roots.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/upload_profile.h"

namespace kerf::agent {
namespace {

// Entries between the scanner and the tree stream: bounds memory, and lets the scan run ahead of
// one large file.
constexpr std::size_t kMaxWindowEntries = 50'000;
// The same of what is in them: recipes, behind a file that takes long, or long attributes.
constexpr std::uint64_t kMaxWindowBytes = 150'000'000;
// The scan runs ahead as far as the window lets it: the sooner it ends, the sooner the display
// knows how long it takes.
constexpr std::size_t kMaxQueuedFiles = kMaxWindowEntries;
constexpr int kMaxRounds = 3;
// Of docs/spec/protocol.md, "Features": what a server then says of its index's epoch is heeded.
constexpr char kIndexEpochFeature[] = "index-epoch";
// Of those that read ahead: directories are few beside files.
constexpr unsigned kMaxWalkers = 4;
// How soon an interrupt, or a lane that has failed, is noticed while everybody waits.
constexpr std::chrono::milliseconds kWatchInterval{100};

std::int64_t NowUnixNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Two agents that lost one server must not wait for the same time.
std::uint64_t RandomSeed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

class Engine {
 public:
  Engine(Store& store, const BackupOptions& options, BackupProgress& progress)
      : store_(store),
        options_(options),
        progress_(progress),
        digest_size_bytes_(DigestSizeBytes(store.digest_algorithm())),
        known_(store.packs_directory(), options.known),
        keeper_(known_, store.digest_algorithm()),
        late_commits_(
            [this](const Digest& digest, std::string_view locator) {
              return known_.LengthAt(digest, locator);
            },
            options.retry, RandomSeed(),
            [this](std::span<const StoredChunk> chunks, client::CallCancellation& cancellation) {
              return SendLate(chunks, cancellation);
            }) {}

  ~Engine() {
    StopWatch();
    Stop();
    warmer_.reset();
    for (std::thread& thread : lane_threads_) thread.join();
    // Lanes give chunks to the writers, and the writers say to the lanes what is durable: first
    // nothing more is given, then the writers' threads end, and only then the lanes go.
    for (const auto& lane : lanes_) lane->Stop();
    metadata_writer_.reset();
    data_writer_.reset();
  }

  absl::StatusOr<BackupResult> Run();

 private:
  FileSender::Options SenderOptions();
  absl::Status Prepare();
  absl::Status OpenParent();
  absl::Status OpenLanes();
  void PlanReadingAhead();
  absl::StatusOr<std::unique_ptr<Lane>> OpenLane(const std::string& profile,
                                                 const std::string& shard_name, PackWriter& writer);
  v1::Open OpenFrame(const std::string& profile) const;
  absl::StatusOr<std::unique_ptr<PackWriter>> MakeWriter(unsigned thread_count,
                                                         const Compression& compression);
  absl::Status Scan();
  absl::Status HandleNode(ScannedNode& scanned);
  absl::Status EmitReady(bool wait);
  void LoseName(const EntryWindow::Slot& slot);
  absl::Status MakeFirstName(std::unique_ptr<EntryWindow::Slot> slot);
  void RunLane(std::size_t index);
  bool WaitForStream(Lane& lane);
  void DoWithoutLane(const absl::Status& status);
  absl::Status FlushPacks();
  absl::Status Finish();
  absl::Status Publish();
  absl::Status HearLastWords();
  absl::Status SendLate(std::span<const StoredChunk> chunks,
                        client::CallCancellation& cancellation) const;
  void OnLost(const client::ResumingUpload::Lost& lost);
  void NoteIndexEpoch(std::uint64_t epoch);
  void Warn(const std::string& path, const absl::Status& status);
  void Fail(const absl::Status& status);
  void Stop();
  bool Cancelled() const { return options_.cancelled != nullptr && options_.cancelled->load(); }
  void Watch(const std::stop_token& stop);
  void TellOfSlowFiles();
  void StopWatch();
  absl::Status failure();

  Store& store_;
  const BackupOptions& options_;
  BackupProgress& progress_;
  const std::size_t digest_size_bytes_;
  // What collections of garbage had published when the run began.
  std::optional<CollectionGuard> guard_;
  KnownChunks known_;
  ChunkKeeper keeper_;
  LateCommits late_commits_;
  std::unique_ptr<PackWriter> data_writer_;
  std::unique_ptr<PackWriter> metadata_writer_;
  std::unique_ptr<ChunkReader> reader_;
  std::unique_ptr<ParentTree> parent_;
  std::unique_ptr<Scanner> scanner_;
  EntryWindow window_;
  FileQueue queue_{kMaxQueuedFiles};
  unsigned walker_count_ = 0;
  unsigned reader_count_ = 0;
  std::unique_ptr<CacheWarmer> warmer_;
  FileSender sender_{keeper_, window_, progress_, SenderOptions()};
  // Whether any lane has met a server.
  const std::shared_ptr<std::atomic<bool>> reached_ =
      std::make_shared<std::atomic<bool>>(options_.server_was_met);
  StreamTally tally_;
  // The last one carries the metadata.
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<std::size_t> unused_lane_count_{0};
  std::unique_ptr<MetadataUpload> metadata_;
  std::vector<std::thread> lane_threads_;
  store::v1::Snapshot snapshot_;
  // Names to which further ones may not point, because they could not be read, or are those of
  // another file; each with the one that has taken its place, once there is one.
  absl::flat_hash_map<std::string, std::string> lost_names_;
  LinkMarks link_marks_;

  std::mutex mutex_;
  absl::Status failure_;
  // Directories, but those that are excluded.
  std::vector<std::string> left_out_;
  std::vector<std::string> pseudo_;
  std::uint64_t warning_count_ = 0;
  // The highest that any lane was told.
  std::uint64_t index_epoch_ = 0;
  // Everything is durable: what the lanes still say fails nothing.
  std::atomic<bool> finishing_{false};
  std::condition_variable_any watch_changed_;
  std::mutex watch_mutex_;
  std::jthread watch_thread_;
};

FileSender::Options Engine::SenderOptions() {
  FileSender::Options options;
  options.stream_fd = options_.stream_fd;
  options.stream_end = options_.stream_end;
  options.reads_ahead = options_.reader_count > 0;
  options.failure = [this] { return failure(); };
  options.warn = [this](const std::string& path, const absl::Status& status) {
    Warn(path, status);
  };
  return options;
}

void Engine::Warn(const std::string& path, const absl::Status& status) {
  std::lock_guard lock(mutex_);
  ++warning_count_;
  if (options_.on_warning) options_.on_warning(path, status);
}

void Engine::OnLost(const client::ResumingUpload::Lost& lost) {
  std::lock_guard lock(mutex_);
  if (options_.on_lost) options_.on_lost(lost);
}

void Engine::NoteIndexEpoch(std::uint64_t epoch) {
  std::lock_guard lock(mutex_);
  index_epoch_ = std::max(index_epoch_, epoch);
}

absl::Status Engine::SendLate(std::span<const StoredChunk> chunks,
                              client::CallCancellation& cancellation) const {
  if (!options_.commit_late) return absl::UnimplementedError("nobody tells the index late");
  return options_.commit_late(guard_->epoch(), chunks, cancellation);
}

void Engine::Fail(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }
  Stop();
}

// Nobody waits for anything any more.
void Engine::Stop() {
  queue_.Abort();
  window_.Abort();
  late_commits_.Stop();
  known_.Stop();
  for (const auto& lane : lanes_) lane->Cancel();
}

// While everybody waits for a server that says nothing, somebody must look at the clock and at the
// user.
void Engine::Watch(const std::stop_token& stop) {
  std::unique_lock lock(watch_mutex_);
  while (
      !watch_changed_.wait_for(lock, stop, kWatchInterval, [&] { return stop.stop_requested(); })) {
    if (stop.stop_requested()) return;
    if (Cancelled()) return Stop();
    TellOfSlowFiles();
    for (const auto& lane : lanes_) {
      const absl::Status status = lane->Watch();
      // What becomes of one that never had a stream is its thread's matter.
      const bool is_spare = lane != lanes_.back() && !lane->opened();
      if (!status.ok() && !finishing_ && !is_spare) Fail(status);
    }
    if (finishing_ || !options_.server_end) continue;
    if (const absl::Status end = options_.server_end(); !end.ok()) Fail(end);
  }
}

void Engine::TellOfSlowFiles() {
  for (const std::string& path : sender_.slow_reads().Take(options_.slow_file_after)) {
    if (options_.on_slow_file) options_.on_slow_file(AbsolutePath(path));
  }
}

void Engine::StopWatch() {
  if (!watch_thread_.joinable()) return;
  watch_thread_.request_stop();
  watch_thread_.join();
}

absl::Status Engine::failure() {
  if (Cancelled()) return absl::CancelledError("the backup was interrupted");
  std::lock_guard lock(mutex_);
  return failure_;
}

v1::Open Engine::OpenFrame(const std::string& profile) const {
  v1::Open open;
  open.set_repository(store_.config().id());
  open.set_profile(profile);
  open.set_digest_algorithm(store_.config().digest_algorithm());
  open.set_store_epoch(snapshot_.store_epoch());
  open.set_agent(Cat("kerf ", options_.host).substr(0, 128));
  open.add_features(kIndexEpochFeature);
  return open;
}

absl::StatusOr<std::unique_ptr<PackWriter>> Engine::MakeWriter(unsigned thread_count,
                                                               const Compression& compression) {
  PackWriterOptions options;
  options.packs_directory = store_.packs_directory();
  options.temporary_directory = store_.temporary_directory();
  options.digest_algorithm = store_.digest_algorithm();
  options.compression = compression;
  options.target_pack_bytes = options_.target_pack_bytes;
  options.thread_count = thread_count;
  options.on_sealed = [this](SealedPack pack) { keeper_.OnSealed(std::move(pack)); };
  options.on_parity_failed = options_.on_parity_failed;
  return std::make_unique<PackWriter>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Lane>> Engine::OpenLane(const std::string& profile,
                                                       const std::string& shard_name,
                                                       PackWriter& writer) {
  Lane::Options options;
  client::ResumingUpload::Options& upload = options.upload;
  upload.stream.open = OpenFrame(profile);
  KERF_ASSIGN_OR_RETURN(const UploadProfile parsed, ParseUploadProfile(profile));
  options.profile = parsed.rule;
  upload.stream.open.set_cutter(CutterFor(options_.who_cuts, parsed.rule));
  upload.stream.shard_key = client::ShardKey(upload.stream.open.repository(), shard_name);
  upload.servers = options_.servers;
  upload.tls = options_.tls;
  upload.retry = options_.retry;
  upload.seed = RandomSeed();
  upload.reached = reached_;
  upload.on_lost = [this](const client::ResumingUpload::Lost& lost) { OnLost(lost); };
  upload.direct = options_.direct;
  upload.shares_memory = options_.shares_memory;
  tally_.Watch(upload);
  // All lanes have them: without memory the process ends.
  upload.on_late_commits = [this](std::vector<v1::CommitEntry> entries) noexcept {
    late_commits_.Add(std::move(entries));
  };
  options.answer_limit = options_.answer_limit;
  options.digest_size_bytes = digest_size_bytes_;
  options.on_pressure = [this] { return FlushPacks(); };
  options.on_index_epoch = [this](std::uint64_t epoch) { NoteIndexEpoch(epoch); };
  auto lane = std::make_unique<Lane>(std::move(options), keeper_);
  keeper_.AddLane(*lane, writer,
                  &writer == metadata_writer_.get() ? LaneContent::kMetadata : LaneContent::kFiles);
  return lane;
}

absl::Status Engine::OpenLanes() {
  unsigned count = options_.lane_count;
  if (count == 0) count = std::max(1u, std::thread::hardware_concurrency());
  count = std::min(count, kMaxLanes);
  queue_.SetLaneCount(count);
  // First, for no backup can do without it: where places are few it is to have one.
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<Lane> metadata, OpenLane(store_.config().metadata_profile(),
                                                                 "metadata", *metadata_writer_));
  metadata_ = std::make_unique<MetadataUpload>(*metadata, digest_size_bytes_);
  // At once: others know it from here on, whatever becomes of the other lanes.
  lanes_.push_back(std::move(metadata));
  for (unsigned index = 0; index < count; ++index) {
    KERF_ASSIGN_OR_RETURN(std::unique_ptr<Lane> lane,
                          OpenLane(store_.config().profile(), Cat("lane ", index), *data_writer_));
    lanes_.insert(lanes_.end() - 1, std::move(lane));
  }
  return absl::OkStatus();
}

// How many threads look into directories and how many into files.
void Engine::PlanReadingAhead() {
  rlimit limit{};
  if (options_.stream_fd.has_value() || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const unsigned wanted_walkers = std::min(options_.reader_count, kMaxWalkers);
  const unsigned count = AffordableReaders(options_.reader_count + wanted_walkers, limit.rlim_cur);
  walker_count_ = std::min(wanted_walkers, (count + 1) / 3);
  reader_count_ = std::min(options_.reader_count, count - walker_count_);
}

absl::Status Engine::Prepare() {
  snapshot_.set_started_unix_ns(NowUnixNs());
  snapshot_.set_host(options_.host);
  snapshot_.set_user(options_.user);
  snapshot_.set_profile(store_.config().profile());
  for (const std::string& path : options_.paths) snapshot_.add_paths(path);
  // In this order: what is known of the store must be newer than the guard.
  KERF_ASSIGN_OR_RETURN(guard_, CollectionGuard::Begin(store_));
  snapshot_.set_store_epoch(guard_->epoch());
  snapshot_.set_store_id(store_.config().id());
  KERF_RETURN_IF_ERROR(known_.Open(*guard_));
  KERF_ASSIGN_OR_RETURN(data_writer_, MakeWriter(0, options_.compression));
  KERF_ASSIGN_OR_RETURN(metadata_writer_, MakeWriter(1, ForMetadata(options_.compression)));
  KERF_RETURN_IF_ERROR(OpenLanes());

  if (options_.stream_fd.has_value()) {
    scanner_ = MakeStreamScanner(options_.paths.front().substr(1));
    return absl::OkStatus();
  }
  ScanOptions scan;
  scan.excludes = options_.excludes;
  scan.one_file_system = options_.one_file_system;
  scan.pseudo_file_systems = options_.pseudo_file_systems;
  PlanReadingAhead();
  scan.ahead_thread_count = walker_count_;
  scan.skip_directories = options_.skip_directories;
  scan.skip_directories.push_back(store_.directory());
  scan.on_left_out = [this](const std::string& node_path) {
    const std::lock_guard lock(mutex_);
    left_out_.push_back(AbsolutePath(node_path));
  };
  // Of the thread that walks until the scan has ended.
  scan.on_pseudo = [this](const std::string& path) { pseudo_.push_back(AbsolutePath(path)); };
  for (const std::string& pattern : options_.excludes.texts()) {
    snapshot_.mutable_left_out()->add_excludes(pattern);
  }
  snapshot_.mutable_left_out()->set_one_file_system(options_.one_file_system);
  scan.on_error = [this](const std::string& path, const absl::Status& status) {
    Warn(path, status);
  };
  KERF_ASSIGN_OR_RETURN(scanner_, MakeScanner(options_.paths, std::move(scan)));
  return absl::OkStatus();
}

// May ask a server and wait for it: only while somebody watches.
absl::Status Engine::OpenParent() {
  if (options_.force || options_.stream_fd.has_value()) return absl::OkStatus();
  KERF_ASSIGN_OR_RETURN(const SnapshotList list, store_.ListSnapshots());
  const auto parent = FindParent(list, options_.host, options_.paths);
  if (!parent.has_value()) return absl::OkStatus();
  ParentTree::Expect expect;
  if (known_.is_by_place()) {
    expect = [this](ParentTree::ChunkSpan chunks) { known_.Expect(chunks); };
  }
  ChunkPlaces& places = known_.PlacesOf(MetadataOf(*parent, digest_size_bytes_));
  reader_ = std::make_unique<ChunkReader>(places, ChunkReader::Options());
  absl::StatusOr<std::unique_ptr<ParentTree>> tree =
      ParentTree::Open(*reader_, *parent, digest_size_bytes_, options_.max_kept_chunks,
                       std::move(expect), [this] { return !failure().ok(); });
  if (!tree.ok()) return absl::OkStatus();
  parent_ = *std::move(tree);
  snapshot_.set_parent(parent->id());
  return absl::OkStatus();
}

absl::Status Engine::HandleNode(ScannedNode& scanned) {
  BackupEntry entry;
  store::v1::SnapshotStats& stats = *snapshot_.mutable_stats();
  const bool has_content =
      scanned.node.kind == NodeKind::kFile && scanned.node.hard_link_to.empty();
  BackupEntry* const before = has_content && parent_ != nullptr
                                  ? parent_->FindUnchanged(scanned, options_.ignore_device,
                                                           [this](ParentTree::ChunkSpan chunks) {
                                                             return known_.HoldAll(chunks);
                                                           })
                                  : nullptr;
  const bool unchanged = before != nullptr;
  entry.tree.node = std::move(scanned.node);
  entry.identity = scanned.identity;
  if (unchanged) {
    entry.tree.recipe = std::move(before->tree.recipe);
    entry.tree.node.sparse = before->tree.node.sparse;
    entry.tree.node.extents = std::move(before->tree.node.extents);
    stats.set_unchanged_file_count(stats.unchanged_file_count() + 1);
    progress_.unchanged_files.fetch_add(1, std::memory_order_relaxed);
    sender_.CountUnchanged(entry.tree.recipe);
  }
  const std::uint64_t size_bytes = entry.tree.node.size_bytes;
  const bool is_file = entry.tree.node.kind == NodeKind::kFile;
  const bool upload = has_content && !unchanged;
  if (is_file) {
    progress_.scanned_files.fetch_add(1, std::memory_order_relaxed);
    progress_.scanned_bytes.fetch_add(has_content ? size_bytes : 0, std::memory_order_relaxed);
    if (!upload) {
      progress_.done_files.fetch_add(1, std::memory_order_relaxed);
      progress_.done_bytes.fetch_add(has_content ? size_bytes : 0, std::memory_order_relaxed);
    }
  }
  EntryWindow::Slot* slot = window_.Push(std::move(entry), upload ? 2 : 0);
  if (scanned.other_name_count > 0) {
    slot->shared = std::move(scanned.incarnation);
    slot->may_be_link_to = std::move(scanned.may_be_link_to);
  }
  if (upload && !queue_.Push(slot)) return failure();
  return EmitReady(window_.size() >= kMaxWindowEntries ||
                   window_.memory_bytes() >= kMaxWindowBytes);
}

// Further names may not point to this one.
void Engine::LoseName(const EntryWindow::Slot& slot) {
  if (!slot.shared.has_value()) return;
  scanner_->ForgetHardLink(slot.shared->identity);
  lost_names_[slot.entry.tree.node.path] = "";
}

// Of a file whose first name was lost: this one is read in its place.
absl::Status Engine::MakeFirstName(std::unique_ptr<EntryWindow::Slot> slot) {
  slot->instead_of = std::exchange(slot->entry.tree.node.hard_link_to, "");
  const Node& node = slot->entry.tree.node;
  const bool has_content = node.kind == NodeKind::kFile;
  if (has_content) {
    progress_.scanned_bytes.fetch_add(node.size_bytes, std::memory_order_relaxed);
    progress_.done_files.fetch_sub(1, std::memory_order_relaxed);
  }
  EntryWindow::Slot* const again = window_.PutBack(std::move(slot), has_content ? 2 : 0);
  return has_content && !queue_.Push(again) ? failure() : absl::OkStatus();
}

// Moves complete entries from the front of the window to the tree stream; with `wait`, at least
// one.
absl::Status Engine::EmitReady(bool wait) {
  while (std::unique_ptr<EntryWindow::Slot> slot = window_.Pop(wait)) {
    wait = false;
    Node& node = slot->entry.tree.node;
    if (slot->state == EntryWindow::State::kDropped) {
      LoseName(*slot);
      continue;
    }
    if (const auto lost = lost_names_.find(node.hard_link_to); lost != lost_names_.end()) {
      if (lost->second.empty()) {
        KERF_RETURN_IF_ERROR(MakeFirstName(std::move(slot)));
        continue;
      }
      node.hard_link_to = lost->second;
    }
    if (!FitsTree(slot->entry.tree, digest_size_bytes_)) {
      Warn(AbsolutePath(node.path),
           absl::ResourceExhaustedError(
               "it has more chunks than a snapshot can list (make a store of larger chunks with "
               "--profile), or a path or extended attributes beyond what a snapshot holds"));
      LoseName(*slot);
      continue;
    }
    if (slot->is_other_file) {
      LoseName(*slot);
    } else if (!slot->instead_of.empty()) {
      lost_names_[slot->instead_of] = node.path;
    }
    if (!slot->may_be_link_to.empty()) {
      link_marks_.LinkIfTheSame(slot->may_be_link_to, slot->entry);
    } else if (slot->shared.has_value() && !CanBeProven(*slot->shared)) {
      link_marks_.Add(slot->entry);
    }
    store::v1::SnapshotStats& stats = *snapshot_.mutable_stats();
    stats.set_entry_count(stats.entry_count() + 1);
    if (node.kind == NodeKind::kDirectory) stats.set_directory_count(stats.directory_count() + 1);
    if (node.kind == NodeKind::kFile) {
      stats.set_file_count(stats.file_count() + 1);
      if (node.hard_link_to.empty()) stats.set_total_bytes(stats.total_bytes() + node.size_bytes);
    }
    if (node.kind != NodeKind::kFile && !node.hard_link_to.empty()) {
      snapshot_.set_has_linked_specials(true);
    }
    KERF_RETURN_IF_ERROR(metadata_->Append(slot->entry.tree, slot->entry.identity));
  }
  return failure();
}

absl::Status Engine::Scan() {
  KERF_RETURN_IF_ERROR(OpenParent());
  ScannedNode scanned;
  while (scanner_->Next(scanned)) {
    KERF_RETURN_IF_ERROR(failure());
    KERF_RETURN_IF_ERROR(HandleNode(scanned));
  }
  progress_.scan_done = true;
  // What is emitted may have to be read yet: a further name of what could not be.
  while (window_.size() > 0) KERF_RETURN_IF_ERROR(EmitReady(true));
  queue_.Close();
  return metadata_->Finish();
}

// False if the lane has no stream, and is not to have one any more.
bool Engine::WaitForStream(Lane& lane) {
  while (!queue_.drained()) {
    const absl::StatusOr<bool> opened = lane.WaitOpened(kWatchInterval);
    if (opened.ok() && *opened) return true;
    if (opened.ok()) continue;
    DoWithoutLane(opened.status());
    return false;
  }
  // Others have sent all there was: it is not to take the place of somebody who has something.
  return !lane.GiveUpUnopened();
}

// A server that is full, say, has room for some of them.
void Engine::DoWithoutLane(const absl::Status& status) {
  const bool may_others_work = absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
                               absl::IsDeadlineExceeded(status);
  const bool is_last = ++unused_lane_count_ == lanes_.size() - 1;
  if (is_last || !may_others_work) Fail(status);
}

void Engine::RunLane(std::size_t index) {
  Lane& lane = *lanes_[index];
  // It takes no file before, for others to send what it cannot.
  if (!WaitForStream(lane)) return;
  while (true) {
    const FileQueue::Batch batch = queue_.Pop(index, [&lane] { lane.Flush(); });
    if (batch.empty()) break;
    for (EntryWindow::Slot* slot : batch) {
      if (const absl::Status status = sender_.Send(lane, slot); !status.ok()) {
        Fail(status);
        return;
      }
    }
  }
  if (const absl::Status status = lane.WaitAnswered(); !status.ok()) Fail(status);
}

absl::Status Engine::FlushPacks() {
  KERF_RETURN_IF_ERROR(data_writer_->Flush());
  KERF_RETURN_IF_ERROR(metadata_writer_->Flush());
  keeper_.SendCommits();
  return absl::OkStatus();
}

absl::Status Engine::Finish() {
  // From here on everything is durable: the snapshot waits for no server.
  KERF_RETURN_IF_ERROR(FlushPacks());
  KERF_RETURN_IF_ERROR(keeper_.CheckTaken());
  const ChunkCounts counts = keeper_.counts();
  store::v1::SnapshotStats& stats = *snapshot_.mutable_stats();
  stats.set_new_chunk_count(counts.new_chunks);
  stats.set_new_bytes(counts.new_bytes);
  stats.set_stored_bytes(data_writer_->stored_bytes() + metadata_writer_->stored_bytes());
  stats.set_error_count(warning_count_);
  for (const std::string& path : left_out_) snapshot_.mutable_left_out()->add_directories(path);
  metadata_->Describe(snapshot_);
  snapshot_.set_finished_unix_ns(NowUnixNs());
  return Publish();
}

// A server that fails now only has to be told again.
absl::Status Engine::HearLastWords() {
  // All at once: a server that is silent costs the time that it is given, and not that of each.
  std::vector<absl::Status> ends(lanes_.size());
  std::vector<std::thread> waits;
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    // It was done without.
    if (!lanes_[index]->opened()) continue;
    waits.emplace_back([this, index, &ends] { ends[index] = lanes_[index]->Finish(); });
  }
  for (std::thread& wait : waits) wait.join();
  ends.push_back(late_commits_.Finish());
  const auto warning =
      std::find_if(ends.begin(), ends.end(), [](const absl::Status& end) { return !end.ok(); });
  if (warning == ends.end()) return absl::OkStatus();
  return Cancelled() ? absl::CancelledError("the backup was interrupted") : *warning;
}

// Aborted if a collection of garbage has deleted, or will delete, something that the snapshot
// needs.
absl::Status Engine::Publish() {
  // A snapshot must not be there before all that it needs.
  KERF_CHECK(keeper_.unsealed_count() == 0);
  KERF_RETURN_IF_ERROR(PublishPending(store_, snapshot_));
  {
    std::lock_guard lock(mutex_);
    guard_->NoteIndexEpoch(std::max(index_epoch_, known_.index_epoch()));
  }
  const absl::StatusOr<FinishCheck> check =
      known_.Check(store_, [&](ChunkReader& reader, const ChunkVisitor& visit) {
        return VisitSnapshot(snapshot_, digest_size_bytes_, reader, visit, EntryVisitor());
      });
  if (check.ok() && check->lost.empty()) return ConfirmPending(store_, snapshot_);
  const absl::Status withdrawn = WithdrawPending(store_, snapshot_.id());
  if (!check.ok()) return check.status();
  KERF_RETURN_IF_ERROR(withdrawn);
  return absl::AbortedError(
      Cat("collections of garbage took ", check->lost_count, " chunks: run the backup again"));
}

absl::StatusOr<BackupResult> Engine::Run() {
  KERF_RETURN_IF_ERROR(Prepare());
  watch_thread_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
  for (std::size_t index = 0; index + 1 < lanes_.size(); ++index) {
    lane_threads_.emplace_back([this, index] { RunLane(index); });
  }
  if (reader_count_ > 0) {
    warmer_ = std::make_unique<CacheWarmer>(queue_, reader_count_, options_.read_order, progress_);
  }
  if (const absl::Status status = Scan(); !status.ok()) Fail(status);
  for (std::thread& thread : lane_threads_) thread.join();
  lane_threads_.clear();
  // Nobody is left for whom anything could be read ahead.
  queue_.Abort();
  warmer_.reset();
  KERF_RETURN_IF_ERROR(failure());
  finishing_ = true;
  KERF_RETURN_IF_ERROR(Finish());
  const absl::Status index_warning = HearLastWords();
  return BackupResult{snapshot_,      keeper_.counts(), known_.is_by_place(),
                      warning_count_, index_warning,    tally_.counts(),
                      pseudo_};
}

}  // namespace

absl::StatusOr<BackupResult> RunBackup(Store& store, const BackupOptions& options,
                                       BackupProgress& progress) {
  // A collection that came in between costs another round, which finds nearly all of it stored.
  absl::StatusOr<BackupResult> result;
  // A stream comes once.
  const int round_count = options.stream_fd.has_value() ? 1 : kMaxRounds;
  for (int round = 0; round < round_count; ++round) {
    progress.Reset();
    KERF_ASSIGN_OR_RETURN(const std::uint64_t epoch_before, store.ReadEpoch());
    result = Engine(store, options, progress).Run();
    if (result.ok() || absl::IsCancelled(result.status())) return result;
    KERF_ASSIGN_OR_RETURN(const std::uint64_t epoch_after, store.ReadEpoch());
    if (!absl::IsAborted(result.status()) && epoch_before == epoch_after) return result;
  }
  return result;
}

}  // namespace kerf::agent
