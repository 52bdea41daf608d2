#include "server/net/self_check.h"

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "base/open_files.h"
#include "base/strings.h"
#include "server/logging/logging.h"
#include "server/net/health_probe.h"

namespace kerf {
namespace {

// One failure alone is no loss, but the next look is soon.
constexpr int kFailuresUntilLost = 2;
constexpr std::chrono::milliseconds kMaxPauseBehindFailure{1'000};
// Both ends of a connection, and what others may need meanwhile. With fewer the look itself would
// be what the listener does not come back from.
constexpr int kFilesOfOneLook = 16;
// Of looks.
constexpr int kHopelessAfter = 6;

}  // namespace

SelfCheckOptions SelfCheckOptionsOf(const ServingSettings& settings,
                                    std::vector<std::string> addresses,
                                    std::shared_ptr<const TlsContext> tls) {
  SelfCheckOptions options;
  options.addresses = std::move(addresses);
  options.tls = std::move(tls);
  options.interval = settings.self_check;
  options.hopeless_after = kHopelessAfter * settings.self_check;
  return options;
}

SelfCheck::SelfCheck(SelfCheckOptions options)
    : options_(std::move(options)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

SelfCheck::~SelfCheck() = default;

void SelfCheck::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const absl::Status status = Look(stop);
    Note(status);
    const auto pause =
        status.ok() ? options_.interval : std::min(options_.interval, kMaxPauseBehindFailure);
    stopped.wait_for(lock, stop, pause, [] { return false; });
  }
}

absl::Status SelfCheck::Look(const std::stop_token& stop) {
  for (const std::string& address : options_.addresses) {
    if (stop.stop_requested()) return absl::OkStatus();
    if (!HasOpenFilesLeft(kFilesOfOneLook)) {
      // Others may close theirs: that is no reason to start it anew.
      return absl::ResourceExhaustedError(
          "new clients are not answered: the process has no file descriptors left (ulimit -n, "
          "LimitNOFILE)");
    }
    const absl::Status status = ProbeHealth(address, options_.timeout, stop, options_.tls.get());
    if (status.ok() || stop.stop_requested()) continue;
    // Others have all there is room for. A new start would not make it more.
    if (absl::IsResourceExhausted(status)) {
      return absl::ResourceExhaustedError(
          ToAbsl(Cat("new clients are refused at ", address, ": ", MessageOf(status))));
    }
    return absl::UnavailableError(ToAbsl(
        Cat("new clients are not answered at ", address, ", as kerfd sees when it asks itself (",
            MessageOf(status), "); if that does not end, start it anew")));
  }
  return absl::OkStatus();
}

bool SelfCheck::IsLostLocked() const { return failure_count_ >= kFailuresUntilLost; }

void SelfCheck::Note(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return;
  const bool was_lost = IsLostLocked();
  const bool is_another = absl::IsResourceExhausted(status) != absl::IsResourceExhausted(status_);
  status_ = status;
  if (status.ok()) {
    failure_count_ = 0;
    if (was_lost) Log(LogLevel::kInfo, "new clients are answered again");
    return;
  }
  if (failure_count_ == 0 || is_another) failing_since_ = std::chrono::steady_clock::now();
  // No further than it is asked for: it may fail for years.
  if (!was_lost) ++failure_count_;
  if (!was_lost && IsLostLocked()) Log(LogLevel::kError, MessageOf(status));
}

void SelfCheck::Stop() {
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  status_ = absl::OkStatus();
  failure_count_ = 0;
}

absl::Status SelfCheck::readiness() const {
  const std::lock_guard lock(mutex_);
  return IsLostLocked() ? status_ : absl::OkStatus();
}

absl::Status SelfCheck::liveness() const {
  const std::lock_guard lock(mutex_);
  const auto failing = std::chrono::steady_clock::now() - failing_since_;
  const bool is_hopeless =
      IsLostLocked() && !absl::IsResourceExhausted(status_) && failing >= options_.hopeless_after;
  return is_hopeless ? status_ : absl::OkStatus();
}

}  // namespace kerf
