// The part of TOML that a configuration of flat keys needs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf::agent {

struct TomlEntry {
  // The tables around the key: {"backup"} for a key below [backup].
  std::vector<std::string> table;
  std::string key;
  // Of an array its elements, else one.
  std::vector<std::string> values;
  int line = 0;
};

// Tables, comments, bare and quoted keys, basic and literal strings on one line, integers,
// booleans, and arrays of these, which may go over several lines. InvalidArgument names the line
// and what is wrong: dotted keys, inline tables, multi-line strings, floats and dates are not read,
// a key or table may not come twice.
absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text);

}  // namespace kerf::agent
