#include "server/index/kept_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/open_files.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/index/disk_room.h"
#include "server/index/set_aside.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kName = "index";
// Beside the log, which is sorted when the index is opened, and takes as much room once more.
constexpr std::uint64_t kOpeningBytes = 4 * kMiB;
constexpr std::chrono::milliseconds kMarkInterval{5'000};
// So many times as long as counting took it does not count again.
constexpr int kCountPause = 100;
// Between tries to open it again.
constexpr std::chrono::milliseconds kMaxWait{30'000};
// It cannot be read, however often it is opened, and its disk can be written: the disk has lost a
// part of it.
constexpr int kMaxFaultyOpenings = 4;
constexpr std::chrono::seconds kQuiet{60};
// Of a process that has enough files left to try: without them an index that is well may look
// damaged.
constexpr int kOpeningFiles = 64;
constexpr int kNoDamage[] = {EMFILE, ENFILE, ENOMEM, EAGAIN, EACCES,
                             EPERM,  EROFS,  ENOSPC, EDQUOT, ENODEV};
// Of what health() tells.
constexpr std::size_t kMaxFindings = 8;

constexpr std::string_view kAdvice =
    "; `kerf index rebuild --store STORE` tells it what a store holds, or backups do, at the price "
    "of sending it";

// A file, whatever its name is by now.
struct FileId {
  dev_t device = 0;
  ino_t number = 0;

  friend bool operator==(const FileId&, const FileId&) = default;
};

std::optional<FileId> IdOf(const std::string& path) {
  struct stat state{};
  if (stat(path.c_str(), &state) != 0) return std::nullopt;
  return FileId{state.st_dev, state.st_ino};
}

// Whether it may be that the disk has lost something. Not what the process or the machine lacks,
// for however long: RocksDB has the system's words for that.
bool MayBeDamage(const absl::Status& fault) {
  const std::string_view text = MessageOf(fault);
  const auto is_about = [text](int error) {
    return text.find(std::strerror(error)) != std::string_view::npos;
  };
  return std::none_of(std::begin(kNoDamage), std::end(kNoDamage), is_about);
}

// By value: a status may be a temporary of the caller.
absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename Value>
const absl::Status& StatusOf(const absl::StatusOr<Value>& result) {
  return result.status();
}

class KeptIndex final : public Index {
 public:
  KeptIndex(std::string folder, const KeptIndexOptions& options)
      : folder_(std::move(folder)),
        path_(Cat(folder_, "/", kName)),
        options_(options),
        reserve_(folder_ + "/reserve", options.reserve_bytes) {}

  // Once, before any other call.
  absl::Status Start();

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    return Ask<absl::Status>(Kind::kRead, [&](Index& leaf) {
      return leaf.Lookup(repository, session_epoch, digests, results);
    });
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    if (absl::Status refusal = CommitRefusal(); !refusal.ok()) return refusal;
    return Ask<absl::Status>(Kind::kWrite, [&](Index& leaf) {
      return leaf.Commit(repository, session_epoch, entries, replace);
    });
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    return Ask<absl::StatusOr<ForgetResult>>(
        Kind::kWrite, [&](Index& leaf) { return leaf.Forget(repository, entries); });
  }
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override {
    return Ask<absl::StatusOr<ForgetOlderResult>>(Kind::kWrite, [&](Index& leaf) {
      return leaf.ForgetOlder(repository, epoch, after, limit);
    });
  }
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    return Ask<absl::StatusOr<std::uint64_t>>(Kind::kWrite, [&](Index& leaf) {
      return leaf.AdvanceEpoch(repository, epoch, min_before);
    });
  }
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override {
    return Ask<absl::StatusOr<std::vector<IndexEntry>>>(
        Kind::kRead, [&](Index& leaf) { return leaf.Scan(repository, after, limit); });
  }
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    return Ask<absl::StatusOr<IndexStats>>(Kind::kRead,
                                           [&](Index& leaf) { return leaf.Stats(repository); });
  }
  Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) override {
    if (absl::Status refusal = CommitRefusal(); !refusal.ok()) return refusal;
    return Ask<absl::StatusOr<bool>>(Kind::kWrite,
                                     [&](Index& leaf) { return leaf.Create(repository); });
  }
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) override {
    return Ask<absl::StatusOr<bool>>(Kind::kRead,
                                     [&](Index& leaf) { return leaf.IsCreated(repository); });
  }
  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& repository) override {
    return Ask<absl::StatusOr<bool>>(Kind::kRead,
                                     [&](Index& leaf) { return leaf.IsThere(repository); });
  }
  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit) override {
    return Ask<absl::StatusOr<std::vector<ListedRepository>>>(
        Kind::kRead, [&](Index& leaf) { return leaf.List(after, limit); });
  }
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override {
    return Ask<absl::StatusOr<StepResult>>(
        Kind::kWrite, [&](Index& leaf) { return leaf.Drop(repository, after, limit); });
  }
  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override {
    return Ask<absl::StatusOr<StepResult>>(Kind::kWrite, [&](Index& leaf) {
      return leaf.ResetEpoch(repository, epoch, after, limit);
    });
  }
  std::string_view backend_name() const override { return "rocksdb"; }
  bool answers_at_once() const override { return true; }
  IndexHealth health() const override;
  IndexSize size() const override {
    const std::lock_guard lock(health_mutex_);
    return size_;
  }

 private:
  // A call of the index: it stays open for as long. Everyone goes through the turnstile, so that
  // calls without end do not keep the keeper from opening it again.
  std::shared_lock<std::shared_mutex> Enter() {
    const std::lock_guard turn(turnstile_);
    return std::shared_lock(mutex_);
  }

  enum class Kind : std::uint8_t { kRead, kWrite };
  template <typename Answer, typename Call>
  Answer Ask(Kind kind, const Call& call);
  absl::Status CommitRefusal() const;
  // Hears of an error that an index of the `opening`-th opening has answered.
  void NoteFault(std::uint64_t opening, Kind kind, const absl::Status& status);
  // Puts a new one in its place, if that can be done now.
  void Mend(std::uint64_t opening, const absl::Status& damage);

  // The following are called with the index locked for themselves.
  absl::Status OpenLocked();
  // Closes the index; opens it, or an empty one if it is `damage`d.
  void OpenAgainLocked(absl::Status damage);
  absl::Status BeginAnewLocked(const absl::Status& damage);

  // Whether there is room to open the index; gives up what was held back for that if it must.
  absl::Status MakeRoom() const;
  void Keep(const std::stop_token& stop);
  void LookAtDisk();
  void LookAtFolder();
  void OpenAgainIfFaulty();
  void MarkDurable();
  void CountAll();
  // Of what is told of by itself alone.
  static void SetLocked(absl::Status& held, const absl::Status& status);
  void AddFinding(const std::string& finding);
  std::uint64_t OpeningBytes() const;

  const std::string folder_;
  const std::string path_;
  const KeptIndexOptions options_;
  const DiskReserve reserve_;

  std::mutex turnstile_;
  std::shared_mutex mutex_;
  // Null while it cannot be opened: closed_ says why.
  std::unique_ptr<EmbeddedIndex> leaf_;
  absl::Status closed_;
  // How often it has been opened.
  std::uint64_t opening_count_ = 0;

  mutable std::mutex health_mutex_;
  // Each OK if it is.
  absl::Status fault_;
  // Whether that came of reading.
  bool is_unreadable_ = false;
  absl::Status disk_;
  absl::Status place_;
  std::vector<std::string> findings_;
  IndexSize size_;

  // Of the keeper alone, once it runs.
  std::optional<FileId> folder_id_;
  std::optional<FileId> index_id_;
  Clock::time_point next_try_;
  std::chrono::milliseconds wait_{0};
  Clock::time_point last_opening_;
  int faulty_opening_count_ = 0;
  bool has_given_up_ = false;
  Clock::time_point next_mark_;
  Clock::time_point next_count_;

  // Last: it uses all of them.
  std::jthread keeper_;
};

absl::Status KeptIndex::Start() {
  folder_id_ = IdOf(folder_);
  {
    const std::unique_lock alone(mutex_);
    KERF_RETURN_IF_ERROR(OpenLocked());
  }
  LookAtDisk();
  CountAll();
  keeper_ = std::jthread([this](const std::stop_token& stop) { Keep(stop); });
  return absl::OkStatus();
}

template <typename Answer, typename Call>
Answer KeptIndex::Ask(Kind kind, const Call& call) {
  for (bool is_mended = false;; is_mended = true) {
    std::uint64_t opening = 0;
    // The leaf answers before it returns.
    Answer answer = [&]() -> Answer {
      const auto inside = Enter();
      opening = opening_count_;
      if (leaf_ == nullptr) return closed_;
      return call(*leaf_).TakeValue();
    }();
    const absl::Status& status = StatusOf(answer);
    if (absl::IsDataLoss(status) && !is_mended) {
      Mend(opening, status);
      continue;
    }
    NoteFault(opening, kind, status);
    return answer;
  }
}

absl::Status KeptIndex::CommitRefusal() const {
  const std::lock_guard lock(health_mutex_);
  return !place_.ok() ? place_ : disk_;
}

void KeptIndex::NoteFault(std::uint64_t opening, Kind kind, const absl::Status& status) {
  switch (status.code()) {
    // Of those who asked.
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return;
    default:
      break;
  }
  const auto inside = Enter();
  if (opening != opening_count_) return;
  const std::lock_guard lock(health_mutex_);
  if (!fault_.ok()) return;
  fault_ = status;
  is_unreadable_ = kind == Kind::kRead;
  Log(LogLevel::kError, Cat("the index in ", path_, " fails, and is opened again when its disk is ",
                            "well: ", MessageOf(status)));
}

void KeptIndex::Mend(std::uint64_t opening, const absl::Status& damage) {
  const std::lock_guard turn(turnstile_);
  const std::unique_lock alone(mutex_);
  // Else somebody else was faster.
  if (opening == opening_count_) OpenAgainLocked(damage);
}

std::uint64_t KeptIndex::OpeningBytes() const {
  std::uint64_t bytes = kOpeningBytes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    if (entry.path().extension() != ".log") continue;
    const std::uint64_t log_bytes = entry.file_size(error);
    if (!error) bytes += log_bytes;
  }
  return bytes;
}

absl::Status KeptIndex::MakeRoom() const {
  const std::uint64_t bytes = OpeningBytes();
  absl::Status probe = ProbeDisk(folder_, bytes);
  if (absl::IsResourceExhausted(probe) && reserve_.is_held()) {
    reserve_.Free();
    probe = ProbeDisk(folder_, bytes);
    if (probe.ok()) {
      Log(LogLevel::kWarning,
          Cat("the disk of ", folder_,
              " is full: the index is opened with the room that was held back for that"));
    } else {
      reserve_.Hold().IgnoreError();
    }
  }
  if (!absl::IsResourceExhausted(probe)) return probe;
  return absl::ResourceExhaustedError(
      ToAbsl(Cat("the index in ", path_, " needs ", FormatByteSize(bytes),
                 " of room to be opened, and there is less (", MessageOf(probe),
                 "): make room there, or give it another --data-dir")));
}

absl::Status KeptIndex::OpenLocked() {
  KERF_RETURN_IF_ERROR(MakeRoom());
  auto opened = OpenRocksDbIndex(path_, options_.rocksdb);
  if (absl::IsDataLoss(opened.status())) return BeginAnewLocked(opened.status());
  if (!opened.ok()) return opened.status();
  leaf_ = *std::move(opened);
  ++opening_count_;
  index_id_ = IdOf(path_ + "/IDENTITY");
  last_opening_ = Clock::now();
  if (const std::uint64_t lost = leaf_->lost_write_count(); lost > 0) {
    AddFinding(Cat("the index in ", path_, " has lost the last ", lost,
                   " of its writes, which were on its disk: its log was damaged or removed",
                   kAdvice));
  }
  return absl::OkStatus();
}

absl::Status KeptIndex::BeginAnewLocked(const absl::Status& damage) {
  if (!HasOpenFilesLeft(kOpeningFiles)) {
    return absl::UnavailableError(
        ToAbsl(Cat("the index in ", path_, " looks damaged, and it is not sure that it is: the ",
                   "process has no file descriptors left (ulimit -n, LimitNOFILE). It was: ",
                   MessageOf(damage))));
  }
  KERF_ASSIGN_OR_RETURN(const std::string aside,
                        SetAside(folder_, std::string(kName), kKeptDamaged));
  AddFinding(Cat("the index in ", path_, " was damaged (", MessageOf(damage),
                 "); it is set aside in ", aside, ", and an empty one is begun", kAdvice));
  KERF_RETURN_IF_ERROR(MakeRoom());
  KERF_ASSIGN_OR_RETURN(leaf_, OpenRocksDbIndex(path_, options_.rocksdb));
  ++opening_count_;
  index_id_ = IdOf(path_ + "/IDENTITY");
  last_opening_ = Clock::now();
  return absl::OkStatus();
}

// A copy: whatever it is of may be set or reset here.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void KeptIndex::OpenAgainLocked(absl::Status damage) {
  leaf_.reset();
  closed_ = damage.ok() ? OpenLocked() : BeginAnewLocked(damage);
  if (absl::IsDataLoss(closed_)) {
    closed_ = absl::UnavailableError(absl::string_view(closed_.message()));
  }
  if (!closed_.ok()) {
    Log(LogLevel::kError, Cat("the index in ", path_, " cannot be opened: ", MessageOf(closed_)));
  }
  const std::lock_guard lock(health_mutex_);
  fault_ = closed_;
  is_unreadable_ = !closed_.ok() && !absl::IsResourceExhausted(closed_);
}

void KeptIndex::Keep(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (true) {
    stopped.wait_for(lock, stop, options_.check_interval, [] { return false; });
    if (stop.stop_requested()) return;
    // First: elsewhere nothing is looked at or written.
    LookAtFolder();
    LookAtDisk();
    OpenAgainIfFaulty();
    MarkDurable();
    CountAll();
  }
}

void KeptIndex::LookAtDisk() {
  {
    const std::lock_guard lock(health_mutex_);
    if (!place_.ok()) return;
  }
  const absl::StatusOr<DiskState> disk = ReadDisk(folder_);
  absl::Status status = disk.status();
  if (disk.ok() && disk->is_read_only) {
    status = absl::UnavailableError(ToAbsl(Cat("the disk of ", folder_, " is read-only")));
  } else if (disk.ok() && disk->free_bytes < options_.min_free_bytes) {
    status = absl::ResourceExhaustedError(ToAbsl(Cat(
        "the disk of ", folder_, " has ", FormatByteSize(disk->free_bytes),
        " of room left: commits are taken from ", FormatByteSize(options_.min_free_bytes), " on")));
  } else if (disk.ok() && disk->free_bytes >= options_.min_free_bytes + options_.reserve_bytes) {
    // If it cannot be had now, then later.
    reserve_.Hold().IgnoreError();
  }
  const std::lock_guard lock(health_mutex_);
  SetLocked(disk_, status);
  size_.free_disk_bytes.reset();
  if (disk.ok()) size_.free_disk_bytes = disk->free_bytes;
  size_.min_free_disk_bytes = options_.min_free_bytes;
}

void KeptIndex::LookAtFolder() {
  const std::optional<FileId> folder_id = IdOf(folder_);
  absl::Status status;
  if (!folder_id.has_value()) {
    status = absl::UnavailableError(
        ToAbsl(Cat(folder_, " is gone: bring it back, or start kerfd again")));
  } else if (folder_id->device != folder_id_->device) {
    status = absl::UnavailableError(
        ToAbsl(Cat(folder_,
                   " is on another disk than it was: was it unmounted? Mount it again, or "
                   "start kerfd again")));
  }
  const auto inside = Enter();
  const std::lock_guard lock(health_mutex_);
  SetLocked(place_, status);
  if (!status.ok() || !fault_.ok() || leaf_ == nullptr) return;
  if (IdOf(path_ + "/IDENTITY") == index_id_) return;
  fault_ = absl::UnavailableError(ToAbsl(Cat(path_, " was removed or replaced")));
  Log(LogLevel::kError,
      Cat(MessageOf(fault_), " while kerfd has it open: it is opened anew", kAdvice));
}

void KeptIndex::OpenAgainIfFaulty() {
  absl::Status fault;
  bool is_unreadable = false;
  {
    const std::lock_guard lock(health_mutex_);
    if (fault_.ok() || !place_.ok()) return;
    fault = fault_;
    is_unreadable = is_unreadable_;
  }
  if (Clock::now() < next_try_) return;
  wait_ = std::clamp(2 * wait_, options_.check_interval, kMaxWait);
  next_try_ = Clock::now() + wait_;
  // As long as it cannot be written it can perhaps be read.
  if (!MakeRoom().ok() || !HasOpenFilesLeft(kOpeningFiles)) return;
  const std::lock_guard turn(turnstile_);
  const std::unique_lock alone(mutex_);
  const bool is_again =
      is_unreadable && MayBeDamage(fault) && Clock::now() - last_opening_ < kQuiet;
  faulty_opening_count_ = is_again ? faulty_opening_count_ + 1 : 0;
  // Once: if an empty one fails as well, it is not the index.
  const bool is_damage = faulty_opening_count_ == kMaxFaultyOpenings && !has_given_up_;
  has_given_up_ |= is_damage;
  OpenAgainLocked(is_damage ? fault : absl::OkStatus());
  if (leaf_ == nullptr) return;
  wait_ = std::chrono::milliseconds(0);
  Log(LogLevel::kInfo, Cat("the index in ", path_, " is open again"));
}

void KeptIndex::MarkDurable() {
  if (Clock::now() < next_mark_) return;
  next_mark_ = Clock::now() + kMarkInterval;
  const auto inside = Enter();
  // What fails here fails for those who write, too.
  if (leaf_ != nullptr) leaf_->MarkDurable().IgnoreError();
}

void KeptIndex::CountAll() {
  const Clock::time_point began = Clock::now();
  if (began < next_count_) return;
  std::optional<IndexTotals> totals;
  {
    const auto inside = Enter();
    // That it cannot be read is found by those who read.
    if (leaf_ != nullptr) {
      if (absl::StatusOr<IndexTotals> counted = leaf_->CountAll(); counted.ok()) totals = *counted;
    }
  }
  std::uint64_t disk_bytes = 0;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(path_, error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    // One may go meanwhile.
    std::error_code gone;
    const std::uint64_t file_bytes = at->file_size(gone);
    if (!gone) disk_bytes += file_bytes;
  }
  const Clock::time_point ended = Clock::now();
  next_count_ =
      ended + std::max<Clock::duration>(options_.count_interval, kCountPause * (ended - began));
  const std::lock_guard lock(health_mutex_);
  size_.totals = totals;
  size_.disk_bytes.reset();
  if (!error) size_.disk_bytes = disk_bytes;
}

void KeptIndex::SetLocked(absl::Status& held, const absl::Status& status) {
  if (held.ok() && !status.ok()) {
    Log(LogLevel::kError, Cat("the index takes no commits: ", MessageOf(status)));
  } else if (!held.ok() && status.ok()) {
    Log(LogLevel::kInfo, "what kept the index from taking commits is over");
  }
  held = status;
}

void KeptIndex::AddFinding(const std::string& finding) {
  Log(LogLevel::kError, finding);
  const std::lock_guard lock(health_mutex_);
  if (findings_.size() == kMaxFindings) findings_.erase(findings_.begin());
  findings_.push_back(finding);
}

IndexHealth KeptIndex::health() const {
  const std::lock_guard lock(health_mutex_);
  IndexHealth health;
  for (const absl::Status* status : {&place_, &disk_, &fault_}) {
    if (health.status.ok()) health.status = Annotate(*status, "the index takes no commits");
  }
  health.findings = findings_;
  return health;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Index>> OpenKeptIndex(const std::string& folder,
                                                     const KeptIndexOptions& options) {
  auto index = std::make_unique<KeptIndex>(folder, options);
  KERF_RETURN_IF_ERROR(index->Start());
  return index;
}

}  // namespace kerf
