#include "client/fs/exclude.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <span>

#include "base/strings.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kAnyDepth = "**";

bool MatchComponent(const std::string& pattern, std::string_view name) {
  // Most patterns have no special character.
  if (pattern.find_first_of("*?[\\") == std::string::npos) return pattern == name;
  return fnmatch(pattern.c_str(), std::string(name).c_str(), 0) == 0;
}

// All of `names` against all of `pattern`. Like the usual glob matcher with one point to come back
// to: a later "**" makes the earlier ones irrelevant, so the work is bounded by the product of the
// lengths.
bool MatchComponents(std::span<const std::string> pattern,
                     std::span<const std::string_view> names) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t retry_p = pattern.size() + 1;
  std::size_t retry_n = 0;
  while (n < names.size()) {
    if (p < pattern.size() && pattern[p] == kAnyDepth) {
      retry_p = ++p;
      retry_n = n;
    } else if (p < pattern.size() && MatchComponent(pattern[p], names[n])) {
      ++p;
      ++n;
    } else if (retry_p <= pattern.size()) {
      p = retry_p;
      n = ++retry_n;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == kAnyDepth) ++p;
  return p == pattern.size();
}

}  // namespace

absl::Status ExcludePatterns::Add(std::string_view text) {
  Pattern pattern;
  pattern.anchored = text.starts_with('/');
  pattern.directories_only = text.ends_with('/');
  for (const std::string_view component : SplitPath(text))
    pattern.components.emplace_back(component);
  if (pattern.components.empty() || text.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("the exclude pattern '", text, "' matches nothing")));
  }
  if (!pattern.anchored && pattern.components.front() != kAnyDepth) {
    pattern.components.insert(pattern.components.begin(), std::string(kAnyDepth));
  }
  patterns_.push_back(std::move(pattern));
  return absl::OkStatus();
}

absl::Status ExcludePatterns::AddFile(const std::string& file) {
  errno = 0;
  std::ifstream input(file, std::ios::binary);
  if (!input) return OsError(errno == 0 ? EIO : errno, "cannot open the exclude file", file);
  std::string line;
  for (int number = 1; std::getline(input, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    if (absl::Status status = Add(line); !status.ok()) {
      return Annotate(status, Cat(file, ":", number));
    }
  }
  if (input.bad()) return OsError(EIO, "cannot read the exclude file", file);
  return absl::OkStatus();
}

bool ExcludePatterns::Matches(std::string_view path, bool is_directory) const {
  if (patterns_.empty()) return false;
  const std::vector<std::string_view> names = SplitPath(path);
  for (const Pattern& pattern : patterns_) {
    if (pattern.directories_only && !is_directory) continue;
    if (!pattern.anchored && pattern.components.size() == 2) {
      // "**", then one name: only the last component can match.
      if (MatchComponent(pattern.components[1], names.back())) return true;
      continue;
    }
    if (MatchComponents(pattern.components, names)) return true;
  }
  return false;
}

}  // namespace kerf::agent
