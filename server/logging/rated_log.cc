#include "server/logging/rated_log.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/rpc/line_rate.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::chrono::seconds kTellInterval{1};

// Of the process, as the log is.
struct Rated {
  std::mutex mutex;
  LineRate rate;
  LineRate::Time told_at;
};

Rated& TheRated() {
  static Rated rated;
  return rated;
}

}  // namespace

void LogRated(LogLevel level, std::string_view kind, std::string_view message,
              std::span<const LogField> fields) {
  if (!IsLogged(level)) return;
  Rated& rated = TheRated();
  {
    const std::lock_guard lock(rated.mutex);
    if (!rated.rate.Take(kind, std::chrono::steady_clock::now())) return;
  }
  Log(level, message, fields);
}

void LogRated(LogLevel level, std::string_view kind, std::string_view message,
              std::initializer_list<LogField> fields) {
  LogRated(level, kind, message, std::span<const LogField>(fields.begin(), fields.size()));
}

void LogLeftOut() {
  Rated& rated = TheRated();
  std::map<std::string, std::uint64_t> left_out;
  {
    const std::lock_guard lock(rated.mutex);
    const LineRate::Time now = std::chrono::steady_clock::now();
    if (now - rated.told_at < kTellInterval) return;
    rated.told_at = now;
    left_out = rated.rate.TakeLeftOut();
  }
  for (const auto& [kind, count] : left_out) {
    Log(LogLevel::kWarning, "lines of one kind were left out",
        {{"kind", kind}, {"left_out", Cat(count)}});
  }
}

}  // namespace kerf
