#include "base/rpc/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/rpc/line_rate.h"
#include "base/strings.h"

namespace kerf {
namespace {

using Severity = LibraryLine::Severity;

// How long the count of what was left out may wait.
constexpr std::chrono::seconds kCountPause{1};

class Listener {
 public:
  void Begin(LibraryLogs::Say say) {
    const std::lock_guard lock(mutex_);
    say_ = std::move(say);
  }

  void End() {
    {
      const std::lock_guard lock(mutex_);
      SayLeftOut();
      say_ = nullptr;
    }
    ended_.notify_all();
    if (counting_.joinable()) counting_.join();
  }

  void Hear(const LibraryLine& line) {
    const std::lock_guard lock(mutex_);
    if (say_ == nullptr) return;
    if (rate_.Take(line.source, std::chrono::steady_clock::now())) {
      say_(line);
      return;
    }
    left_out_.insert_or_assign(std::string(line.source),
                               std::pair(line.severity, std::string(line.component)));
    if (!counting_.joinable()) StartCounting();
  }

 private:
  // Signals are for those who wait for them.
  void StartCounting() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    counting_ = std::thread([this] { Count(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void Count() {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kCountPause, [&] { return say_ == nullptr; })) SayLeftOut();
  }

  void SayLeftOut() {
    for (const auto& [source, count] : rate_.TakeLeftOut()) {
      const auto& [severity, component] = left_out_[source];
      const std::string message = Cat(count, " more such lines of ", component, " were left out");
      say_({.severity = severity,
            .component = component,
            .source = source,
            .message = message,
            .left_out = count});
    }
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  LibraryLogs::Say say_;
  LineRate rate_;
  // What is known of the last line of each source of which one was left out.
  std::map<std::string, std::pair<Severity, std::string>> left_out_;
  std::thread counting_;
};

// Never deleted: gRPC's threads go on until the process is gone.
Listener& TheListener() {
  static auto* const listener = new Listener;
  return *listener;
}

std::string SourceOf(std::string_view file, int line) {
  return Cat(file.substr(file.rfind('/') + 1), ":", line);
}

void HearGrpc(gpr_log_func_args* arguments) {
  const std::string source = SourceOf(arguments->file, arguments->line);
  Severity severity = Severity::kError;
  if (arguments->severity == GPR_LOG_SEVERITY_DEBUG) severity = Severity::kDebug;
  if (arguments->severity == GPR_LOG_SEVERITY_INFO) severity = Severity::kInfo;
  HearLibrary(
      {.severity = severity, .component = "grpc", .source = source, .message = arguments->message});
}

// In libkerf.so protobuf is the program's as well, and so is what it says.
#ifndef KERF_SHARES_PROTOBUF
void HearProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                  const std::string& message) {
  const std::string source = SourceOf(file, line);
  Severity severity = Severity::kError;
  if (level == google::protobuf::LOGLEVEL_INFO) severity = Severity::kInfo;
  if (level == google::protobuf::LOGLEVEL_WARNING) severity = Severity::kWarning;
  HearLibrary(
      {.severity = severity, .component = "protobuf", .source = source, .message = message});
}

void ListenToProtobuf() { google::protobuf::SetLogHandler(HearProtobuf); }
#else
void ListenToProtobuf() {}
#endif

}  // namespace

std::string_view NameOf(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return "debug";
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "error";
}

LibraryLogs::LibraryLogs(Say say) {
  TheListener().Begin(std::move(say));
  gpr_set_log_function(HearGrpc);
  ListenToProtobuf();
}

LibraryLogs::~LibraryLogs() { TheListener().End(); }

void HearLibrary(const LibraryLine& line) { TheListener().Hear(line); }

}  // namespace kerf
