#include "client/fs/scanner.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/status.h"

namespace kerf::agent {
namespace {

// Nodes that change hands at once: few wake-ups, and the first file is not waited for long.
constexpr std::size_t kBatchNodes = 128;
// Batches that are ready and not taken yet.
constexpr std::size_t kMaxReadyBatches = 16;

struct Inode {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  friend bool operator==(const Inode&, const Inode&) = default;
};

struct InodeHash {
  std::size_t operator()(const Inode& id) const {
    return static_cast<std::size_t>((id.inode + id.device * 0x9E3779B97F4A7C15u) *
                                    0xD6E8FEB86659FD93u);
  }
};

// One with several names, of which the walk has met some.
struct FirstName {
  std::string path;
  Incarnation incarnation;
  // Names that are still to come, at most.
  std::uint64_t left_count = 0;
};

// What could not be read, found before the node of this index in its batch.
struct Problem {
  std::size_t before = 0;
  std::string path;
  absl::Status status;
};

struct Batch {
  std::vector<ScannedNode> nodes;
  std::vector<Problem> problems;
};

class AheadScanner : public Scanner {
 public:
  explicit AheadScanner(ScanOptions options)
      : on_error_(std::exchange(options.on_error, nullptr)), options_(std::move(options)) {
    options_.on_error = [this](const std::string& path, const absl::Status& status) {
      AddProblem(path, status);
    };
  }
  AheadScanner(const AheadScanner&) = delete;
  AheadScanner& operator=(const AheadScanner&) = delete;

  absl::Status Start(const std::vector<std::string>& roots);
  bool Next(ScannedNode& scanned) override;
  void ForgetHardLink(const NodeIdentity& identity) override {
    first_names_.erase({identity.device, identity.inode});
  }

 private:
  // The thread.
  void Walk(const std::stop_token& stop);
  // False if nobody wants it any more.
  bool HandOver(const std::stop_token& stop);
  void AddProblem(const std::string& path, const absl::Status& status);

  // The next batch, once there is one; false at the end.
  bool TakeBatch();
  // Says what could not be read before the node of index next_.
  void Report();
  void NoteHardLink(ScannedNode& scanned);

  const std::function<void(const std::string& path, const absl::Status& status)> on_error_;
  ScanOptions options_;
  std::unique_ptr<TreeWalk> walk_;
  // Of Start, then of the thread.
  Batch filling_;
  std::stop_token stop_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> ready_;
  bool walked_ = false;

  // Of who calls Next.
  Batch batch_;
  std::size_t next_ = 0;
  std::size_t next_problem_ = 0;
  // By which those that come later are known.
  std::unordered_map<Inode, FirstName, InodeHash> first_names_;

  // The last member: it ends before what it uses.
  std::jthread thread_;
};

absl::Status AheadScanner::Start(const std::vector<std::string>& roots) {
  absl::StatusOr<std::unique_ptr<TreeWalk>> walk = OpenTreeWalk(roots, options_);
  if (!walk.ok()) {
    batch_ = std::move(filling_);
    Report();
    return walk.status();
  }
  walk_ = *std::move(walk);
  thread_ = std::jthread([this](const std::stop_token& stop) { Walk(stop); });
  return absl::OkStatus();
}

void AheadScanner::Walk(const std::stop_token& stop) {
  stop_ = stop;
  ScannedNode scanned;
  while (!stop.stop_requested() && walk_->Next(scanned)) {
    filling_.nodes.push_back(std::move(scanned));
    const bool full =
        filling_.nodes.size() >= kBatchNodes || filling_.problems.size() >= kBatchNodes;
    if (full && !HandOver(stop)) return;
  }
  if (!HandOver(stop)) return;
  const std::lock_guard lock(mutex_);
  walked_ = true;
  changed_.notify_all();
}

bool AheadScanner::HandOver(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [this] { return ready_.size() < kMaxReadyBatches; })) return false;
  ready_.push_back(std::exchange(filling_, Batch()));
  changed_.notify_all();
  return true;
}

void AheadScanner::AddProblem(const std::string& path, const absl::Status& status) {
  filling_.problems.push_back({filling_.nodes.size(), path, status});
  // One step of the walk may meet any number of them. Those of Start are as many as the roots.
  if (filling_.problems.size() < kBatchNodes || !stop_.stop_possible()) return;
  if (!HandOver(stop_)) filling_ = Batch();
}

bool AheadScanner::TakeBatch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || walked_; });
  if (ready_.empty()) return false;
  batch_ = std::move(ready_.front());
  ready_.pop_front();
  next_ = next_problem_ = 0;
  changed_.notify_all();
  return true;
}

void AheadScanner::Report() {
  for (; next_problem_ < batch_.problems.size(); ++next_problem_) {
    const Problem& problem = batch_.problems[next_problem_];
    if (problem.before > next_) return;
    if (on_error_) on_error_(problem.path, problem.status);
  }
}

void AheadScanner::NoteHardLink(ScannedNode& scanned) {
  const auto [found, added] =
      first_names_.try_emplace({scanned.identity.device, scanned.identity.inode});
  FirstName& first = found->second;
  // Its number may be another one's by now.
  const bool is_same = !added && IsSameFile(first.incarnation, scanned.incarnation);
  if (added || (!is_same && !MayBeSameFile(first.incarnation, scanned.incarnation))) {
    first = {scanned.node.path, scanned.incarnation, scanned.other_name_count};
    return;
  }
  (is_same ? scanned.node.hard_link_to : scanned.may_be_link_to) = first.path;
  if (--first.left_count == 0) first_names_.erase(found);
}

bool AheadScanner::Next(ScannedNode& scanned) {
  Report();
  while (next_ == batch_.nodes.size()) {
    if (!TakeBatch()) return false;
    Report();
  }
  scanned = std::move(batch_.nodes[next_++]);
  if (scanned.other_name_count > 0) NoteHardLink(scanned);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Scanner>> MakeScanner(const std::vector<std::string>& roots,
                                                     ScanOptions options) {
  auto scanner = std::make_unique<AheadScanner>(std::move(options));
  KERF_RETURN_IF_ERROR(scanner->Start(roots));
  return scanner;
}

}  // namespace kerf::agent
