// kerfd's log: lines on standard error. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace kerf {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

// Lines below `level` are dropped. Info before the first call.
void SetLogLevel(LogLevel level);

bool IsLogged(LogLevel level);

// One line. Control characters in `line` are replaced: parts of it come from peers.
void Log(LogLevel level, std::string_view line);

}  // namespace kerf
