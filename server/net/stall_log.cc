#include "server/net/stall_log.h"

#include <chrono>
#include <string>
#include <vector>

#include "base/strings.h"
#include "server/logging/rated_log.h"

namespace kerf {
namespace {

// A front cannot tell a worker that is slow from one that waits for its client.
bool IsOfClient(WaitPlace place) {
  return place == WaitPlace::kClientData || place == WaitPlace::kClientReading ||
         place == WaitPlace::kQuota || place == WaitPlace::kWorkerAnswer;
}

bool IsOfPeer(WaitPlace place) { return IsOfClient(place) || place == WaitPlace::kWorkerReading; }

LogLevel LevelOf(const StallWatch::News& news) {
  if (news.is_repeated && IsOfPeer(news.place)) return LogLevel::kDebug;
  return news.has_begun && !IsOfClient(news.place) ? LogLevel::kWarning : LogLevel::kInfo;
}

}  // namespace

void LogStall(const StallWatch::News& news, std::span<const LogField> fields) {
  const LogLevel level = LevelOf(news);
  if (!IsLogged(level)) return;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(news.waited);
  std::vector<LogField> all = {{"place", std::string(NameOf(news.place))},
                               {"waited_ms", Cat(waited.count())}};
  all.insert(all.end(), fields.begin(), fields.end());
  const std::string_view what = news.has_begun ? "stream waits" : "stream goes on";
  LogRated(level, Cat(what, ": ", NameOf(news.place)), what, all);
}

}  // namespace kerf
