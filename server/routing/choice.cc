#include "server/routing/choice.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/strings.h"

namespace kerf::routing {
namespace {

// Of those that have their index, or of all if `counts_lost`; empty: none says which it is.
std::string MostCommonIndex(const std::vector<Candidate>& candidates, bool counts_lost,
                            std::string_view last_index) {
  struct Support {
    std::size_t count = 0;
    std::string_view first_name;
  };
  std::map<std::string_view, Support> by_index;
  for (const Candidate& candidate : candidates) {
    if (candidate.index.empty() || (!candidate.trouble.empty() && !counts_lost)) continue;
    Support& support = by_index[candidate.index];
    if (support.count++ == 0 || candidate.name < support.first_name) {
      support.first_name = candidate.name;
    }
  }
  const auto is_less = [&](const auto& left, const auto& right) {
    if (left.second.count != right.second.count) return left.second.count < right.second.count;
    if ((left.first == last_index) != (right.first == last_index)) return right.first == last_index;
    return left.second.first_name > right.second.first_name;
  };
  const auto best = std::max_element(by_index.begin(), by_index.end(), is_less);
  return best == by_index.end() ? "" : std::string(best->first);
}

}  // namespace

Choice Choose(const std::vector<Candidate>& candidates, std::string_view last_index) {
  Choice choice;
  choice.unused.resize(candidates.size());
  choice.index = MostCommonIndex(candidates, /*counts_lost=*/false, last_index);
  if (choice.index.empty()) choice.index = MostCommonIndex(candidates, true, last_index);
  std::size_t well_count = 0;
  for (std::size_t at = 0; at < candidates.size(); ++at) {
    const Candidate& candidate = candidates[at];
    if (!candidate.index.empty() && candidate.index != choice.index) {
      choice.unused[at] =
          Cat("it has another index, ", candidate.index.substr(0, 64), ", than most workers, ",
              choice.index.substr(0, 64), ": look at its --redis");
    } else if (candidate.trouble.empty()) {
      ++well_count;
    }
  }
  choice.is_without_index = well_count == 0;
  if (choice.is_without_index) return choice;
  std::size_t left_out_count = 0;
  for (std::size_t at = 0; at < candidates.size(); ++at) {
    const Candidate& candidate = candidates[at];
    if (!choice.unused[at].empty()) continue;
    if (!candidate.trouble.empty()) {
      choice.unused[at] = std::string(candidate.trouble);
    } else if (candidate.is_ejected && left_out_count < well_count / 2) {
      ++left_out_count;
      choice.unused[at] = "its calls fail, one after the other";
    }
  }
  return choice;
}

}  // namespace kerf::routing
