// Settings in TOML: flat keys in tables. The reader is toml++; this narrows it to what a setting
// can be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf {

struct TomlEntry {
  // The tables around the key: {"backup"} for a key below [backup].
  std::vector<std::string> table;
  std::string key;
  // Of an array its elements, else one.
  std::vector<std::string> values;
  int line = 0;
};

// All entries; those of a table in the order of their keys. Values are strings, integers, booleans
// and arrays of these. InvalidArgument names the line and what is wrong: no TOML, or a value of
// another kind (a float, a date, an array in an array).
absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text);

// InvalidArgument names a line with more points between names than any setting has. Each is a table
// in a table, and toml++ ends the process with those that are nested too deep: whoever gives it a
// text asks this first. ParseToml has.
absl::Status CheckTomlDepth(std::string_view text);

// As a basic string, with its quotes. Bytes that are not UTF-8 cannot be written in TOML: ParseToml
// will refuse them.
std::string QuoteToml(std::string_view text);

}  // namespace kerf
