// gRPC and protobuf write lines of their own to standard error, with bytes of peers in them as they
// came, as many as peers like. Here they are caught.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace kerf {

struct LibraryLine {
  enum class Severity : std::uint8_t { kDebug, kInfo, kWarning, kError };

  Severity severity = Severity::kError;
  // "grpc", "protobuf": our word.
  std::string_view component;
  // "file.cc:12": where in it, which makes lines of one kind.
  std::string_view source;
  // Any bytes.
  std::string_view message;
  // Not 0: that so many lines of this source were not said before is what the message says.
  std::uint64_t left_out = 0;
};

// "debug", "info", "warning", "error".
std::string_view NameOf(LibraryLine::Severity severity);

// While it lives `say` gets what libraries say: of each source some lines a second (line_rate.h),
// and a second later, or at its end, how many there were beside them. Before it there is what
// libraries do by themselves; after it nothing is said any more. One at a time.
class LibraryLogs {
 public:
  // One call at a time, by any thread. What it does may make no library say anything.
  using Say = std::function<void(const LibraryLine& line)>;

  explicit LibraryLogs(Say say);
  ~LibraryLogs();
  LibraryLogs(const LibraryLogs&) = delete;
  LibraryLogs& operator=(const LibraryLogs&) = delete;
};

// What another library says, to whoever catches these. Thread-safe.
void HearLibrary(const LibraryLine& line);

}  // namespace kerf
