#include "server/logging/logging.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "server/logging/behind_sink.h"
#include "server/logging/log_line.h"

namespace kerf {
namespace {

constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})";

LogFormat format = LogFormat::kText;

std::string LineOf(std::string_view message, std::span<const LogField> fields) {
  return format == LogFormat::kJson ? JsonMembersOf(message, fields) : TextLineOf(message, fields);
}

std::shared_ptr<spdlog::logger> Prepared(std::shared_ptr<spdlog::logger> logger) {
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  logger->set_level(spdlog::level::info);
  return logger;
}

// Writes in the thread that logs.
spdlog::logger& DirectLogger() {
  static const std::shared_ptr<spdlog::logger> logger = Prepared(std::make_shared<spdlog::logger>(
      "kerfd", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()));
  return *logger;
}

// Never destroyed: at the end its thread may still wait for whoever takes the lines.
struct Behind {
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<BehindSink> sink;
  std::shared_ptr<spdlog::logger> logger;
};

// Another one than `stderr`, whose lock is waited for at the end of the program, and would be held
// as long as nobody takes a line. Without a buffer, as there: nothing is left for the end.
std::FILE* StandardErrorOfItsOwn() {
  std::FILE* const file = fdopen(STDERR_FILENO, "w");
  if (file == nullptr) return stderr;
  std::setvbuf(file, nullptr, _IONBF, 0);
  return file;
}

Behind MakeBehind() {
  // The thread inherits that.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto pool = std::make_shared<spdlog::details::thread_pool>(kMaxWaitingLogLines, 1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  auto sink = std::make_shared<BehindSink>(
      std::make_shared<spdlog::sinks::ansicolor_sink<spdlog::details::console_mutex>>(
          StandardErrorOfItsOwn(), spdlog::color_mode::automatic),
      [pool] { return std::uint64_t{pool->overrun_counter()}; },
      [](std::uint64_t lost_count) {
        const LogField lost = {"lost", std::to_string(lost_count)};
        return LineOf("lines are missing here: whoever takes the log did not", {&lost, 1});
      });
  auto logger = Prepared(std::make_shared<spdlog::async_logger>(
      "kerfd", sink, pool, spdlog::async_overflow_policy::overrun_oldest));
  return {.pool = std::move(pool), .sink = std::move(sink), .logger = std::move(logger)};
}

std::atomic<const Behind*> behind{nullptr};

spdlog::logger& Logger() {
  const Behind* const there = behind.load(std::memory_order_acquire);
  return there == nullptr ? DirectLogger() : *there->logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

LogBehind::LogBehind() {
  if (behind.load() != nullptr) return;
  const auto* const made = new Behind(MakeBehind());
  made->logger->set_level(DirectLogger().level());
  if (format == LogFormat::kJson) made->logger->set_pattern(kJsonPattern);
  behind.store(made, std::memory_order_release);
}

LogBehind::~LogBehind() {
  const Behind& there = *behind.load();
  const auto deadline = std::chrono::steady_clock::now() + kLogPatience;
  // What it hears of may be an earlier one; its own has been taken once the queue is empty, and all
  // that was before it is written.
  do {
    const std::uint64_t count = there.sink->flush_count();
    there.logger->flush();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (!there.sink->WaitForFlush(count, left)) return;
  } while (there.pool->queue_size() > 0);
}

std::uint64_t LostLogLineCount() {
  const Behind* const there = behind.load();
  return there == nullptr ? 0 : there->pool->overrun_counter();
}

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

void SetLogFormat(LogFormat wanted) {
  format = wanted;
  if (format == LogFormat::kJson) Logger().set_pattern(kJsonPattern);
}

bool IsLogged(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  Log(level, message, std::span(fields.begin(), fields.size()));
}

void Log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (!IsLogged(level)) return;
  Logger().log(ToSpdlog(level), "{}", LineOf(message, fields));
}

}  // namespace kerf
