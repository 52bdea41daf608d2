#include "server/logging/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

namespace kerf {
namespace {

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

bool IsLogged(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view line) {
  if (!IsLogged(level)) return;
  std::string clean(line);
  std::replace_if(
      clean.begin(), clean.end(),
      [](char character) {
        return static_cast<unsigned char>(character) < 0x20 || character == 0x7F;
      },
      '?');
  Logger().log(ToSpdlog(level), "{}", clean);
}

}  // namespace kerf
