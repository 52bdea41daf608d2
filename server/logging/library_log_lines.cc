#include "server/logging/library_log_lines.h"

#include <event2/event.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

LogLevel LevelOf(LibraryLine::Severity severity) {
  switch (severity) {
    case LibraryLine::Severity::kDebug:
      return LogLevel::kDebug;
    case LibraryLine::Severity::kInfo:
      return LogLevel::kInfo;
    case LibraryLine::Severity::kWarning:
      return LogLevel::kWarning;
    case LibraryLine::Severity::kError:
      return LogLevel::kError;
  }
  return LogLevel::kError;
}

void Say(const LibraryLine& line) {
  std::vector<LogField> fields = {{"component", std::string(line.component)},
                                  {"source", std::string(line.source)}};
  if (line.left_out > 0) fields.push_back({"left_out", Cat(line.left_out)});
  Log(LevelOf(line.severity), line.message, fields);
}

void HearLibevent(int severity, const char* message) {
  LibraryLine line;
  switch (severity) {
    case EVENT_LOG_DEBUG:
      line.severity = LibraryLine::Severity::kDebug;
      break;
    case EVENT_LOG_MSG:
      line.severity = LibraryLine::Severity::kInfo;
      break;
    case EVENT_LOG_WARN:
      line.severity = LibraryLine::Severity::kWarning;
      break;
    default:
      break;
  }
  line.component = "libevent";
  // It does not say.
  line.source = "libevent";
  line.message = message;
  HearLibrary(line);
}

}  // namespace

LibraryLogLines::LibraryLogLines() : logs_(Say) { event_set_log_callback(HearLibevent); }

}  // namespace kerf
