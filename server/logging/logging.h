// kerfd's log: lines on standard error, for people or, as JSON, for programs. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
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

// From the first one on, lines are written by a thread of its own, so that no call waits for
// whoever takes them: a full pipe, a disk that hangs. kMaxWaitingLogLines wait; beyond that the
// oldest are lost, which is counted, and said in the log as soon as that goes on. One that goes
// waits until all is written, for kLogPatience at most. Made before there are other threads, though
// signals may be blocked later: its thread takes none.
class LogBehind {
 public:
  LogBehind();
  ~LogBehind();
  LogBehind(const LogBehind&) = delete;
  LogBehind& operator=(const LogBehind&) = delete;
};
inline constexpr std::size_t kMaxWaitingLogLines = 4'096;
inline constexpr std::chrono::milliseconds kLogPatience{2'000};
std::uint64_t LostLogLineCount();

bool IsLogged(LogLevel level);

// One line. Parts of it come from peers: whatever they are, it stays one line, and as JSON one
// object. Keys are ours: [a-z_], and none of time, level and message.
void Log(LogLevel level, std::string_view message, std::span<const LogField> fields);
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

}  // namespace kerf
