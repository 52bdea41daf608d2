#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/top/screen.h"
#include "client/agent/top/stop_signal.h"
#include "client/agent/top/table.h"
#include "client/agent/top/watcher.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/duration.h"
#include "client/cpp/tls_check.h"

namespace kerf::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kExamples[] =
    "  kerf top --server front.example:7461\n"
    "  kerf top --server worker-1:7461,worker-2:7461 --interval 5s\n"
    "  kerf top --server front.example:7461 --once --json";
constexpr milliseconds kMinInterval{100};
constexpr milliseconds kMaxInterval{3'600'000};
// How soon an interrupt or a window of another size is noticed.
constexpr milliseconds kPoll{50};

struct Flags {
  ServerFlags server;
  std::string interval = "1s";
  bool once = false;
};

std::string RefuseInterval(const std::string& text) {
  const auto interval = ParseDuration(text);
  if (!interval.ok()) return std::string(MessageOf(interval.status()));
  const bool is_good = *interval >= kMinInterval && *interval <= kMaxInterval;
  return is_good ? "" : Cat("'", text, "' is not between 100ms and 1h");
}

std::string TimeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return absl::StrFormat("%02d:%02d:%02d", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// What is shown, and was shown before.
class Display {
 public:
  Display(Context& context, const Flags& flags)
      : context_(context),
        flags_(flags),
        has_screen_(!flags.once && !context.reporter.json() && Screen::IsPossible()) {
    if (has_screen_) stop_signal_.emplace();
  }

  // False: nobody sees it any more.
  bool Show(const WorkerLooks& now, const WorkerLooks& before) {
    for (const WorkerLook& look : now) {
      context_.reporter.Json("worker", TopJson(look, FindLook(before, look.address)));
    }
    lines_ = TopTable(now, before);
    if (!flags_.once) lines_.insert(lines_.begin(), TitleOf(now));
    if (has_screen_) return Redraw();
    for (const std::string& line : lines_) context_.reporter.Result(line);
    if (!flags_.once) context_.reporter.Result("");
    return context_.reporter.Flush().ok();
  }

  // Until `time`, or an interrupt. False: no more is wanted.
  bool WaitUntil(steady_clock::time_point time) {
    while (!context_.cancelled && steady_clock::now() < time) {
      std::this_thread::sleep_for(
          std::min<steady_clock::duration>(kPoll, time - steady_clock::now()));
      StopIfWanted();
      if (!has_screen_) continue;
      must_redraw_ = must_redraw_ || !(Screen::Size() == drawn_size_);
      if (must_redraw_ && !Redraw()) return false;
    }
    return !context_.cancelled;
  }

  // If somebody has typed Ctrl-Z: gives the terminal back and stops, until it is let go on. To be
  // called soon and often.
  void StopIfWanted() {
    if (!stop_signal_.has_value()) return;
    if (StopSignal::TakeStop()) {
      screen_.Leave();
      StopSignal::Stop();
    }
    if (!StopSignal::TakeContinue()) return;
    // Whoever had the terminal meanwhile may have left it in any state.
    screen_.Leave();
    must_redraw_ = true;
    was_stopped_ = true;
  }
  // Whether it was stopped since this was asked last.
  bool TakeWasStopped() { return std::exchange(was_stopped_, false); }

 private:
  std::string TitleOf(const WorkerLooks& now) const {
    const std::size_t lost_count = LostCountOf(now);
    return Cat(TimeOfDay(), "  kerf top of ", Printable(flags_.server.address), " every ",
               flags_.interval, ": ", now.size(), now.size() == 1 ? " worker" : " workers",
               lost_count > 0 ? Cat(", ", lost_count, " lost") : "");
  }
  bool Redraw() {
    must_redraw_ = !Screen::IsForeground();
    if (must_redraw_) return true;
    drawn_size_ = Screen::Size();
    return screen_.Draw(lines_);
  }

  Context& context_;
  const Flags& flags_;
  const bool has_screen_;
  std::optional<StopSignal> stop_signal_;
  Screen screen_;
  ScreenSize drawn_size_;
  bool must_redraw_ = false;
  bool was_stopped_ = false;
  std::vector<std::string> lines_;
};

// If nobody at all answers the first question, there is nothing to watch.
bool HasAnswer(const WorkerLooks& looks) { return LostCountOf(looks) < looks.size(); }

ExitCode FailWithoutAnswer(Context& context, const Flags& flags,
                           const client::ServerAddress& server, const WorkerLooks& looks) {
  const absl::Status nobody = absl::UnavailableError("nobody answers");
  const absl::Status why = client::ExplainByTls(nobody, server, /*cancellation=*/nullptr);
  if (why != nobody) return FailWith(context, why);
  if (looks.empty()) {
    return FailWith(context, absl::UnavailableError(
                                 Cat(flags.server.address,
                                     " is a front that knows no workers: see its --workers")));
  }
  return FailWith(context,
                  absl::UnavailableError(Cat("no worker answers: ", looks.front().address, ": ",
                                             looks.front().error,
                                             ": start one, or say with --server where it is")));
}

// A look during which the process was stopped says only that nobody answered in time.
WorkerLooks LookThrough(Display& display, Watcher& watcher) {
  while (true) {
    static_cast<void>(display.TakeWasStopped());
    WorkerLooks looks = watcher.Look([&display] { display.StopIfWanted(); });
    if (!display.TakeWasStopped()) return looks;
  }
}

// The first look of a run has no rates yet: `--once` takes a second one.
ExitCode Watch(Context& context, const Flags& flags, const client::ServerAddress& server,
               Watcher& watcher) {
  const milliseconds interval = *ParseDuration(flags.interval);
  Display display(context, flags);
  auto due = steady_clock::now();
  WorkerLooks before = LookThrough(display, watcher);
  if (context.cancelled) return ExitCode::kInterrupted;
  if (!HasAnswer(before)) return FailWithoutAnswer(context, flags, server, before);
  if (!flags.once && !display.Show(before, {})) return ExitCode::kFailure;
  while (true) {
    // A look that took longer than the interval does not make the next one come sooner.
    due = std::max(due + interval, steady_clock::now());
    if (!display.WaitUntil(due)) return ExitCode::kFailure;
    WorkerLooks now = LookThrough(display, watcher);
    if (context.cancelled) return ExitCode::kInterrupted;
    if (!display.Show(now, before)) return ExitCode::kFailure;
    before = std::move(now);
    if (flags.once) break;
  }
  const std::size_t lost_count = LostCountOf(before);
  context.reporter.Json("summary", {{"workers", before.size()}, {"lost_workers", lost_count}});
  return lost_count == 0 ? ExitCode::kOk : ExitCode::kUnavailable;
}

ExitCode Run(Context& context, const Flags& flags) {
  const auto server = ServerOf(context, flags.server);
  if (!server.ok()) return FailUsage(context, server.status());
  const auto watcher = Watcher::Create(*server, context.cancelled);
  if (!watcher.ok()) return FailUsage(context, watcher.status());
  if (const absl::Status started = StartOwnKerfd(context); !started.ok()) {
    return FailWith(context, started);
  }
  return Watch(context, flags, *server, **watcher);
}

}  // namespace

void AddTopVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "top",
              "Watch workers: their uploads, rates, deduplication, hints and memory", kExamples);
  auto flags = std::make_shared<Flags>();
  AddPresentServerOption(
      verb, flags->server,
      "A worker, or a front, whose workers are shown: unix:PATH or HOST:PORT; several "
      "with commas between them, all of which are asked");
  verb.AddOption("--interval", flags->interval, "How often they are asked: 500ms, 10s, 1m")
      .Check(RefuseInterval)
      .Type("TIME")
      .ShowDefault();
  verb.AddFlag("--once", flags->once,
               "Show one interval and end, with exit code 5 if a worker is lost");
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
