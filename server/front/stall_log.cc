#include "server/front/stall_log.h"

#include <chrono>
#include <string>
#include <vector>

#include "base/strings.h"

namespace kerf {
namespace {

// A front cannot tell a worker that is slow from one that waits for its client.
bool IsOfPeer(WaitPlace place) {
  return place == WaitPlace::kClientData || place == WaitPlace::kClientReading ||
         place == WaitPlace::kWorkerAnswer;
}

LogLevel LevelOf(const StallWatch::News& news) {
  if (!IsOfPeer(news.place)) return news.has_begun ? LogLevel::kWarning : LogLevel::kInfo;
  return news.is_repeated ? LogLevel::kDebug : LogLevel::kInfo;
}

}  // namespace

void LogStall(const StallWatch::News& news, std::span<const LogField> fields) {
  const LogLevel level = LevelOf(news);
  if (!IsLogged(level)) return;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(news.waited);
  std::vector<LogField> all = {{"place", std::string(NameOf(news.place))},
                               {"waited_ms", Cat(waited.count())}};
  all.insert(all.end(), fields.begin(), fields.end());
  Log(level, news.has_begun ? "stream waits" : "stream goes on", all);
}

}  // namespace kerf
