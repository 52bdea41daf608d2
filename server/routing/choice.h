// Which of the workers that answer get calls: those that have their index, and the same one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kerf::routing {

// A worker that answers. Views of what outlives the call.
struct Candidate {
  std::string_view name;
  // Of its index; empty: it says nothing of that.
  std::string_view index;
  // Why it says that it has no index; empty: it has one.
  std::string_view trouble;
  // Its calls fail (outlier.h).
  bool is_ejected = false;
};

struct Choice {
  // Of each candidate, why it gets no calls; empty: it does.
  std::vector<std::string> unused;
  // That of the workers that are used; empty: none says which it has.
  std::string index;
  // Nobody has an index: those that are used only tell of that, and know when it is back.
  bool is_without_index = false;
};

// Of several indexes that of most workers is used; of as many, `last_index` if it is one of them,
// else that of the worker whose name is smallest. Workers without an index are used where all are
// without: they say best what is wrong, and what they were sent goes on when it is mended. Of those
// that could be used half at most are left out for being ejected, by name.
Choice Choose(const std::vector<Candidate>& candidates, std::string_view last_index);

}  // namespace kerf::routing
