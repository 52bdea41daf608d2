#include "client/agent/cli/reporter.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/escaping.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

// Length of the valid UTF-8 sequence at the front; 0 if there is none.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  std::size_t length = 1;
  std::uint32_t code = first;
  if (first >= 0xF0 && first < 0xF8) {
    length = 4;
    code = first & 0x07u;
  } else if (first >= 0xE0) {
    length = 3;
    code = first & 0x0Fu;
  } else if (first >= 0xC0) {
    length = 2;
    code = first & 0x1Fu;
  } else if (first >= 0x80) {
    return 0;
  }
  if (first >= 0xF8 || text.size() < length) return 0;
  for (std::size_t index = 1; index < length; ++index) {
    if ((byte(index) & 0xC0) != 0x80) return 0;
    code = (code << 6) | (byte(index) & 0x3Fu);
  }
  static constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  return length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
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

void Reporter::Result(std::string_view text) {
  if (options_.json) return;
  std::lock_guard lock(mutex_);
  EraseProgress();
  Write(stdout, text);
}

void Reporter::Json(std::string_view message_type, nlohmann::json object) {
  if (!options_.json) return;
  object["message_type"] = message_type;
  const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::lock_guard lock(mutex_);
  Write(stdout, text);
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
    Json("error",
         {{"code", StatusCodeName(status.code())}, {"message", std::string(MessageOf(status))}});
    return;
  }
  std::lock_guard lock(mutex_);
  EraseProgress();
  Write(stderr, Cat("kerf: ", Printable(MessageOf(status))));
}

void Reporter::Progress(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (!live_progress_) {
    if (!text.empty() && shows_progress() && !options_.json) Write(stderr, text);
    return;
  }
  EraseProgress();
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  progress_shown_ = true;
}

void PutBytes(nlohmann::json& object, const std::string& key, std::string_view bytes) {
  object[key] = std::string(bytes);
  if (!IsUtf8(bytes)) object[key + "_base64"] = absl::Base64Escape(ToAbsl(bytes));
}

std::string Printable(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = Utf8Length(bytes);
    const auto first = static_cast<unsigned char>(bytes.front());
    if (length == 0 || first < 0x20 || first == 0x7F) {
      text += {'\\', 'x', kDigits[first >> 4], kDigits[first & 15]};
      bytes.remove_prefix(1);
    } else {
      text += bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
  }
  return text;
}

std::string StatusCodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace kerf::agent
