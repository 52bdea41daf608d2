// Lines of which peers may cause as many as they like.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "server/logging/logging.h"

namespace kerf {

// As Log, but only so many of one kind a second (LineRate); the others are counted. `kind` is one
// of few: they are kept for ever. Thread-safe.
void LogRated(LogLevel level, std::string_view kind, std::string_view message,
              std::span<const LogField> fields);
void LogRated(LogLevel level, std::string_view kind, std::string_view message,
              std::initializer_list<LogField> fields = {});

// Says how many lines of which kind were left out, if it has not done so within the last second: to
// be called again and again. Thread-safe.
void LogLeftOut();

}  // namespace kerf
