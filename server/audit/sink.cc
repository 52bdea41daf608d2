#include "server/audit/sink.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/version.h"
#include "server/audit/record.h"
#include "server/logging/logging.h"
#include "server/metrics/catalog.h"

namespace kerf::audit {
namespace {

// A disk that takes longer is one that cannot be written.
constexpr std::chrono::seconds kDiskPatience{5};

}  // namespace

absl::StatusOr<std::unique_ptr<Sink>> Sink::Open(const Options& options) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<ChainFile> file,
                        ChainFile::Open({.path = options.path,
                                         .max_file_bytes = options.max_file_bytes,
                                         .time_member = [clock = options.wall_clock_ms] {
                                           return TimeMember(clock());
                                         }}));
  file->Add(EventMembers(options.wall_clock_ms(), "start",
                         {{"worker", options.worker}, {"version", std::string(kVersion)}}, {}));
  // Whoever has been started has said so.
  KERF_RETURN_IF_ERROR(file->Write());
  KERF_RETURN_IF_ERROR(file->Sync());
  return std::unique_ptr<Sink>(new Sink(options, std::move(file)));
}

Sink::Sink(const Options& options, std::unique_ptr<ChainFile> file)
    : options_(options),
      file_(std::move(file)),
      told_at_(options_.clock()),
      synced_seq_(file_->written().seq),
      minor_tokens_(static_cast<double>(options_.minor_reserve)),
      tokens_at_(told_at_),
      file_bytes_(file_->size_bytes()) {
  TellHash(/*at_once=*/true);
  thread_ = std::thread([this] { Run(); });
}

Sink::~Sink() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wakeup_.notify_all();
  thread_.join();
}

bool Sink::Reserve() {
  const std::lock_guard lock(mutex_);
  if (waiting_count_ + reserved_count_ >= options_.max_waiting) return false;
  ++reserved_count_;
  return true;
}

void Sink::Release() {
  const std::lock_guard lock(mutex_);
  --reserved_count_;
}

void Sink::Put(std::string members) {
  {
    const std::lock_guard lock(mutex_);
    --reserved_count_;
    ++waiting_count_;
    queue_.push_back(std::move(members));
  }
  wakeup_.notify_one();
}

void Sink::LeaveOutLocked(std::string_view outcome) {
  ++left_out_.try_emplace(std::string(outcome)).first->second;
  left_out_total_.Add();
}

void Sink::PutTurnedAway(std::string members, std::string_view outcome) {
  {
    const std::lock_guard lock(mutex_);
    if (!turned_away_.Take(outcome, options_.clock())) return LeaveOutLocked(outcome);
  }
  PutMinorAbove(static_cast<double>(options_.minor_reserve) / 2, std::move(members), outcome);
}

void Sink::PutMinor(std::string members, std::string_view outcome) {
  PutMinorAbove(0, std::move(members), outcome);
}

void Sink::PutMinorAbove(double reserve, std::string members, std::string_view outcome) {
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = options_.clock();
    const double earned = std::chrono::duration<double>(now - tokens_at_).count() *
                          static_cast<double>(options_.minor_rate);
    tokens_at_ = now;
    minor_tokens_ = std::min(minor_tokens_ + earned, static_cast<double>(options_.minor_reserve));
    if (minor_tokens_ < reserve + 1) return LeaveOutLocked(outcome);
    minor_tokens_ -= 1;
    if (waiting_count_ + reserved_count_ >= options_.max_waiting ||
        minor_bytes_ + members.size() > options_.max_minor_bytes) {
      ++lost_count_;
      lost_total_.Add();
      return;
    }
    minor_bytes_ += members.size();
    ++waiting_count_;
    queue_.push_back(std::move(members));
  }
  wakeup_.notify_one();
}

absl::Status Sink::status() const {
  const std::lock_guard lock(mutex_);
  if (!trouble_.ok()) return trouble_;
  if (busy_since_.has_value() && options_.clock() - *busy_since_ > kDiskPatience) {
    return absl::UnavailableError(ToAbsl(Cat(
        "the disk of ", options_.path, " has not answered for ",
        std::chrono::duration_cast<std::chrono::seconds>(options_.clock() - *busy_since_).count(),
        " s")));
  }
  if (waiting_count_ + reserved_count_ < options_.max_waiting) return absl::OkStatus();
  return absl::UnavailableError(
      ToAbsl(Cat(waiting_count_, " records wait to be written to ", options_.path)));
}

void Sink::Run() {
  std::unique_lock lock(mutex_);
  TimePoint next_tick = options_.clock() + options_.interval;
  absl::Status status;
  while (true) {
    const bool is_last = is_stopping_;
    // What does not get on is tried again with the next tick.
    const bool is_stuck = !status.ok();
    if (!is_last) {
      wakeup_.wait_for(lock, next_tick - options_.clock(),
                       [&] { return is_stopping_ || (!is_stuck && !queue_.empty()); });
    }
    const TimePoint now = options_.clock();
    const bool is_tick = is_stopping_ || now >= next_tick;
    if (is_stuck && !is_tick) continue;
    std::vector<std::string> lines;
    // The rest stays where it is counted.
    if (!is_stuck || is_last) lines.swap(queue_);
    minor_bytes_ = is_stuck ? minor_bytes_ : 0;
    busy_since_ = now;
    lock.unlock();
    if (is_last) lines.push_back(EventMembers(options_.wall_clock_ms(), "stop", {}, {}));
    status = WriteSome(std::move(lines));
    if (is_tick) {
      status.Update(Tick());
      next_tick = options_.clock() + options_.interval;
    }
    SetTrouble(status);
    lock.lock();
    busy_since_.reset();
    waiting_count_ = queue_.size() + file_->waiting_count();
    if (is_last) break;
  }
  lock.unlock();
  TellHash(/*at_once=*/true);
}

absl::Status Sink::WriteSome(std::vector<std::string> lines) {
  for (std::string& line : lines) file_->Add(std::move(line));
  const std::uint64_t before = file_->written().seq;
  const absl::Status status = file_->Write();
  written_.Add(file_->written().seq - before);
  file_bytes_.store(file_->size_bytes());
  return status;
}

absl::Status Sink::Tick() {
  KERF_RETURN_IF_ERROR(file_->Check());
  AddLeftOut();
  KERF_RETURN_IF_ERROR(WriteSome({}));
  const std::uint64_t seq = file_->written().seq;
  if (seq == synced_seq_) return absl::OkStatus();
  if (absl::Status status = file_->Sync(); !status.ok()) {
    if (unsynced_seq_ == 0) unsynced_seq_ = synced_seq_ + 1;
    return status;
  }
  if (unsynced_seq_ != 0) {
    // The system may have dropped what it could not write, and says so once.
    file_->Add(EventMembers(options_.wall_clock_ms(), "unsynced", {},
                            {{"first_seq", std::exchange(unsynced_seq_, 0)}, {"last_seq", seq}}));
    KERF_RETURN_IF_ERROR(WriteSome({}));
    KERF_RETURN_IF_ERROR(file_->Sync());
  }
  synced_seq_ = file_->written().seq;
  TellHash(/*at_once=*/false);
  return absl::OkStatus();
}

void Sink::AddLeftOut() {
  std::vector<std::pair<std::string, std::uint64_t>> left_out;
  std::uint64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    left_out.assign(left_out_.begin(), left_out_.end());
    left_out_.clear();
    lost = std::exchange(lost_count_, 0);
  }
  if (!left_out.empty()) {
    file_->Add(EventMembers(options_.wall_clock_ms(), "left_out", {}, left_out));
  }
  if (lost > 0) {
    file_->Add(EventMembers(options_.wall_clock_ms(), "lost", {}, {{"records", lost}}));
  }
}

void Sink::TellHash(bool at_once) {
  const ChainPoint& end = file_->written();
  const TimePoint now = options_.clock();
  if (end.hash == told_hash_ || (!at_once && now - told_at_ < options_.tell_interval)) return;
  told_at_ = now;
  told_hash_ = end.hash;
  Log(LogLevel::kInfo, Cat("the audit log ", options_.path, " has come to a line"),
      {{"seq", Cat(end.seq)}, {"hash", end.hash}});
}

void Sink::SetTrouble(const absl::Status& status) {
  bool was_ok = false;
  {
    const std::lock_guard lock(mutex_);
    was_ok = trouble_.ok();
    trouble_ = status;
  }
  if (was_ok && !status.ok()) {
    Log(LogLevel::kError, Cat("the audit log cannot be written: ", MessageOf(status),
                              options_.refuses ? "; no commits are taken until it can"
                                               : "; kerfd goes on without it"));
  } else if (!was_ok && status.ok()) {
    Log(LogLevel::kInfo, "the audit log is written again");
  }
}

void Sink::AddMetrics(metrics::Page& page) const {
  page.Add(metrics::kAuditWritable, status().ok() ? 1 : 0);
  page.Add(metrics::kAuditLines, written_.value(), {"written"});
  page.Add(metrics::kAuditLines, left_out_total_.value(), {"left_out"});
  page.Add(metrics::kAuditLines, lost_total_.value(), {"lost"});
  std::size_t waiting_count = 0;
  {
    const std::lock_guard lock(mutex_);
    waiting_count = waiting_count_;
  }
  page.Add(metrics::kAuditWaiting, waiting_count);
  page.Add(metrics::kAuditFileBytes, file_bytes_.load());
}

}  // namespace kerf::audit
