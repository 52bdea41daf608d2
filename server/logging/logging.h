// kerfd's log: lines on standard error, for people or, as JSON, for programs. Thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace kerf {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

enum class LogFormat : std::uint8_t {
  // TIME LEVEL MESSAGE KEY=VALUE..., the message between quotation marks if it could be taken for
  // fields.
  kText,
  // One object a line: time, level, message, and the fields.
  kJson,
};

// What a program wants to know of a line without reading its message.
struct LogField {
  std::string_view key;
  std::string value;
};

// Lines below `level` are dropped. Info before the first call.
void SetLogLevel(LogLevel level);
// Text before the first call; before there are other threads.
void SetLogFormat(LogFormat format);

bool IsLogged(LogLevel level);

// One line. Parts of it come from peers: whatever they are, it stays one line, and as JSON one
// object. Keys are ours: [a-z_], and none of time, level and message.
void Log(LogLevel level, std::string_view message, std::span<const LogField> fields);
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

}  // namespace kerf
