#include "client/cli/reporter.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/hex.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"

namespace kerf::agent {
namespace {

// A line on standard output waits at most so long for the next one; a listing of a million files
// must not cost a million system calls.
constexpr std::chrono::milliseconds kFlushInterval{100};

// Columns of the terminal on standard error; no limit if it does not tell.
std::size_t TerminalColumns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return std::numeric_limits<std::size_t>::max();
  }
  return size.ws_col;
}

void Write(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fputc('\n', file);
  std::fflush(file);
}

}  // namespace

Reporter::Reporter() { Configure({}); }

void Reporter::Configure(const Options& options) {
  options_ = options;
  live_progress_ = !options.json && shows_progress() && isatty(STDERR_FILENO) != 0;
}

void Reporter::EraseProgress() {
  if (!progress_shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  progress_shown_ = false;
}

void Reporter::Line(std::string_view text) {
  if (options_.json || options_.quiet) return;
  Result(text);
}

void Reporter::Notice(std::string_view text) {
  if (options_.json) return;
  const std::lock_guard lock(mutex_);
  EraseProgress();
  Write(stderr, Cat("kerf: ", Printable(text)));
}

void Reporter::Result(std::string_view text) {
  if (options_.json) return;
  std::lock_guard lock(mutex_);
  EraseProgress();
  WriteOut(text);
}

void Reporter::Json(std::string_view message_type, nlohmann::json object) {
  if (!options_.json) return;
  const std::string text = FormatMessage(message_type, std::move(object));
  std::lock_guard lock(mutex_);
  WriteOut(text);
}

void Reporter::Warning(std::string_view path, const absl::Status& status) {
  if (options_.json) {
    nlohmann::json object = {{"code", StatusCodeName(status.code())},
                             {"message", std::string(MessageOf(status))}};
    PutBytes(object, "path", path);
    Json("warning", std::move(object));
    return;
  }
  std::lock_guard lock(mutex_);
  EraseProgress();
  Write(stderr, Cat("kerf: warning: ", Printable(path), ": ", Printable(MessageOf(status))));
}

void Reporter::Error(const absl::Status& status) {
  if (options_.json) {
    Json("error", {{"code", StatusCodeName(status.code())},
                   {"message", std::string(MessageOf(status))},
                   {"reason", client::ReasonOfCall(status)},
                   {"request_id", client::RequestIdOf(status)}});
    return;
  }
  std::lock_guard lock(mutex_);
  EraseProgress();
  Write(stderr, Cat("kerf: ", Printable(DescribeFailure(status))));
}

void Reporter::Library(const LibraryLine& line) {
  if (options_.json) {
    Json("library", {{"component", line.component},
                     {"level", NameOf(line.severity)},
                     {"source", line.source},
                     {"message", std::string(line.message)},
                     {"left_out", line.left_out}});
    return;
  }
  std::lock_guard lock(mutex_);
  EraseProgress();
  Write(stderr, Cat("kerf: ", line.component, " ", NameOf(line.severity), ": ",
                    Printable(line.message), " (", line.source, ")"));
}

void Reporter::Progress(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (!live_progress_) {
    if (!text.empty() && shows_progress() && !options_.json) Write(stderr, text);
    return;
  }
  EraseProgress();
  if (text.empty()) return;
  // A line that wraps could not be taken away again.
  text = text.substr(0, TerminalColumns() - 1);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  progress_shown_ = true;
}

absl::Status Reporter::Flush() {
  std::lock_guard lock(mutex_);
  if (std::fflush(stdout) != 0 && write_error_ == 0) write_error_ = errno;
  if (write_error_ == 0) return absl::OkStatus();
  if (write_error_ == EPIPE) return absl::CancelledError("nobody reads standard output");
  return absl::ErrnoToStatus(write_error_, "cannot write to standard output");
}

absl::Status Reporter::Close() {
  KERF_RETURN_IF_ERROR(Flush());
  // It stays open for whoever else has it.
  const int descriptor = dup(STDOUT_FILENO);
  if (descriptor < 0 || close(descriptor) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot write to standard output");
}

void Reporter::WriteOut(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  const auto now = std::chrono::steady_clock::now();
  const bool flush = now - flushed_ > kFlushInterval;
  if (flush) flushed_ = now;
  if ((std::fputc('\n', stdout) == EOF || (flush && std::fflush(stdout) != 0)) &&
      write_error_ == 0) {
    write_error_ = errno;
  }
}

std::string FormatMessage(std::string_view message_type, nlohmann::json object) {
  object["message_type"] = message_type;
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void PutBytes(nlohmann::json& object, const std::string& key, std::string_view bytes) {
  object[key] = std::string(bytes);
  if (!IsUtf8(bytes)) object[key + "_base64"] = absl::Base64Escape(ToAbsl(bytes));
}

std::string Printable(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = Utf8Length(bytes);
    if (length == 0 || IsControl(bytes.substr(0, length))) {
      for (std::size_t index = 0; index < std::max<std::size_t>(length, 1); ++index) {
        const auto byte = static_cast<unsigned char>(bytes[index]);
        text += {'\\', 'x', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
      }
      bytes.remove_prefix(std::max<std::size_t>(length, 1));
    } else {
      text += bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
  }
  return text;
}

std::string DescribeFailure(const absl::Status& status) {
  const std::string request_id = client::RequestIdOf(status);
  const std::string message(MessageOf(status));
  return request_id.empty() ? message : Cat(message, " (request id ", request_id, ")");
}

std::string StatusCodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace kerf::agent
