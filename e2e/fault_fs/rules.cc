#include "e2e/fault_fs/rules.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/strings.h"

namespace kerf::fault_fs {
namespace {

constexpr std::string_view kLate = "late:";
constexpr std::string_view kDrop = "drop:";
constexpr int kErrorNumbers = 134;

std::optional<int> ErrorNumber(std::string_view name) {
  for (int number = 1; number < kErrorNumbers; ++number) {
    const char* const known = strerrorname_np(number);
    if (known != nullptr && name == known) return number;
  }
  return std::nullopt;
}

std::optional<Outcome> ParseOutcome(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Action>, 6> kActions = {
      {{"short", Action::kShort},
       {"zeros", Action::kZeros},
       {"flip", Action::kFlip},
       {"stop", Action::kStop},
       {"kill", Action::kKill},
       {"delay", Action::kDelay}}};
  for (const auto& [name, action] : kActions) {
    if (text == name) return Outcome{action};
  }
  Outcome outcome{Action::kError};
  for (const auto& [prefix, action] :
       {std::pair(kLate, Action::kLateError), std::pair(kDrop, Action::kDropError)}) {
    if (!text.starts_with(prefix)) continue;
    text.remove_prefix(prefix.size());
    outcome.action = action;
    break;
  }
  const auto number = ErrorNumber(text);
  if (!number) return std::nullopt;
  outcome.error = *number;
  return outcome;
}

}  // namespace

absl::StatusOr<Rule> Rule::Parse(std::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(ToAbsl(text), absl::MaxSplits(' ', 4));
  Rule rule;
  if (words.size() < 4 || !absl::SimpleAtoi(words[1], &rule.nth) || rule.nth < 1 ||
      !absl::SimpleAtoi(words[2], &rule.times) || rule.times < 0) {
    return absl::InvalidArgumentError("want OPERATION[,OPERATION]|* NTH TIMES ACTION [PATH]");
  }
  if (words[0] != "*") rule.operations = absl::StrSplit(words[0], ',');
  const auto outcome = ParseOutcome(words[3]);
  if (!outcome) return absl::InvalidArgumentError(Cat("no action ", words[3]));
  rule.outcome = *outcome;
  if (words.size() > 4) rule.path_part = words[4];
  return rule;
}

void Rules::Arm(Rule rule) {
  const std::lock_guard lock(mutex_);
  armed_.push_back({std::move(rule)});
}

void Rules::Clear() {
  const std::lock_guard lock(mutex_);
  armed_.clear();
  counts_.clear();
  hits_ = 0;
}

Outcome Rules::Ask(std::string_view operation, std::string_view path) {
  const std::lock_guard lock(mutex_);
  const auto counted = counts_.find(operation);
  if (counted == counts_.end()) {
    counts_.emplace(operation, 1);
  } else {
    ++counted->second;
  }
  for (Armed& armed : armed_) {
    const Rule& rule = armed.rule;
    const auto& names = rule.operations;
    if (!names.empty() && std::find(names.begin(), names.end(), operation) == names.end()) continue;
    if (path.find(rule.path_part) == std::string_view::npos) continue;
    ++armed.seen;
    if (armed.seen < rule.nth) continue;
    if (rule.times != 0 && armed.seen >= rule.nth + rule.times) continue;
    ++hits_;
    return rule.outcome;
  }
  return {};
}

std::int64_t Rules::hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

std::string Rules::Counts() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, count] : counts_) text += Cat(text.empty() ? "" : " ", name, "=", count);
  return text;
}

}  // namespace kerf::fault_fs
