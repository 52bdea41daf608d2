#include "server/audit/record.h"

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "server/audit/wall_clock.h"

namespace kerf::audit {
namespace {

// U+2026.
constexpr std::string_view kCut = "\xE2\x80\xA6";

// With quotation marks, all in ASCII.
std::string JsonOf(std::string_view text) {
  std::string shown(text.substr(0, kMaxTextBytes));
  if (text.size() > kMaxTextBytes) shown += kCut;
  return nlohmann::json(std::move(shown))
      .dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

template <typename Counts>
std::string CountsOf(const Counts& counts) {
  std::string object;
  for (const auto& [name, count] : counts) {
    if (count == 0) continue;
    object += Cat(object.empty() ? "" : ",", "\"", name, "\":", count);
  }
  return Cat("\"counts\":{", object, "}");
}

}  // namespace

std::string TimeMember(std::int64_t unix_ms) {
  return Cat("\"time\":\"", FormatTime(unix_ms), "\"");
}

std::string MembersOf(const Record& record) {
  std::string members = Cat(TimeMember(record.unix_ms), ",\"event\":\"call\"");
  const auto add = [&members](std::string_view name, std::string_view text) {
    members += Cat(",\"", name, "\":", JsonOf(text));
  };
  add("identity", record.identity);
  add("proof", record.proof);
  add("peer", record.peer);
  add("method", record.method);
  add("repository", record.repository);
  add("digest", record.digest_algorithm);
  add("profile", record.profile);
  add("agent", record.agent);
  members += "," + CountsOf(record.counts);
  add("outcome", record.outcome);
  add("message", record.message);
  add("request_id", record.request_id);
  add("session", record.session);
  add("worker", record.worker);
  return members;
}

std::string EventMembers(std::int64_t unix_ms, std::string_view event,
                         const std::vector<std::pair<std::string_view, std::string>>& texts,
                         const std::vector<std::pair<std::string, std::uint64_t>>& counts) {
  std::string members = Cat(TimeMember(unix_ms), ",\"event\":\"", event, "\"");
  for (const auto& [name, text] : texts) members += Cat(",\"", name, "\":", JsonOf(text));
  if (!counts.empty()) members += "," + CountsOf(counts);
  return members;
}

}  // namespace kerf::audit
