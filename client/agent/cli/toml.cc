#include "client/agent/cli/toml.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

bool IsBare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

class TomlParser {
 public:
  explicit TomlParser(std::string_view text) : rest_(text) {}

  absl::StatusOr<std::vector<TomlEntry>> Parse();

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(ToAbsl(Cat("line ", line_, ": ", what)));
  }
  bool AtEnd() const { return rest_.empty(); }
  char Peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  bool Take(char c) {
    if (AtEnd() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void SkipBlanks() {
    while (Peek() == ' ' || Peek() == '\t') rest_.remove_prefix(1);
  }
  // Blanks, comments and line ends.
  void SkipLines();
  // Nothing but a comment may follow on this line.
  absl::Status EndLine();
  absl::Status ParseTable();
  absl::StatusOr<TomlEntry> ParseEntry();
  absl::StatusOr<std::string> ParseKey();
  absl::StatusOr<std::string> ParseValue();
  absl::StatusOr<std::string> ParseString();
  absl::StatusOr<char> ParseEscape();
  absl::StatusOr<std::vector<std::string>> ParseArray();

  std::string_view rest_;
  int line_ = 1;
  std::vector<std::string> table_;
  std::set<std::vector<std::string>> seen_tables_;
};

void TomlParser::SkipLines() {
  while (!AtEnd()) {
    SkipBlanks();
    if (Peek() == '#') rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    Take('\r');
    if (!Take('\n')) return;
    ++line_;
  }
}

absl::Status TomlParser::EndLine() {
  SkipBlanks();
  if (AtEnd() || Peek() == '\n' || Peek() == '\r' || Peek() == '#') return absl::OkStatus();
  return Wrong("there is something behind the value");
}

absl::StatusOr<std::string> TomlParser::ParseKey() {
  if (Peek() == '"' || Peek() == '\'') return ParseString();
  const auto end = std::find_if_not(rest_.begin(), rest_.end(), IsBare);
  std::string key(rest_.begin(), end);
  if (key.empty()) return Wrong("here should be a key, as in: store = \"/backup\"");
  rest_.remove_prefix(key.size());
  return key;
}

absl::StatusOr<char> TomlParser::ParseEscape() {
  constexpr std::string_view kNames = "btnfr\"\\";
  constexpr std::string_view kMeanings = "\b\t\n\f\r\"\\";
  const std::size_t index = kNames.find(Peek());
  if (AtEnd() || index == std::string_view::npos) {
    return Wrong("unknown escape in a string; 'single quotes' take \\ as it is");
  }
  rest_.remove_prefix(1);
  return kMeanings[index];
}

absl::StatusOr<std::string> TomlParser::ParseString() {
  const char quote = Peek();
  rest_.remove_prefix(1);
  std::string value;
  while (!AtEnd() && Peek() != '\n') {
    char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == quote) return value;
    if (c == '\\' && quote == '"') {
      KERF_ASSIGN_OR_RETURN(c, ParseEscape());
    }
    value.push_back(c);
  }
  return Wrong("a string does not end on its line");
}

absl::StatusOr<std::string> TomlParser::ParseValue() {
  if (Peek() == '"' || Peek() == '\'') return ParseString();
  const auto end = std::find_if_not(rest_.begin(), rest_.end(),
                                    [](char c) { return IsBare(c) || c == '+' || c == '.'; });
  std::string value(rest_.begin(), end);
  rest_.remove_prefix(value.size());
  if (value == "true" || value == "false") return value;
  const std::size_t sign = value.starts_with('-') || value.starts_with('+') ? 1 : 0;
  const bool digits =
      value.size() > sign && value.find_first_not_of("0123456789_", sign) == std::string::npos;
  if (!digits) return Wrong("here should be a number, true, false, a \"string\" or an [array]");
  value.erase(std::remove(value.begin(), value.end(), '_'), value.end());
  return value;
}

absl::StatusOr<std::vector<std::string>> TomlParser::ParseArray() {
  std::vector<std::string> values;
  SkipLines();
  while (!Take(']')) {
    KERF_ASSIGN_OR_RETURN(std::string value, ParseValue());
    values.push_back(std::move(value));
    SkipLines();
    if (!Take(',') && Peek() != ']') return Wrong("an array needs ',' or ']' here");
    SkipLines();
  }
  return values;
}

absl::Status TomlParser::ParseTable() {
  table_.clear();
  do {
    SkipBlanks();
    KERF_ASSIGN_OR_RETURN(std::string name, ParseKey());
    table_.push_back(std::move(name));
    SkipBlanks();
  } while (Take('.'));
  if (!Take(']')) return Wrong("a table is written as [backup]");
  if (!seen_tables_.insert(table_).second) return Wrong("this table was there before");
  return EndLine();
}

absl::StatusOr<TomlEntry> TomlParser::ParseEntry() {
  TomlEntry entry;
  entry.table = table_;
  entry.line = line_;
  KERF_ASSIGN_OR_RETURN(entry.key, ParseKey());
  SkipBlanks();
  if (!Take('=')) return Wrong(Cat("there should be '=' behind ", entry.key));
  SkipBlanks();
  if (Take('[')) {
    KERF_ASSIGN_OR_RETURN(entry.values, ParseArray());
  } else {
    KERF_ASSIGN_OR_RETURN(std::string value, ParseValue());
    entry.values.push_back(std::move(value));
  }
  KERF_RETURN_IF_ERROR(EndLine());
  return entry;
}

absl::StatusOr<std::vector<TomlEntry>> TomlParser::Parse() {
  std::vector<TomlEntry> entries;
  std::set<std::pair<std::vector<std::string>, std::string>> seen;
  for (SkipLines(); !AtEnd(); SkipLines()) {
    if (Take('[')) {
      KERF_RETURN_IF_ERROR(ParseTable());
      continue;
    }
    KERF_ASSIGN_OR_RETURN(TomlEntry entry, ParseEntry());
    if (!seen.emplace(entry.table, entry.key).second) {
      return Wrong(Cat(entry.key, " was there before"));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text) {
  return TomlParser(text).Parse();
}

}  // namespace kerf::agent
