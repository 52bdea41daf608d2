#include "base/rpc/line_rate.h"

#include <utility>

namespace kerf {

bool LineRate::Take(std::string_view kind, Time now) {
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) found = kinds_.emplace(std::string(kind), Kind()).first;
  Kind& lines = found->second;
  Time& oldest = lines.said[lines.said_count % kLinesASecond];
  if (lines.said_count >= kLinesASecond && now - oldest < std::chrono::seconds(1)) {
    ++lines.left_out;
    return false;
  }
  oldest = now;
  ++lines.said_count;
  return true;
}

std::map<std::string, std::uint64_t> LineRate::TakeLeftOut() {
  std::map<std::string, std::uint64_t> left_out;
  for (auto& [kind, lines] : kinds_) {
    if (lines.left_out > 0) left_out.emplace(kind, std::exchange(lines.left_out, 0));
  }
  return left_out;
}

}  // namespace kerf
