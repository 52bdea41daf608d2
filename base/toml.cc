#include "base/toml.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"

// Its errors come as values.
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace kerf {
namespace {

// Of one line: no setting has as many tables around it.
constexpr std::size_t kMaxPoints = 16;
// Around a string of many lines.
constexpr std::size_t kLongQuotes = 3;

absl::Status Wrong(const toml::source_region& where, std::string_view what) {
  return absl::InvalidArgumentError(ToAbsl(Cat("line ", where.begin.line, ": ", what)));
}

std::optional<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

absl::StatusOr<std::vector<std::string>> ValuesOf(const toml::node& node) {
  std::vector<std::string> values;
  const auto add = [&values](const toml::node& value) -> absl::Status {
    std::optional<std::string> text = TextOf(value);
    if (!text.has_value()) {
      return Wrong(value.source(),
                   "here should be an integer, true, false, a \"string\" or an [array] of these");
    }
    values.push_back(*std::move(text));
    return absl::OkStatus();
  };
  const toml::array* const array = node.as_array();
  if (array == nullptr) {
    KERF_RETURN_IF_ERROR(add(node));
    return values;
  }
  for (const toml::node& element : *array) KERF_RETURN_IF_ERROR(add(element));
  return values;
}

// toml++ limits how deep tables may be nested.
absl::Status AddTable(const toml::table& table, std::vector<std::string>& path,
                      std::vector<TomlEntry>& entries) {
  for (const auto& [key, node] : table) {
    if (const toml::table* const inner = node.as_table(); inner != nullptr) {
      path.emplace_back(key.str());
      KERF_RETURN_IF_ERROR(AddTable(*inner, path, entries));
      path.pop_back();
      continue;
    }
    TomlEntry entry;
    entry.table = path;
    entry.key = std::string(key.str());
    entry.line = static_cast<int>(key.source().begin.line);
    KERF_ASSIGN_OR_RETURN(entry.values, ValuesOf(node));
    entries.push_back(std::move(entry));
  }
  return absl::OkStatus();
}

// How long the run of quotes is that begins here.
std::size_t QuotesAt(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(text[at], at), text.size()) - at;
}

// Just behind a string that begins here; one of a single line ends with its line.
std::size_t EndOfString(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::size_t quote_count = QuotesAt(text, at);
  if (quote_count == 2) return at + 2;
  const bool has_lines = quote_count >= kLongQuotes;
  for (at += has_lines ? kLongQuotes : 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (!has_lines && (text[at] == quote || text[at] == '\n')) {
      return at + (text[at] == quote ? 1 : 0);
    } else if (has_lines && text[at] == quote && QuotesAt(text, at) >= kLongQuotes) {
      // Two more are its own last characters.
      return at + std::min(QuotesAt(text, at), kLongQuotes + 2);
    }
  }
  return text.size();
}

}  // namespace

absl::Status CheckTomlDepth(std::string_view text) {
  int line = 1;
  std::size_t point_count = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char here = text[at];
    if (here == '"' || here == '\'') {
      const std::size_t end = EndOfString(text, at);
      line += static_cast<int>(std::count(text.begin() + at, text.begin() + end, '\n'));
      at = end;
      continue;
    }
    if (here == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (here == '\n') {
      ++line;
      point_count = 0;
    }
    if (here == '.' && ++point_count > kMaxPoints) {
      return absl::InvalidArgumentError(
          ToAbsl(Cat("line ", line, ": more than ", kMaxPoints, " tables in one another")));
    }
    ++at;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text) {
  KERF_RETURN_IF_ERROR(CheckTomlDepth(text));
  const toml::parse_result result = toml::parse(text);
  if (result.failed()) return Wrong(result.error().source(), result.error().description());
  std::vector<TomlEntry> entries;
  std::vector<std::string> path;
  KERF_RETURN_IF_ERROR(AddTable(result.table(), path, entries));
  return entries;
}

std::string QuoteToml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned>(byte));
      quoted += escape.data();
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace kerf
