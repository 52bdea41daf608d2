#include "client/cli/progress_display.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/units.h"

namespace kerf::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLiveInterval{150};
constexpr std::chrono::seconds kJsonInterval{1};
constexpr std::chrono::seconds kLogInterval{10};

}  // namespace

std::string FormatCount(std::uint64_t value) {
  std::string digits = Cat(value);
  for (std::size_t position = digits.size(); position > 3;) {
    position -= 3;
    digits.insert(position, 1, ',');
  }
  return digits;
}

std::string FormatCounted(std::uint64_t value, std::string_view noun) {
  const std::string count = FormatCount(value);
  if (value == 1) return Cat(count, " ", noun);
  if (noun.ends_with('y')) return Cat(count, " ", noun.substr(0, noun.size() - 1), "ies");
  return Cat(count, " ", noun, "s");
}

std::string FormatDuration(double seconds) {
  const auto total = static_cast<std::uint64_t>(std::max(0.0, seconds));
  if (total >= 3600) {
    return absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60);
  }
  return absl::StrFormat("%d:%02d", total / 60, total % 60);
}

std::string FormatProgress(const ProgressState& state, double seconds) {
  const std::string_view more = state.counting ? "+" : "";
  std::string text = Cat(FormatCount(state.done_files), " of ", FormatCount(state.total_files),
                         more, " ", state.noun);
  const std::uint64_t done = state.counts_only ? state.done_files : state.done_bytes;
  const std::uint64_t total = state.counts_only ? state.total_files : state.total_bytes;
  if (!state.counts_only) {
    text += Cat("  ", FormatByteSize(done), " of ", FormatByteSize(total), more);
  }
  if (total > 0 && !state.counting) absl::StrAppendFormat(&text, "  %d%%", 100 * done / total);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const auto whole_rate = static_cast<std::uint64_t>(rate);
  text += Cat("  ", state.counts_only ? FormatCount(whole_rate) : FormatByteSize(whole_rate), "/s");
  if (!state.counting && rate > 0 && total >= done) {
    text += Cat("  ", FormatDuration(static_cast<double>(total - done) / rate), " left");
  }
  if (state.has_saved && state.known_bytes > 0) {
    const double saved =
        1 - static_cast<double>(state.new_bytes) / static_cast<double>(state.known_bytes);
    absl::StrAppendFormat(&text, "  %.0f%% saved", 100 * std::max(0.0, saved));
  }
  return text;
}

ProgressDisplay::ProgressDisplay(Reporter& reporter, std::string_view verb,
                                 std::function<ProgressState()> state)
    : reporter_(reporter), verb_(verb), state_(std::move(state)) {
  if (reporter_.shows_progress()) thread_ = std::thread([this] { Run(); });
}

ProgressDisplay::~ProgressDisplay() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (reporter_.live_progress()) reporter_.Progress("");
}

void ProgressDisplay::Run() {
  const Clock::time_point start = Clock::now();
  const Clock::duration interval = reporter_.live_progress() ? Clock::duration(kLiveInterval)
                                   : reporter_.json()        ? Clock::duration(kJsonInterval)
                                                             : Clock::duration(kLogInterval);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return stopping_; })) {
    lock.unlock();
    Show(std::chrono::duration<double>(Clock::now() - start).count());
    lock.lock();
  }
}

void ProgressDisplay::Show(double seconds) {
  const ProgressState state = state_();
  if (reporter_.json()) {
    reporter_.Json("progress", {{"verb", verb_},
                                {"seconds", seconds},
                                {"done_files", state.done_files},
                                {"total_files", state.total_files},
                                {"done_bytes", state.done_bytes},
                                {"total_bytes", state.total_bytes},
                                {"counting", state.counting}});
    return;
  }
  // Who sits at a terminal knows the verb, and may have 80 columns only.
  const std::string verb = reporter_.live_progress() ? "" : verb_ + "  ";
  reporter_.Progress(verb + FormatProgress(state, seconds));
}

}  // namespace kerf::agent
