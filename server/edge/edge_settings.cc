#include "server/edge/edge_settings.h"

namespace kerf {
namespace {

constexpr std::uint32_t kMaxUncommitted = 16'777'216;

}  // namespace

void AddEdgeSettings(OptionSet& options, EdgeSettings& settings) {
  options.AddSize(
      {"stream-memory", "Of one stream: half for its cut buffer, a quarter for messages that wait"},
      settings.stream_memory_bytes);
  options.AddNumber({"max-uncommitted-chunks", "Of one stream; about 150 bytes of memory each"},
                    settings.session.max_uncommitted_chunks, 1, kMaxUncommitted);
  options.AddNumber({"max-uncommitted-files", "Of one stream; about 120 bytes of memory each"},
                    settings.session.max_uncommitted_files, 1, kMaxUncommitted);
  options.AddTime({"open-timeout-ms", "A stream without Open ends after this"},
                  settings.open_timeout);
  options.AddTime({"idle-timeout-ms", "A stream that says nothing in mid-file ends after this"},
                  settings.idle_timeout);
  options.AddTime(
      {"index-timeout-ms", "What waits for the index for longer is answered INDEX_UNAVAILABLE"},
      settings.index_timeout);
  options.AddNumber(
      {"max-index-calls",
       "Calls of the Index service at the same time, three quarters of them about one repository; "
       "more are refused"},
      settings.max_index_calls, 1, 100'000);
  options.AddChoice<bool>(
      {"repositories",
       "Which may be used: met, whichever is named; or created, those alone that an operator has "
       "created (`kerf repo create`)"},
      settings.only_created_repositories, {{"met", false}, {"created", true}});
}

}  // namespace kerf
