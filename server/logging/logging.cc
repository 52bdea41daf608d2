#include "server/logging/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "server/logging/log_line.h"

namespace kerf {
namespace {

LogFormat format = LogFormat::kText;

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto created = spdlog::stderr_color_mt("kerfd");
    created->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    created->set_level(spdlog::level::info);
    return created;
  }();
  return *logger;
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

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

void SetLogFormat(LogFormat wanted) {
  format = wanted;
  if (format == LogFormat::kJson) {
    Logger().set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})");
  }
}

bool IsLogged(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  Log(level, message, std::span(fields.begin(), fields.size()));
}

void Log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (!IsLogged(level)) return;
  const std::string line =
      format == LogFormat::kJson ? JsonMembersOf(message, fields) : TextLineOf(message, fields);
  Logger().log(ToSpdlog(level), "{}", line);
}

}  // namespace kerf
