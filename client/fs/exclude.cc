#include "client/fs/exclude.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <span>

#include "base/status.h"
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

constexpr std::string_view kClasses[] = {"alnum", "alpha", "blank", "cntrl", "digit", "graph",
                                         "lower", "print", "punct", "space", "upper", "xdigit"};

// Reads a "[...]" of a component as fnmatch(3) does, and says why that can match nothing.
class BracketCheck {
 public:
  // `text` begins behind the '['.
  explicit BracketCheck(std::string_view text) : rest_(text) {}

  // Behind its ']' afterwards.
  absl::Status Run() {
    if (rest_.starts_with('!') || rest_.starts_with('^')) rest_.remove_prefix(1);
    // A ']' in front is one of the characters.
    bool is_first = true;
    while (is_first || !rest_.starts_with(']')) {
      is_first = false;
      KERF_RETURN_IF_ERROR(Item());
    }
    rest_.remove_prefix(1);
    return absl::OkStatus();
  }
  std::string_view rest() const { return rest_; }

 private:
  // A character, a range of them, or a class.
  absl::Status Item() {
    if (rest_.starts_with("[:")) return Class();
    KERF_ASSIGN_OR_RETURN(const unsigned char from, Character());
    if (!rest_.starts_with('-') || rest_.starts_with("-]")) return absl::OkStatus();
    rest_.remove_prefix(1);
    KERF_ASSIGN_OR_RETURN(const unsigned char to, Character());
    if (from <= to) return absl::OkStatus();
    return absl::InvalidArgumentError("a range in '[...]' runs backwards");
  }

  absl::StatusOr<unsigned char> Character() {
    if (rest_.starts_with('\\')) rest_.remove_prefix(1);
    if (rest_.empty()) {
      return absl::InvalidArgumentError("a '[' has no ']' (write \\[ for the character itself)");
    }
    const char character = rest_.front();
    rest_.remove_prefix(1);
    return static_cast<unsigned char>(character);
  }

  absl::Status Class() {
    const std::size_t end = rest_.find(":]");
    const std::string_view name = rest_.substr(2, end == std::string_view::npos ? end : end - 2);
    if (end == std::string_view::npos ||
        std::find(std::begin(kClasses), std::end(kClasses), name) == std::end(kClasses)) {
      return absl::InvalidArgumentError(
          "a '[:' is no class of characters such as [:digit:] (write \\[ for the character "
          "itself)");
    }
    rest_.remove_prefix(end + 2);
    return absl::OkStatus();
  }

  std::string_view rest_;
};

// fnmatch would take what is broken for the characters themselves, or match nothing.
absl::Status CheckComponent(std::string_view component) {
  while (!component.empty()) {
    const char character = component.front();
    component.remove_prefix(1);
    if (character == '\\') {
      if (component.empty()) {
        return absl::InvalidArgumentError(
            "there is nothing behind its last '\\' (write \\\\ for the character itself)");
      }
      component.remove_prefix(1);
    } else if (character == '[') {
      BracketCheck bracket(component);
      KERF_RETURN_IF_ERROR(bracket.Run());
      component = bracket.rest();
    }
  }
  return absl::OkStatus();
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
  for (const std::string& component : pattern.components) {
    if (const absl::Status status = CheckComponent(component); !status.ok()) {
      return Annotate(status, Cat("the exclude pattern '", text, "'"));
    }
  }
  if (!pattern.anchored && pattern.components.front() != kAnyDepth) {
    pattern.components.insert(pattern.components.begin(), std::string(kAnyDepth));
  }
  if (patterns_.size() >= kMaxExcludes) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("the exclude pattern '", text, "' is one too many: ", kMaxExcludes,
                   " are possible; one with '*' or '**', or a directory, stands for many paths")));
  }
  patterns_.push_back(std::move(pattern));
  texts_.emplace_back(text);
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
