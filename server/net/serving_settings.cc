#include "server/net/serving_settings.h"

#include "base/strings.h"
#include "server/net/listen_address.h"

namespace kerf {
namespace {

std::string CheckListen(const std::string& text) {
  return std::string(MessageOf(ParseListenAddress(text).status()));
}

}  // namespace

void AddServingSettings(OptionSet& options, ServingSettings& settings) {
  options.AddTexts(
      {"listen", "Where to serve: unix:PATH or HOST:PORT, port 0 picks one; may be repeated",
       "ADDRESS"},
      settings.listen, CheckListen);
  options.AddNumber({"max-streams", "Uploads of this process at the same time; more are refused"},
                    settings.max_streams, 1, 1'000'000);
  options.AddNumber(
      {"max-connections",
       "Clients connected over TCP at the same time, three open files each; one more takes the "
       "place of one without calls, or is refused"},
      settings.max_connections, 1, 1'000'000);
  options.AddSize(
      {"memory",
       "Of all streams: half for cutting and uncommitted chunks, a quarter for messages "
       "that wait. gRPC's buffers may take as much once more. Of a front: for all "
       "messages; half is for those on their way to workers, an equal share for each of "
       "--max-streams"},
      settings.memory_bytes);
  options.AddTime({"idle-evict-ms",
                   "When places or memory run out, a stream that was silent between files for this "
                   "long is ended for others"},
                  settings.idle_evict);
  options.AddTime(
      {"write-stall-timeout-ms", "A stream whose client does not read its answers ends after this"},
      settings.write_stall);
  options.AddTime(
      {"stall-warn-ms",
       "The log tells of a stream that waits for one thing for this long, and for what"},
      settings.stall_warn);
  options.AddTime({"self-check-ms",
                   "kerfd connects this often to where it listens: it is not ready where nobody "
                   "answers, and after six times as long /healthz says that it is to be started "
                   "anew"},
                  settings.self_check);
}

}  // namespace kerf
